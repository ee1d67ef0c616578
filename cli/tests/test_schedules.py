"""`pulse schedules`: create, look, pause, resume, run, delete; by name and by id."""

from typing import Any
from uuid import uuid4

import pytest

KEYS = {
    *("schedule_id", "name", "topic", "paused", "cron", "timezone", "every_seconds", "start", "at", "next_run_at"),
    *("last_fired_at", "upcoming", "misfire_policy", "misfire_limit", "priority", "max_attempts", "tags", "metadata"),
    *("timeout_seconds", "lease_seconds", "unique_key", "unique_period_seconds", "backoff", "content_type", "payload"),
    *("payload_base64", "created_at", "updated_at"),
}


@pytest.mark.parametrize(
    ("timing", "shown", "record"),
    [
        (
            ("--cron", "0 9 * * *", "--tz", "Europe/Berlin"),
            "0 9 * * * (Europe/Berlin)",
            {"cron": "0 9 * * *", "timezone": "Europe/Berlin"},
        ),
        (
            ("--every", "90m", "--start", "2099-01-01T00:00Z"),
            "every 1h 30m",
            {"every_seconds": 5400.0, "start": "2099-01-01T00:00:00.000000Z"},
        ),
        (("--at", "2099-01-01T00:00Z"), "at 2099-01-01 00:00:00 UTC", {"at": "2099-01-01T00:00:00.000000Z"}),
    ],
)
def test_create_and_look(program: Any, topic: str, timing: tuple[str, ...], shown: str, record: Any) -> None:
    options = ("--priority", "3", "--tag", "a", "--misfire", "all", "--misfire-limit", "5")
    created = program.json("schedules", "create", topic, "mail", '{"n": 12345678901234567890}', *timing, *options)
    assert created.keys() == KEYS
    assert {key: created[key] for key in record} == record
    assert (created["name"], created["topic"], created["priority"], created["tags"]) == (topic, "mail", 3, ["a"])
    assert (created["misfire_policy"], created["misfire_limit"]) == ("ALL", 5)
    assert created["payload"] == '{"n":12345678901234567890}'
    assert len(created["upcoming"]) == (1 if "--at" in timing else 5)
    assert program.json("schedules", "get", topic) == created
    assert program.json("schedules", "get", created["schedule_id"]) == created
    assert created in program.json("schedules", "list", "--topic", "mail")
    assert shown in program.ok("schedules", "get", topic).out
    assert shown in program.ok("schedules", "list").out


def test_pause_resume_run_fires_delete(program: Any, topic: str) -> None:
    done = program.ok("schedules", "create", topic, topic, "--every", "1h", "--max-attempts", "2")
    schedule_id = done.out.strip()
    assert "its next run" in done.err
    assert "is taken" in program.refused(6, "schedules", "create", topic, topic, "--every", "2h")
    assert program.json("schedules", "pause", topic) == {"schedule_id": schedule_id, "paused": True}
    assert program.json("schedules", "get", topic)["paused"] is True
    resumed = program.json("schedules", "resume", topic)
    assert resumed["paused"] is False
    assert resumed["next_run_at"] is not None
    job = program.ok("schedules", "run", topic).out.strip()
    fires = program.json("schedules", "fires", topic)
    assert [(each["job_id"], each["schedule_id"]) for each in fires] == [(job, schedule_id)]
    assert job in program.ok("schedules", "fires", schedule_id).out
    assert "deleted" in program.ok("schedules", "delete", topic).err
    for verb in ("get", "pause", "resume", "run", "delete"):
        assert f"no schedule {topic!r}" in program.refused(3, "schedules", verb, topic)
    assert str(uuid := uuid4()) in program.refused(3, "schedules", "get", str(uuid))
    # Its jobs stay, and can still be found.
    assert [each["job_id"] for each in program.json("schedules", "fires", schedule_id)] == [job]


def test_on_a_terminal(program: Any, topic: str) -> None:
    for arguments, shown in (
        (("create", topic, topic, "--every", "1h"), "its next run"),
        (("list",), "every 1h"),
        (("get", topic), "next runs"),
        (("pause", topic), "paused"),
        (("resume", topic), "resumed"),
        (("fires", topic), "it has made no jobs"),
        (("delete", topic), "deleted"),
    ):
        terminal = program.on_terminal("schedules", *arguments)
        assert terminal.wait() == 0
        assert shown in terminal.text
