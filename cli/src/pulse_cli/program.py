"""The root of the command line: the list of commands, and the way every run ends."""

import os
import sys
from collections.abc import Sequence

import click

from pulse_cli import __version__
from pulse_cli.command import LazyGroup, Session, connection_options, output_option
from pulse_cli.errors import ExitCode, one_line

COMMANDS = {
    "jobs": "jobs:jobs",
    "submit": "submit:submit",
    "schedules": "schedules:schedules",
    "dispatch": "dispatch:dispatch",
    "topics": "topics:topics",
    "workers": "workers:workers",
    "stats": "stats:stats",
    "explain": "explain:explain",
    "doctor": "doctor:doctor",
    "save": "save:save",
    "passwd": "passwd:passwd",
    "completion": "completion:completion",
    "reference": "reference:reference",
}


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    params=[output_option(), *connection_options()],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="pulse", message="%(prog)s %(version)s")
def program() -> None:
    """Look at a pulse job queue and act on it.

    Common options work before and after the command. What is not given comes from the environment, and then from the
    profile that `pulse save creds` keeps.
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code. Whatever happens, a person gets one line and never a traceback."""
    if sys.stdout is not None and hasattr(sys.stdout, "reconfigure"):
        # A terminal that can't show a character still gets the rest.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(list(arguments))
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough: `| head` is no failure.
        code = ExitCode.OK
        _forget_stdout()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = ExitCode.USAGE
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "pulse"
        _complain(f"{_sentence(error.format_message())}; see `{path} --help`")
        code = ExitCode.USAGE
    except click.ClickException as error:
        _complain(error.format_message())
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        _complain("interrupted", prefix="\n" if sys.stderr and sys.stderr.isatty() else "")
        code = ExitCode.INTERRUPTED
    except Exception as error:
        if os.environ.get("PULSE_DEBUG"):
            raise
        name = type(error).__name__
        _complain(f"{name}: {error}; this should not happen: run it with PULSE_DEBUG=1 and report what it shows")
        code = ExitCode.FAILURE
        _forget_stdout()
    return int(code)


def _run(arguments: list[str]) -> int:
    if "_PULSE_COMPLETE" in os.environ:
        program.main(arguments, prog_name="pulse", complete_var="_PULSE_COMPLETE")
    try:
        with program.make_context("pulse", arguments, obj=Session()) as context:
            program.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    return ExitCode.OK


def _sentence(text: str) -> str:
    """Click's messages end with a full stop and sometimes hold a list over several lines."""
    return one_line(text).rstrip(".")


def _complain(message: str, *, prefix: str = "") -> None:
    try:
        click.echo(f"{prefix}error: {one_line(message)}", err=True)
    except OSError:
        # Nobody listens on standard error either: the exit code has to do.
        return


def _forget_stdout() -> None:
    """The interpreter flushes standard output when it ends, and would complain there."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:
        return
