"""Renders the reference in docs/cli.md from the commands themselves, so that it can't be out of date."""

import inspect
from collections.abc import Iterator

import click

from pulse_cli.command import LocalCommand
from pulse_cli.errors import MEANINGS

HEAD = """\
# pulse(1): the command line

<!-- Written by the program: `PULSE_UPDATE_DOCS=1 pytest cli/tests/test_manual.py` writes it anew. -->

"""

OUTPUT = """\
## Output

Data goes to standard output, everything else (notes, questions, progress, errors) to standard error.

- `-o table`, the default, is for people: tables as wide as the terminal, and uncut where there is none.
- `-o json` is one document: an object, or an array of objects for lists.
- `-o jsonl` is one object a line; lists come as they are read, whatever their length.

Keys are stable, ids are strings, moments are ISO 8601 in UTC, durations are seconds and their keys say so. Payloads are
strings with the exact text, or base64 in `payload_base64` where they are not text.

There are no colours and no animation off a terminal, with `NO_COLOR`, or with `TERM=dumb`. A reader that closes the
pipe ends the command quietly, with exit code 0.

Steps on many jobs count first: `--dry-run` prints the count, a terminal asks, a script needs `--yes`.

Durations are `500ms`, `30s`, `10m`, `12h`, `7d`, or seconds.
"""

CONNECTION = """\
## Connection

Each setting is taken from the first of these that has it: the flag, the environment, the profile.

| flag | environment | profile |
| --- | --- | --- |
| `--addr` | `PULSE_ADDR` | `addr` |
| `--user` | `PULSE_USER` | `user` |
| `--password-file`, `--password-stdin`, `--password` | `PULSE_PASSWORD`, `PULSE_PASSWORD_FILE` | `password` |
| `--tls` | `PULSE_TLS` | `tls` |
| `--tls-ca` | `PULSE_TLS_CA` | `tls_ca` |
| `--profile` | `PULSE_PROFILE` | |

Profiles are kept by `pulse save creds` in `~/.config/pulse/config.json` (below `$XDG_CONFIG_HOME` where that is set),
readable by its owner alone: a file that others can read is refused. A user without a password is asked for it on a
terminal.

A profile is for its own server: where a flag or the environment names another address, the profile `default` is not
used, and a saved password is sent for its own user only. A profile that is asked for by name is used in any case.
"""


def render(root: click.Group) -> str:
    """The whole page."""
    parts = [HEAD, _section(root, click.Context(root, info_name="pulse"), level=2, title="pulse")]
    parts += [OUTPUT, CONNECTION, _exit_codes(), "## Commands\n"]
    for command, context in _commands(root, click.Context(root, info_name="pulse")):
        parts.append(_section(command, context, level=3, title=context.command_path))
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def _exit_codes() -> str:
    rows = "\n".join(f"| {int(code)} | {meaning} |" for code, meaning in MEANINGS.items())
    return f"## Exit codes\n\n| code | meaning |\n| --- | --- |\n{rows}\n"


def _commands(group: click.Group, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """All that can be run, in the order of the help."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if command.hidden:
            continue
        below = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _commands(command, below)
        else:
            yield command, below


def _section(command: click.Command, context: click.Context, *, level: int, title: str) -> str:
    usage = " ".join((context.command_path, *command.collect_usage_pieces(context)))
    common = command.common() if isinstance(command, LocalCommand) else []
    records = [
        record
        for parameter in command.get_params(context)
        if isinstance(parameter, click.Option) and parameter not in common
        if (record := parameter.get_help_record(context)) is not None
    ]
    rows = "\n".join(f"| `{_cell(names)}` | {_cell(words)} |" for names, words in records if "--help" not in names)
    parts = [f"{'#' * level} {title}", f"    {usage}", inspect.cleandoc(command.help or "")]
    if rows:
        parts.append(f"| option | |\n| --- | --- |\n{rows}")
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
