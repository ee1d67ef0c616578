"""What can go wrong, as one line for a person and one exit code for a script.

This is the one place that turns the SDK's errors into both. The SDK speaks to programmers ("pass timeout="); here its
advice is given again in the words of the command line.
"""

import os
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
        self.code = code


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

    # What the server said, without the SDK's advice to programmers.
    said = getattr(error.__cause__, "message", None) or str(error)
    if isinstance(error, pulse.Unavailable):
        return CommandError(_describe_silence(error, address, timeout), ExitCode.UNAVAILABLE)
    for kind, code, advice in (
        (pulse.Unauthenticated, ExitCode.AUTH, "run `pulse save creds`, or give --user and --password-file"),
        (pulse.AuthError, ExitCode.AUTH, "ask for a user that may, and give it with --user"),
        (pulse.NotFound, ExitCode.NOT_FOUND, "`pulse jobs list` and `pulse schedules list` show what there is"),
        (pulse.AlreadyExists, ExitCode.CONFLICT, "choose another, or look at what has it"),
        (pulse.Conflict, ExitCode.CONFLICT, "`pulse explain JOB` says where a job stands"),
        (pulse.LimitReached, ExitCode.UNAVAILABLE, "try again with less, or later"),
        (pulse.ConfigurationError, ExitCode.USAGE, "`pulse doctor` looks at the whole setup"),
        (pulse.InvalidArgument, ExitCode.USAGE, "mend that value and try again"),
    ):
        if isinstance(error, kind):
            return CommandError(f"{said}; {advice}", code)
    return CommandError(f"{said}; the server's log says why, and `pulse doctor` looks at the setup")


def describe_os_error(error: OSError) -> str:
    """The system's words. asyncio puts its own in their place ("Connect call failed")."""
    from socket import gaierror

    if error.errno is not None and error.errno > 0 and not isinstance(error, gaierror):
        return os.strerror(error.errno)
    return error.strerror or str(error) or type(error).__name__


def _describe_silence(error: "pulse.Unavailable", address: str, timeout: float) -> str:
    import pulse

    cause = error.__cause__
    if isinstance(error, pulse.DeadlineExceeded):
        return (
            f"no answer from {address} within {timeout:g} s, and it may have taken effect; "
            "look, and then try again with a longer --timeout"
        )
    if isinstance(cause, OSError):
        return (
            f"can't reach a pulse server at {address}: {describe_os_error(cause)}; "
            "start pulsed there, or name another address with --addr or PULSE_ADDR"
        )
    if said := getattr(cause, "message", None):
        return f"{address} can't answer now: {said}; try again"
    return f"the connection to {address} broke; try again, and if the server uses TLS, give --tls-ca or --tls"
