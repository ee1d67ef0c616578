"""What can go wrong, as one line for a person and one exit code for a script.

This is the one place that turns the SDK's errors into both. The SDK speaks to programmers ("pass timeout="); here its
advice is given again in the words of the command line.
"""

from enum import IntEnum
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import pulse


class ExitCode(IntEnum):
    """What a script sees."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    NOT_FOUND = 3
    AUTH = 4
    UNAVAILABLE = 5
    CONFLICT = 6
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.OK: "done",
    ExitCode.FAILURE: "something failed: a watched job died, a line was not submitted, the server broke",
    ExitCode.USAGE: "the command line, a value or the setup is wrong; nothing was done",
    ExitCode.NOT_FOUND: "there is no such job or schedule",
    ExitCode.AUTH: "credentials are missing, wrong, not allowed to do this, or not safely stored",
    ExitCode.UNAVAILABLE: "no server, no answer in time, or a limit of the server; worth another try",
    ExitCode.CONFLICT: "not possible in the present state of the job, or the name or id is taken",
    ExitCode.INTERRUPTED: "Ctrl-C",
}


class CommandError(click.ClickException):
    """The command cannot go on: one line that says what to do next, and an exit code."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILURE) -> None:
        super().__init__(message)
        self.exit_code = int(code)


def one_line(text: str) -> str:
    """Text of any origin as one line that a terminal may be given."""
    return " ".join(printable(line) for line in text.split("\n") if line.strip())


def printable(text: str) -> str:
    """Without control characters: what others wrote must not steer the terminal of whoever reads it."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def translate(error: "pulse.PulseError", address: str, timeout: float) -> CommandError:
    """The line and the exit code for what the SDK raised in a call to `address`."""
    import pulse

    cause = error.__cause__
    # What the server or the system said, without the SDK's advice to programmers.
    said = getattr(cause, "message", None) or str(error)
    match error:
        case pulse.Unauthenticated():
            advice = "run `pulse save creds`, or give --user and --password-file (PULSE_USER, PULSE_PASSWORD_FILE)"
            return CommandError(f"{said}; {advice}", ExitCode.AUTH)
        case pulse.AuthError():
            return CommandError(f"{said}; ask for another user, and give it with --user", ExitCode.AUTH)
        case pulse.NotFound():
            advice = "`pulse jobs list` and `pulse schedules list` show what there is"
            return CommandError(f"{said}; {advice}", ExitCode.NOT_FOUND)
        case pulse.Conflict():
            return CommandError(f"{said}; `pulse explain JOB` says where a job stands", ExitCode.CONFLICT)
        case pulse.InvalidArgument():
            return CommandError(said, ExitCode.USAGE)
        case pulse.DeadlineExceeded():
            return CommandError(
                f"no answer from {address} within {timeout:g} s; it may have taken effect: look, "
                "then try again with a longer --timeout",
                ExitCode.UNAVAILABLE,
            )
        case pulse.Unavailable() if isinstance(cause, OSError):
            return CommandError(
                f"can't reach a pulse server at {address}: {cause.strerror or cause}; "
                "start pulsed there, or name another address with --addr or PULSE_ADDR",
                ExitCode.UNAVAILABLE,
            )
        case pulse.Unavailable() if getattr(cause, "message", None):
            return CommandError(f"{address} can't answer now: {said}; try again", ExitCode.UNAVAILABLE)
        case pulse.Unavailable():
            return CommandError(
                f"the connection to {address} broke; try again, and if the server uses TLS, give --tls-ca or --tls",
                ExitCode.UNAVAILABLE,
            )
        case pulse.LimitReached():
            return CommandError(f"{said}; try again with less, or later", ExitCode.UNAVAILABLE)
        case pulse.ConfigurationError():
            return CommandError(f"{said}; `pulse doctor` looks at the whole setup", ExitCode.USAGE)
        case _:
            return CommandError(f"{said}; the server's log says why, and `pulse doctor` looks at the setup")
