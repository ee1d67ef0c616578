"""The pages say what is there: links, files, settings, commands, metrics, statements and names of the SDK exist."""

import ast
import fnmatch
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path

import click
import pytest

import pulse
import pulse_ui.__main__
import pulsed.__main__
from pulse_cli.program import program
from pulse_ui.settings import PREFIX as UI_PREFIX
from pulse_ui.settings import Settings as UiSettings
from pulsed.metrics import Metrics
from pulsed.settings import Settings

ROOT = Path(__file__).parents[1]
FOLDERS = ("cli", "docs", "examples", "gen", "migrations", "proto", "queries", "sdk", "server", "tests", "ui")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *(ROOT / name / "README.md" for name in FOLDERS[5:])])
PAGES = [page for page in PAGES if page.exists()]

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^(?:        |    )(\S.*)$", re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")
# Files that a reader is told to make.
READERS_OWN = {"hello.py"}
# What a shell would not pass to the program.
REST_OF_LINE = re.compile(r"\s+#(?= |$).*| \| .*|; .*| && .*")
ARROW = re.compile("->|[─│┤]|…|\\.\\.\\.")


every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return FENCE.sub("", page.read_text())


@cache
def anchors(page: Path) -> frozenset[str]:
    """What a link can point to in a page: its headings as GitHub writes them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


@cache
def files() -> tuple[str, ...]:
    """Every file that is ours, by its path."""
    found = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts)
    return tuple(f"/{path.relative_to(ROOT)}" for path in (*found, *ROOT.glob("*")))


@cache
def sources() -> str:
    """Everything in Python that could read a variable of the environment."""
    return "\n".join(path.read_text() for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{target}: there is no {file}"
        if anchor:
            assert anchor in anchors(file), f"{target}: {file.name} has no such heading"


@every_page
def test_named_files_exist(page: Path) -> None:
    """A path from the root, or the end of one: `dispatcher.py` will do."""
    for span in SPAN.findall(prose(page)):
        is_file = re.fullmatch(r"[\w.\-/*]+\.(py|sql|proto|md|toml|yaml)", span) and span not in READERS_OWN
        is_folder = re.fullmatch(r"[\w.\-/]+/[\w.\-/]*", span) and span.split("/")[0] in FOLDERS
        if is_file or is_folder:
            assert fnmatch.filter(files(), "*/" + span.rstrip("/")), f"`{span}`: there is no such file"


@every_page
def test_settings_exist(page: Path) -> None:
    known = {f"PULSE_{name.upper()}" for name in Settings.model_fields}
    known |= {f"{UI_PREFIX}{each.name.upper()}" for each in fields(UiSettings)}
    for name in re.findall(r"\bPULSE_[A-Z0-9_]*[*\w]", page.read_text()):
        if name.endswith(("*", "_")):
            assert any(each.startswith(name.rstrip("*")) for each in known), name
        elif name != "PULSE_NAME":
            assert name in known or f'"{name}"' in sources(), f"{name}: nothing reads it"


def command_lines(page: Path) -> Iterator[list[str]]:
    """The calls of our programs, in blocks and between backticks; diagrams and what is cut short are left out."""
    text = page.read_text()
    blocks = [block for language, block in FENCE.findall(text) if language in ("", "sh", "bash", "console")]
    lines = [line for block in blocks for line in block.splitlines()]
    lines += INDENTED.findall(FENCE.sub("", text)) + SPAN.findall(prose(page))
    for line in lines:
        line = line.removeprefix("$ ")
        if line.split(" ")[0] in ("pulse", "pulsed", "pulse-ui") and not ARROW.search(line):
            yield shlex.split(REST_OF_LINE.sub("", line))


def check_pulse(arguments: Sequence[str]) -> None:
    """Finds the command and reads its options as click does, without looking at the values."""
    command: click.Command = program
    context = click.Context(command, info_name="pulse")
    _, rest, _ = command.make_parser(context).parse_args(list(arguments))
    while isinstance(command, click.Group) and rest:
        found = command.get_command(context, rest[0])
        assert found is not None, f"there is no command {rest[0]!r}"
        command, context = found, click.Context(found, context, rest[0])
        _, rest, _ = command.make_parser(context).parse_args(rest[1:])
    assert not rest, f"{rest} is too much"


@every_page
def test_commands_can_be_parsed(page: Path) -> None:
    if page.name == "cli.md":
        pytest.skip("written by the program itself")
    for name, *arguments in command_lines(page):
        try:
            if name == "pulse":
                check_pulse(arguments)
            elif name == "pulse-ui":
                pulse_ui.__main__.make_parser().parse_args(arguments)
            else:
                commands = ("serve", "migrate", "check", "--help", "--version")
                served = arguments if arguments and arguments[0] in commands else ["serve", *arguments]
                pulsed.__main__.make_parser().parse_args(served)
        except (click.UsageError, AssertionError, SystemExit) as error:
            if not (isinstance(error, SystemExit) and not error.code):
                pytest.fail(f"{shlex.join([name, *arguments])}: {error}")


@every_page
def test_sessions_of_nox_exist(page: Path) -> None:
    known = re.findall(r"^@nox\.session.*\ndef (\w+)\(", (ROOT / "noxfile.py").read_text(), re.MULTILINE)
    for name in re.findall(r"(?:nox|noxfile\.py) -s (\w+)", page.read_text()):
        assert name in known, f"there is no session {name}"


def exposed_metrics() -> set[str]:
    """The names of our metrics as Prometheus sees them."""
    declared = re.findall(rb"^# TYPE (pulse_\w+) (?!unknown)", Metrics().render(), re.MULTILINE)
    watched = re.findall(r'metrics\.watch\("(\w+)"', (ROOT / "server/src/pulsed/app.py").read_text())
    return {name.decode() for name in declared if not name.endswith(b"_created")} | set(watched)


def test_metrics_are_documented_and_no_others_are() -> None:
    watching = (ROOT / "docs/operations.md").read_text().split("\n## Watch\n")[1].split("\n## ")[0]
    assert set(re.findall(r"\bpulse_\w+", watching)) == exposed_metrics()


@pytest.mark.parametrize("name", ["architecture.md", "lifecycle.md"])
def test_statements_and_calls_exist(name: str) -> None:
    queries = "\n".join(path.read_text() for path in ROOT.glob("queries/*.sql"))
    contract = "\n".join(path.read_text() for path in ROOT.glob("proto/pulse/v1/*.proto"))
    known = {
        *re.findall(r"^-- name: (\w+)", queries, re.MULTILINE),
        *re.findall(r"^  rpc (\w+)\(", contract, re.MULTILINE),
    }
    text = (ROOT / "docs" / name).read_text()
    verbs = r"(?:Job|Jobs|Schedule|Dispatch|Workers|TopicMinutes|Notify|Submit|Stream|Report|Pause|Resume|Database)"
    for word in re.findall(rf"\b{verbs}[A-Z]\w+", text):
        assert word in known, f"{word}: neither a statement nor an RPC"


@every_page
def test_names_of_the_sdk_exist(page: Path) -> None:
    for name in re.findall(r"`pulse\.([A-Z]\w+)", prose(page)):
        assert hasattr(pulse, name), f"pulse.{name}"
    for name in re.findall(r"`(?:await )?p\.(\w+)", prose(page)):
        assert hasattr(pulse.Pulse, name), f"p.{name}"


@every_page
def test_python_blocks_can_be_compiled(page: Path) -> None:
    for language, block in FENCE.findall(page.read_text()):
        if language == "python":
            ast.parse(block)


def test_the_index_lists_every_page() -> None:
    index = (ROOT / "docs/README.md").read_text()
    listed = {target for target in LINK.findall(index) if "/" not in target}
    assert listed >= {page.name for page in ROOT.glob("docs/*.md")} - {"README.md"}
