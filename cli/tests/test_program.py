"""The program as a user starts it: its version, its help, its completion, its quick start."""

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import click
import pytest

from pulse_cli.command import LazyGroup
from pulse_cli.program import program as root

HEAVY = ("pulse", "pulse_gen", "rich", "pydantic", "grpclib", "asyncio", "bcrypt", "ssl")


def commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """All commands and groups below a group, by the words that name them."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        below = click.Context(command, info_name=name, parent=context)
        yield below.command_path.removeprefix("pulse "), command
        if isinstance(command, click.Group):
            yield from commands(command, below)


ALL = dict(commands(root, click.Context(root, info_name="pulse")))


def test_it_says_its_version(stranger: Any) -> None:
    assert stranger.ok("--version").out == "pulse 0.1.0\n"


def test_every_command_of_the_house_is_there() -> None:
    jobs = ("list", "get", "cancel", "retry", "delete", "watch", "priority")
    schedules = ("list", "create", "get", "pause", "resume", "run", "delete", "fires")
    expected = {f"jobs {verb}" for verb in jobs} | {f"schedules {verb}" for verb in schedules}
    expected |= {f"dispatch {verb}" for verb in ("pause", "resume", "status")}
    expected |= {"submit", "topics list", "workers list", "stats", "explain", "doctor", "save creds", "passwd"}
    assert expected | {"completion", "jobs", "schedules", "dispatch", "topics", "workers", "save", "reference"} == set(
        ALL
    )


@pytest.mark.parametrize("name", [name for name, command in ALL.items() if isinstance(command, LazyGroup)] + [""])
def test_summaries_in_lists_are_the_commands_own(name: str) -> None:
    group = ALL[name] if name else root
    assert isinstance(group, LazyGroup)
    for command, (_, summary) in group._lazy.items():
        if summary:
            found = group.get_command(click.Context(group), command)
            assert found is not None
            assert (found.help or "").splitlines()[0] == summary


def test_every_option_and_command_is_explained() -> None:
    for name, command in ALL.items():
        assert command.help, name
        context = click.Context(command, info_name=name)
        for parameter in command.get_params(context):
            if isinstance(parameter, click.Option):
                assert parameter.help, (name, parameter.name)


@pytest.mark.parametrize("arguments", ["--help", "jobs --help", "jobs list -h", "submit --help"])
def test_help_goes_to_stdout(stranger: Any, arguments: str) -> None:
    done = stranger.ok(*arguments.split())
    assert done.out.startswith("Usage: pulse")
    assert done.err == ""


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["jobs", "--help"], ["jobs", "list", "--nonsense"]])
def test_nothing_heavy_is_loaded_for_help(stranger: Any, arguments: list[str]) -> None:
    script = (
        "import sys; from pulse_cli.program import run\n"
        f"run({arguments!r}); print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=stranger.environment(), check=True
    )
    assert done.stderr.splitlines()[-1] == "[]"


def test_help_starts_quickly(stranger: Any) -> None:
    """Under 300 ms where Python itself takes 15; as a ratio, because machines are busy."""

    def seconds(*command: str) -> float:
        taken = []
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run(
                [sys.executable, *command], check=True, stdout=subprocess.DEVNULL, env=stranger.environment()
            )
            taken.append(time.perf_counter() - start)
        return statistics.median(taken)

    stranger.ok("--help")  # leaves the bytecode behind
    assert seconds("-m", "pulse_cli", "--help") < 15 * seconds("-c", "pass")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(stranger: Any, shell: str) -> None:
    script = stranger.ok("completion", shell).out
    assert f"_PULSE_COMPLETE={shell}_complete" in script
    if executable := shutil.which(shell):
        subprocess.run([executable, "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("pulse jo", {"jobs"}),
        ("pulse jobs re", {"retry"}),
        ("pulse jobs list --st", {"--status"}),
        ("pulse jobs list --status dead", {"dead_lettered"}),
        ("pulse jobs list -o ", {"table", "json", "jsonl"}),
    ],
)
def test_completion_completes(stranger: Any, words: str, expected: set[str]) -> None:
    env = {"_PULSE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    done = stranger.ok(env=env)
    assert {line.partition(",")[2] for line in done.out.splitlines()} == expected


def test_ctrl_c_while_it_loads(stranger: Any) -> None:
    script = "import sys\nclass Loader:\n def find_spec(self, *_): raise KeyboardInterrupt\n"
    script += "from pulse_cli.__main__ import main\nsys.meta_path.insert(0, Loader())\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, **stranger.environment()}
    )
    assert (done.returncode, done.stderr) == (130, "")
