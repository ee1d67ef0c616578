"""The root of the command line: the list of commands, and the way every run ends."""

import os
import sys
from collections.abc import Sequence

import click

from pulse_cli import __version__
from pulse_cli.command import LazyGroup, Session, connection_options, output_option
from pulse_cli.errors import CommandError, ExitCode, one_line

# Where each command is, and what its help begins with: so the list of them is shown without loading any.
COMMANDS = {
    "jobs": ("jobs:jobs", "Look at jobs and change their fate."),
    "submit": ("submit:submit", "Submit a job and print its id."),
    "schedules": ("schedules:schedules", "Look at schedules and change them."),
    "dispatch": ("dispatch:dispatch", "Pause and resume the giving out of jobs."),
    "topics": ("topics:topics", "Look at topics."),
    "workers": ("workers:workers", "Look at workers."),
    "stats": ("stats:stats", "Show counts, rates, the oldest waiting job and latencies."),
    "explain": ("explain:explain", "Say what holds a job, and what would change it."),
    "doctor": ("doctor:doctor", "Check the way to the server, and say what is wrong."),
    "save": ("save:save", "Save address and credentials."),
    "passwd": ("passwd:passwd", "Make a user's entry for PULSE_AUTH_USERS."),
    "completion": ("completion:completion", "Print the script that completes commands in a shell."),
    # Hidden: it writes docs/cli.md.
    "reference": ("reference:reference", ""),
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
        code: int = _run(list(arguments))
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
    except CommandError as error:
        _complain(error.format_message())
        code = error.code
        # Data is flushed as it is written; what could not be must not be tried again at the end.
        _forget_stdout()
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
