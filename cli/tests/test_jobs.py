"""`pulse jobs`: every step, by id and by conditions, on a terminal and off it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from uuid import uuid4

import pulse

Working = Callable[..., AbstractContextManager[None]]

KEYS = {
    *("job_id", "topic", "status", "priority", "attempts", "attempts_spent", "max_attempts", "submitted_at"),
    *("next_run_at", "started_at", "finished_at", "worker_id", "lease_until", "cancel_requested_at", "last_error"),
    *("schedule_id", "scheduled_for", "content_type", "payload_size", "tags", "metadata", "timeout_seconds"),
    *("lease_seconds", "unique_key", "unique_period_seconds", "backoff"),
}


def test_list_as_table_json_and_json_lines(program: Any, hands: Any, topic: str) -> None:
    ids = [hands.submit(topic, {"n": number}) for number in range(3)]
    table = program.ok("jobs", "list", "--topic", topic).out.splitlines()
    assert table[0].split()[:3] == ["JOB", "STATUS", "TOPIC"]
    assert [line.split()[0] for line in table[1:]] == ids[::-1]
    document = program.json("jobs", "list", "--topic", topic)
    assert [job["job_id"] for job in document] == ids[::-1]
    assert all(job.keys() == KEYS for job in document)
    lines = program.ok("jobs", "list", "--topic", topic, "-o", "jsonl").lines()
    assert lines == document


def test_list_says_when_there_are_more(program: Any, hands: Any, topic: str) -> None:
    for _ in range(3):
        hands.submit(topic)
    done = program.ok("jobs", "list", "--topic", topic, "--limit", "2", "-o", "jsonl")
    assert len(done.lines()) == 2
    assert "more than 2" in done.err
    assert len(program.ok("jobs", "list", "--topic", topic, "--limit", "0", "-o", "jsonl").lines()) == 3
    assert "more" not in program.ok("jobs", "list", "--topic", topic, "--limit", "3").err


def test_list_with_nothing_to_show(program: Any) -> None:
    done = program.ok("jobs", "list", "--topic", "never-used")
    assert (done.out, done.err) == ("", "no jobs match\n")
    assert program.json("jobs", "list", "--topic", "never-used") == []
    assert program.ok("jobs", "list", "--topic", "never-used", "-o", "jsonl").out == ""


def test_list_by_every_condition(program: Any, hands: Any, topic: str) -> None:
    job = program.submit(topic, '{"to": "a@b.c", "n": 1}', "--tag", "red", "--tag", "big", "--priority", "7")
    hands.submit(topic, {"to": "x@y.z"})
    for conditions in (
        ("--tag", "red", "--tag", "big"),
        ("--payload", '{"n": 1}'),
        ("--min-priority", "7"),
        ("--min-priority", "7", "--max-priority", "8", "--status", "pending,running"),
    ):
        found = program.json("jobs", "list", "--topic", topic, *conditions)
        assert [each["job_id"] for each in found] == [job], conditions
    assert len(program.json("jobs", "list", "--topic", topic, "--submitted-after", "1h")) == 2
    for nothing in (
        ("--submitted-before", "1h"),
        ("--status", "COMPLETED"),
        ("--error", "boom"),
        ("--schedule", str(uuid4())),
        ("--worker", str(uuid4())),
        ("--max-priority", "-1"),
    ):
        assert program.json("jobs", "list", "--topic", topic, *nothing) == []


def test_get_shows_the_payload_exactly(program: Any, topic: str) -> None:
    # Big integers, digits after the point and the order of keys are what other tools lose.
    text = '{"z": 12345678901234567890, "a": 1.10, "é": "\\u0000"}'
    job = program.submit(topic, text, "--meta", "trace=4711", "--job-timeout", "30s", "--unique", "k")
    whole = program.json("jobs", "get", job)
    assert whole.keys() == KEYS | {"payload", "payload_base64", "failures"}
    assert (whole["payload"], whole["payload_base64"]) == (text, None)
    assert (whole["metadata"], whole["timeout_seconds"], whole["unique_key"]) == ({"trace": "4711"}, 30.0, "k")
    assert program.ok("jobs", "get", job, "--payload").out == text
    assert text in program.ok("jobs", "get", job).out


def test_get_of_a_payload_that_is_not_text(program: Any, topic: str) -> None:
    job = program.ok("submit", topic, "-", "--content-type", "image/png", stdin=b"\xff\x00").out.strip()
    whole = program.json("jobs", "get", job)
    assert (whole["payload"], whole["payload_base64"], whole["content_type"]) == (None, "/wA=", "image/png")
    assert "see it with --payload" in program.ok("jobs", "get", job).out


def test_steps_by_id(program: Any, hands: Any, topic: str) -> None:
    job = hands.submit(topic)
    assert program.ok("jobs", "priority", job, "-5").out == ""
    assert hands.job(job).priority == -5
    assert program.json("jobs", "cancel", job) == {"job_id": job, "status": "CANCELED", "error": None}
    assert "can't be canceled" in program.refused(6, "jobs", "cancel", job)
    assert "retried" in program.ok("jobs", "retry", job).err
    assert "can't be retried" in program.refused(6, "jobs", "retry", job)
    assert "deleted" in program.ok("jobs", "delete", job).err
    for verb in ("get", "cancel", "retry", "delete", "watch"):
        assert f"there is no job {job}" in program.refused(3, "jobs", verb, job)
    assert f"there is no job {job}" in program.refused(3, "jobs", "priority", job, "1")
    assert f"there is no job {job}" in program.refused(3, "explain", job)


def test_one_bad_id_does_not_keep_the_others_from_it(program: Any, hands: Any, topic: str) -> None:
    first, second = hands.submit(topic), hands.submit(topic)
    missing = str(uuid4())
    done = program.run("jobs", "cancel", first, missing, second, "-o", "json")
    assert done.code == 3
    assert [each["status"] for each in done.json()] == ["CANCELED", None, "CANCELED"]
    assert missing in done.err


def test_bulk_counts_then_needs_yes_off_a_terminal(program: Any, hands: Any, topic: str) -> None:
    ids = [hands.submit(topic) for _ in range(3)]
    assert program.ok("jobs", "cancel", "--topic", topic, "--dry-run").out == "3 jobs would be canceled\n"
    assert program.json("jobs", "cancel", "--topic", topic, "--dry-run") == {"count": 3, "capped": False}
    assert "--yes" in program.refused(2, "jobs", "cancel", "--topic", topic)
    assert hands.statuses(*ids) == ["PENDING"] * 3
    assert program.json("jobs", "cancel", "--topic", topic, "--yes") == {"affected": 3}
    assert hands.statuses(*ids) == ["CANCELED"] * 3
    # Nothing is left to do: nothing to ask either.
    assert "0 jobs canceled" in program.ok("jobs", "cancel", "--topic", topic).err


def test_bulk_steps_of_every_kind(program: Any, hands: Any, topic: str) -> None:
    ids = [hands.submit(topic) for _ in range(2)]
    assert program.json("jobs", "priority", "--topic", topic, "-7", "--yes") == {"affected": 2}
    assert {hands.job(job).priority for job in ids} == {-7}
    assert program.json("jobs", "cancel", "--topic", topic, "--yes") == {"affected": 2}
    # Canceled on purpose: a retry by conditions leaves them alone unless it names them.
    assert program.json("jobs", "retry", "--topic", topic, "--yes") == {"affected": 0}
    assert program.json("jobs", "retry", "--topic", topic, "--status", "canceled", "--yes") == {"affected": 2}
    # They wait: a delete by conditions leaves them alone unless it names them.
    assert program.json("jobs", "delete", "--topic", topic, "--yes") == {"affected": 0}
    assert program.json("jobs", "delete", "--topic", topic, "--status", "pending", "--yes") == {"affected": 2}


def test_bulk_reaches_all_of_more_than_one_page(program: Any, topic: str) -> None:
    lines = "\n".join("{}" for _ in range(2100))
    program.ok("submit", topic, "--lines", "-", stdin=lines)
    # The jobs still match after the step: calling until nothing matches would never end.
    assert program.json("jobs", "priority", "--topic", topic, "3", "--yes") == {"affected": 2100}
    assert program.json("jobs", "cancel", "--topic", topic, "--min-priority", "3", "-n")["count"] == 2100
    assert program.json("jobs", "cancel", "--topic", topic, "--yes") == {"affected": 2100}


def test_a_terminal_is_asked(program: Any, hands: Any, topic: str) -> None:
    job = hands.submit(topic)
    terminal = program.on_terminal("jobs", "cancel", "--topic", topic)
    terminal.expect("1 job would be canceled. Go on? [y/N]")
    terminal.send("n")
    assert terminal.wait() == 1
    assert "nothing was changed" in terminal.text
    assert hands.statuses(job) == ["PENDING"]
    terminal = program.on_terminal("jobs", "cancel", "--topic", topic)
    terminal.expect("Go on?")
    terminal.send("y")
    assert terminal.wait() == 0
    assert "1 job canceled" in terminal.text
    assert hands.statuses(job) == ["CANCELED"]


def test_a_running_job_is_asked_to_stop(program: Any, hands: Any, topic: str, working: Working) -> None:
    async def handler(job: pulse.Job) -> None:
        import asyncio

        await asyncio.sleep(60)

    with working({topic: handler}):
        job = hands.submit(topic)
        watching = program.start("jobs", "watch", job)
        assert watching.stdout is not None
        while "RUNNING" not in (line := watching.stdout.readline()):
            assert line, watching.stderr and watching.stderr.read()
        explained = program.json("explain", job)
        assert explained["reason"] == "RUNNING"
        assert explained["suggested_command"] == f"pulse jobs cancel {job}"
        assert "can't be deleted: cancel it first" in program.refused(6, "jobs", "delete", job)
        done = program.ok("jobs", "cancel", job, "-o", "json")
        assert done.json()["status"] == "RUNNING"
        assert "asked the worker" in done.err
        out, err = watching.communicate(timeout=30)
        assert watching.returncode == 1
        assert "CANCELED" in out
        assert err.startswith(f"error: {job} is CANCELED")


def test_watch_gives_up_after_a_while(program: Any, hands: Any, topic: str) -> None:
    job = hands.submit(topic)
    assert "pulse explain" in program.refused(5, "jobs", "watch", job, "--for", "200ms")


def test_watch_is_interrupted(
    program: Any, hands: Any, topic: str, interrupt: Callable[[Any], tuple[int, str]]
) -> None:
    watching = program.start("jobs", "watch", hands.submit(topic))
    assert watching.stdout is not None
    assert "PENDING" in watching.stdout.readline()
    assert interrupt(watching) == (130, "error: interrupted\n")


def test_watch_follows_several_to_the_end(program: Any, hands: Any, topic: str, working: Working) -> None:
    def handler(job: pulse.Job) -> None:
        return None

    ids = [hands.submit(topic) for _ in range(2)]
    with working({topic: handler}):
        lines = program.ok("jobs", "watch", *ids, "-o", "jsonl").lines()
    assert {(line["job_id"], line["status"]) for line in lines} >= {(job, "COMPLETED") for job in ids}
    assert [job["status"] for job in program.json("jobs", "watch", *ids)] == ["COMPLETED"] * 2
    terminal = program.on_terminal("jobs", "watch", ids[0])
    assert terminal.wait() == 0
    assert f"{ids[0]} COMPLETED, attempt 1" in terminal.text


def test_pages_on_a_terminal(program: Any, hands: Any, topic: str) -> None:
    job = hands.submit(topic, {"n": 1})
    for arguments, shown in (
        (("jobs", "list", "--topic", topic), job),
        (("jobs", "get", job), '{"n":1}'),
        (("explain", job), "To change that: pulse workers list"),
        (("jobs", "priority", job, "4"), "has priority 4 now"),
        (("jobs", "cancel", job), f"canceled {job}"),
        (("jobs", "retry", job), f"retried {job}"),
        (("jobs", "delete", job), f"deleted {job}"),
    ):
        terminal = program.on_terminal(*arguments)
        assert terminal.wait() == 0
        assert shown in terminal.text
