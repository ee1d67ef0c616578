"""What a page can't be: the one place that turns errors into a status, a title and words."""

import os
from dataclasses import dataclass

import pulse


@dataclass(frozen=True)
class Problem:
    """What is wrong, and what to do about it."""

    status: int
    title: str
    text: str
    advice: str = ""


class PageError(Exception):
    """Ends the handling of a request with a problem."""

    def __init__(self, status: int, title: str, text: str, advice: str = "") -> None:
        super().__init__(text)
        self.problem = Problem(status, title, text, advice)


class BadField(PageError):
    """A field of the query string or of a form is wrong."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(400, "That address has a mistake", f"{field}: {text}", "Mend the field, or start again.")


def describe(error: pulse.PulseError, address: str) -> Problem:
    """The problem for what the SDK raised in a call to `address`."""
    said = says(error)
    match error:
        case pulse.NotFound():
            return Problem(
                404, "Not here", said, "Finished jobs are removed after a while. The lists show what there is."
            )
        case pulse.DeadlineExceeded():
            return Problem(503, "No answer in time", f"The server at {address} did not answer in time.", RECOVERS)
        case pulse.Unavailable():
            return Problem(503, "Can't reach the server", f"The pulse server at {address}: {said}", ADVICE_DOWN)
        case pulse.ConfigurationError():
            return Problem(503, "Can't reach the server", said, "Start pulse-ui again with the right settings.")
        case pulse.InvalidArgument():
            return Problem(400, "That address has a mistake", said, "Mend the field, or start again.")
        case pulse.AuthError():
            return Problem(403, "Not allowed", said, "Sign in as a user that may do this.")
        case pulse.Conflict():
            return Problem(409, "Not possible now", said)
        case pulse.LimitReached():
            return Problem(503, "A limit is reached", said, RECOVERS)
        case _:
            return Problem(502, "The server failed", said, "Its log says why.")


def says(error: pulse.PulseError) -> str:
    """What the server or the system said, without the SDK's advice to programmers."""
    cause = error.__cause__
    if isinstance(error, pulse.Unavailable) and isinstance(cause, OSError):
        # The system's words: asyncio puts its own in their place ("Connect call failed").
        named = os.strerror(cause.errno) if cause.errno and cause.errno > 0 else cause.strerror
        return f"{named or type(cause).__name__}."
    return str(getattr(cause, "message", None) or error)


RECOVERS = "This page tries again by itself."
ADVICE_DOWN = (
    "Start pulsed there, and look at its log and its database. If the address is wrong, "
    f"set PULSE_ADDR and start pulse-ui again. {RECOVERS}"
)
