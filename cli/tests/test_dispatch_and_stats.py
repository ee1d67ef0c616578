"""`pulse dispatch`, `topics`, `workers` and `stats`."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

import pulse

Working = Callable[..., AbstractContextManager[None]]


def finish(job: pulse.Job) -> None:
    """A handler."""


def test_pause_and_resume_everything_and_one_topic(program: Any, hands: Any, topic: str) -> None:
    switch = program.json("dispatch", "pause", "--topic", topic, "--reason", "bad deploy")
    assert switch.keys() == {"topic", "paused", "reason", "paused_by", "paused_at"}
    assert (switch["topic"], switch["paused"], switch["reason"]) == (topic, True, "bad deploy")
    job = hands.submit(topic)
    assert f"pulse dispatch resume --topic {topic}" in program.ok("explain", job).out
    program.ok("dispatch", "pause", "--reason", "maintenance")
    status = program.json("dispatch", "status")
    assert (status["everything"]["topic"], status["everything"]["reason"]) == (None, "maintenance")
    assert [each["topic"] for each in status["topics"] if each["paused"]] == [topic]
    table = program.ok("dispatch", "status").out
    assert "maintenance" in table
    assert f"topic {topic}" in table
    assert "but everything is paused" in program.ok("dispatch", "resume", "--topic", topic).err
    program.ok("dispatch", "pause", "--topic", topic)
    assert f"still paused on their own: {topic}" in program.ok("dispatch", "resume").err
    assert program.json("dispatch", "resume", "--topic", topic)["paused"] is False


def test_topics_and_workers(program: Any, hands: Any, topic: str, working: Working) -> None:
    hands.submit(topic, delay=3600)
    with working({topic: finish}, concurrency=3):
        hands.until_counted(topic, later=1, workers=1)
        (found,) = (each for each in program.json("topics", "list") if each["topic"] == topic)
        assert found.keys() == {
            *("topic", "ready", "later", "running", "workers", "free_slots", "paused", "oldest_waiting_seconds"),
        }
        assert (found["ready"], found["later"], found["workers"], found["paused"]) == (0, 1, 1, False)
        (worker,) = program.json("workers", "list", "--topic", topic)
        assert worker.keys() == {
            *("worker_id", "host", "version", "topics", "capacity", "held", "connected_at", "last_seen_at"),
            "server_id",
        }
        assert worker["topics"] == [topic]
        assert worker["worker_id"] in program.ok("workers", "list").out
        assert topic in program.ok("topics", "list").out
        for command in ("topics", "workers"):
            terminal = program.on_terminal(command, "list")
            assert terminal.wait() == 0
            assert topic[:8] in terminal.text
    assert program.ok("workers", "list", "--topic", topic).err == "no workers are connected\n"


def test_stats(program: Any, hands: Any, topic: str, working: Working) -> None:
    hands.submit(topic, delay=3600)
    done = hands.submit(topic)
    with working({topic: finish}):
        program.ok("jobs", "watch", done)
    hands.until_counted(topic, later=1, ready=0, running=0)
    stats = program.json("stats", "--topic", topic, "--window", "10m")
    assert stats.keys() == {"taken_at", "window_seconds", "total", "topics"}
    assert stats["total"]["topic"] is None
    (found,) = stats["topics"]
    assert found.keys() == {
        *("topic", "counts", "estimated", "oldest_waiting_seconds", "wait", "run", "submitted", "completed", "failed"),
        *("dead_lettered", "completed_per_second"),
    }
    assert found["topic"] == topic
    assert found["counts"]["pending"] == 1
    assert found["wait"].keys() == {"p50_seconds", "p95_seconds", "p99_seconds", "count"}
    assert topic in program.ok("stats").out


@pytest.mark.parametrize("output", ["jsonl", "table"])
def test_stats_watch_goes_on_until_ctrl_c(
    program: Any, output: str, interrupt: Callable[[Any], tuple[int, str]]
) -> None:
    watching = program.start("stats", "--watch", "--interval", "100ms", "-o", output)
    assert watching.stdout is not None
    lines = [watching.stdout.readline() for _ in range(3)]
    if output == "jsonl":
        taken = [json.loads(line)["taken_at"] for line in lines]
        assert all(taken)
    else:
        lines += [watching.stdout.readline() for _ in range(20)]
        assert sum(line.startswith("TOPIC") for line in lines) >= 2
        assert not any("\x1b" in line for line in lines)
    assert interrupt(watching) == (130, "error: interrupted\n")


def test_stats_watch_on_a_terminal_redraws(program: Any) -> None:
    terminal = program.on_terminal("stats", "--watch", "--interval", "100ms")
    terminal.expect("everything", times=3)
    assert terminal.raw.count("\x1b[2J") >= 3
    terminal.process.send_signal(2)
    assert terminal.wait() == 130
    assert terminal.text.endswith("error: interrupted\n")
