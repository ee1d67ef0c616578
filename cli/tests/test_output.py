"""Streams: data and the rest apart, tables that fit, quiet on closed pipes, nothing that steers a terminal."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("columns", [120, 80, 45])
def test_tables_fit_the_terminal_and_keep_ids_whole(program: Any, hands: Any, topic: str, columns: int) -> None:
    job = hands.submit(topic + "-" + "wide" * 30, tags=["fits"])
    terminal = program.on_terminal("jobs", "list", "--tag", "fits", columns=columns)
    assert terminal.wait() == 0
    lines = terminal.text.splitlines()
    assert max(len(line) for line in lines) <= columns
    assert any(line.startswith(job) for line in lines)
    # Off a terminal nothing is cut.
    assert topic + "-" + "wide" * 30 in program.ok("jobs", "list", "--tag", "fits").out


def test_colours_on_a_terminal_only_and_not_with_no_color(program: Any, hands: Any, topic: str) -> None:
    hands.submit(topic)
    arguments = ("jobs", "list", "--topic", topic)
    coloured = program.on_terminal(*arguments)
    assert coloured.wait() == 0
    assert "\x1b[36mPENDING" in coloured.raw
    plain = program.on_terminal(*arguments, env={"NO_COLOR": "1"})
    assert plain.wait() == 0
    assert "\x1b" not in plain.raw
    assert "PENDING" in plain.raw
    assert "\x1b" not in program.ok(*arguments).out
    for output in ("json", "jsonl"):
        machine = program.on_terminal(*arguments, "-o", output, columns=40)
        assert machine.wait() == 0
        assert "\x1b" not in machine.raw
        assert json.loads(machine.raw)


def test_data_on_stdout_and_messages_on_stderr(program: Any, hands: Any, topic: str) -> None:
    job = hands.submit(topic)
    assert program.ok("jobs", "cancel", job).out == ""
    done = program.ok("jobs", "retry", job, "-o", "json")
    assert json.loads(done.out)["job_id"] == job
    assert done.err.startswith("retried")
    assert program.ok("jobs", "get", job, "-o", "json").err == ""


def test_what_others_wrote_does_not_steer_the_terminal(program: Any, hands: Any, topic: str) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m\nsecond line"
    job = hands.submit(topic + evil, {"n": evil}, metadata={"k": evil}, tags=["evil"])
    for arguments in (
        ("jobs", "list", "--tag", "evil"),
        ("jobs", "get", job),
        ("jobs", "list", "--tag", "evil", "-o", "jsonl"),
        ("explain", job),
        ("topics", "list"),
    ):
        terminal = program.on_terminal(*arguments, columns=150)
        assert terminal.wait() == 0
        for sequence in ("\x1b]0;", "\x1b[2J", "\u202e", "\x9b", "\x07"):
            assert sequence not in terminal.raw, arguments
    (found,) = program.json("jobs", "list", "--tag", "evil")
    assert found["topic"] == topic + evil


def test_a_closed_pipe_ends_quietly(program: Any, topic: str) -> None:
    program.ok("submit", topic, "--lines", "-", stdin="{}\n" * 1200)
    for output in ("jsonl", "table"):
        reading = program.start("jobs", "list", "--topic", topic, "--limit", "0", "-o", output)
        assert reading.stdout is not None
        assert reading.stdout.readline()
        reading.stdout.close()
        assert reading.wait(30) == 0
        assert reading.stderr is not None
        assert reading.stderr.read() == ""
        reading.stderr.close()


def test_a_pipe_that_closes_while_watching(program: Any, hands: Any, topic: str) -> None:
    reading = program.start("stats", "--watch", "--interval", "100ms", "-o", "jsonl")
    assert reading.stdout is not None
    assert reading.stdout.readline()
    reading.stdout.close()
    assert reading.wait(30) == 0
    assert reading.stderr is not None
    assert reading.stderr.read() == ""
    reading.stderr.close()


def test_a_full_disk_is_one_line(program: Any, hands: Any, topic: str) -> None:
    job = hands.submit(topic)
    for arguments in (("jobs", "get", job, "--payload"), ("jobs", "list", "--topic", topic, "-o", "json")):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                program.command(*arguments), stdout=full, stderr=subprocess.PIPE, env=program.environment(), text=True
            )
        assert done.returncode == 1
        assert done.stderr.startswith("error: can't write the output: No space left on device")
        assert done.stderr.count("\n") == 1


def test_a_terminal_without_the_letters_gets_the_rest(program: Any, hands: Any, topic: str) -> None:
    job = hands.submit(topic, {"name": "Zoë"})
    done = program.ok("jobs", "get", job, env={"PYTHONIOENCODING": "ascii"})
    assert "Zo\\xeb" in done.out
