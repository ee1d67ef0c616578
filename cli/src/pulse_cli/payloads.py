"""Where a payload comes from: an argument, a file, standard input. JSON is checked, and sent as it was written."""

import sys
from pathlib import Path

import click

from pulse_cli.command import Session
from pulse_cli.parameters import read_json

JSON = "application/json"
STDIN = "-"


def read_payload(session: Session, argument: str | None, file: str | None, content_type: str | None) -> bytes:
    """The payload's bytes; without any, `null`, which is what tasks without arguments take."""
    if argument is not None and file is not None:
        raise click.UsageError("a payload and --file: give one of them")
    if STDIN in (argument, file):
        content = read_stdin(session)
    elif file is not None:
        content = read_file(file)
    else:
        content = b"null" if argument is None else argument.encode(errors="surrogateescape")
    if content_type in (None, JSON):
        _check_json(content, "the payload" if file in (None, STDIN) else file)
    return content


def _check_json(content: bytes, name: str) -> None:
    try:
        read_json(content.decode())
    except UnicodeDecodeError:
        raise click.UsageError(f"{name} is not UTF-8 text; if it is not JSON, say what it is: --content-type") from None
    except ValueError as error:
        advice = "quote it for the shell, such as '{\"n\": 1}', or say what it is with --content-type"
        raise click.UsageError(f"{name} is not JSON: {error}; {advice}") from None


def check_stdin(session: Session) -> None:
    """Standard input can be read once."""
    if session.given.get("password_stdin"):
        raise click.UsageError("--password-stdin and data from standard input: use --password-file for one of them")


def read_stdin(session: Session) -> bytes:
    """All of standard input."""
    check_stdin(session)
    return sys.stdin.buffer.read() if sys.stdin else b""


def read_file(file: str) -> bytes:
    """All of a file."""
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{file}: {error.strerror or error}") from None
