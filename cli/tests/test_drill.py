"""A night on call, as one test."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

import pulse


@pytest.fixture(scope="module")
def server(start_server: Callable[..., str]) -> str:
    """A server with nothing in it."""
    return start_server()


def test_the_day_s_drill(program: Any, working: Callable[..., AbstractContextManager[None]]) -> None:
    mended = False

    def work(job: pulse.Job) -> None:
        return None

    def poison(job: pulse.Job) -> None:
        if not mended:
            raise ValueError("no such customer 4711")

    with working({"work": work, "poison": poison}):
        assert "is paused" in program.ok("dispatch", "pause", "--reason", "db maintenance").err
        status = program.json("dispatch", "status")
        assert (status["everything"]["paused"], status["everything"]["reason"]) == (True, "db maintenance")

        job = program.submit("work", '{"n": 1}')
        explained = program.ok("explain", job).out
        assert "Dispatch is paused" in explained
        assert "db maintenance" in explained
        assert "pulse dispatch resume" in explained
        assert program.json("jobs", "get", job)["status"] == "PENDING"

        program.ok("dispatch", "resume")
        watched = program.ok("jobs", "watch", job, "--for", "20s")
        assert watched.out.splitlines()[-1] == f"{job} COMPLETED, attempt 1"
        assert "It completed at" in program.ok("explain", job).out

        dead = program.submit("poison", '{"n": 2}', "--max-attempts", "1")
        assert "no such customer 4711" in program.run("jobs", "watch", dead, "--for", "20s").out
        listed = program.json("jobs", "list", "--status", "dead_lettered")
        assert [(each["job_id"], each["topic"]) for each in listed] == [(dead, "poison")]
        assert "no such customer 4711" in program.ok("jobs", "list", "--status", "dead_lettered").out
        assert program.json("explain", dead)["suggested_command"] == f"pulse jobs retry {dead}"

        mended = True
        program.ok("jobs", "retry", dead)
        assert program.run("jobs", "watch", dead, "--for", "20s").code == 0
        assert program.json("jobs", "list", "--status", "dead_lettered") == []
