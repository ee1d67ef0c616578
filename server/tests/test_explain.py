"""What holds a job, told truly: every reason by itself, and the way through a server."""

import shlex
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pulse_gen.db.models import DispatchControl, Job, JobStatus
from pulse_gen.db.workers import WorkersListRow
from pulse_gen.rpc.pulse.v1 import (
    CancelJobRequest,
    ExplainJobRequest,
    HoldReason,
    PauseDispatchRequest,
    ResumeDispatchRequest,
)
from pulsed.explain import explain_job
from support.server import Server

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
JOB_ID = uuid.UUID("018f0000-0000-7000-8000-000000000001")
WORKER_ID = uuid.UUID("018f0000-0000-7000-8000-000000000002")


def job(status: JobStatus = JobStatus.PENDING, **fields: Any) -> Job:
    """A job of the topic `mail` that is ready, unless the fields say otherwise."""
    values: dict[str, Any] = dict.fromkeys(Job._fields) | {
        "id": JOB_ID, "status": status, "topic": "mail", "priority": 3, "next_run_at": NOW, "attempts": 0,
        "attempts_forgiven": 0, "max_attempts": 5,
    }  # fmt: skip
    return Job(**values | fields)


def worker(*, capacity: int, held: int) -> WorkersListRow:
    values: dict[str, Any] = dict.fromkeys(WorkersListRow._fields)
    return WorkersListRow(**values | {"id": WORKER_ID, "topics": ["mail"], "capacity": capacity, "held": held})


def switch(scope: str, *, paused: bool = True, reason: str = "", paused_by: str = "") -> DispatchControl:
    return DispatchControl(scope=scope, paused=paused, reason=reason, paused_by=paused_by, paused_at=NOW)


FREE = [worker(capacity=2, held=1)]
RUNNING = job(
    JobStatus.RUNNING, attempts=2, worker_id=WORKER_ID, started_at=NOW, lease_until=NOW + timedelta(seconds=30)
)
FAILED = job(JobStatus.DEAD_LETTERED, finished_at=NOW, attempts=5, last_error="Traceback\nValueError: no")


@pytest.mark.parametrize(
    ("held", "switches", "workers", "reason", "words", "command"),
    [
        (job(JobStatus.COMPLETED, finished_at=NOW, attempts=2), [], FREE, HoldReason.FINISHED,
         ["completed at 2026-01-05 12:00:00 UTC", "attempt 2"], ""),
        (job(JobStatus.CANCELED, finished_at=NOW), [], FREE, HoldReason.FINISHED, ["canceled at"],
         f"pulse jobs retry {JOB_ID}"),
        (FAILED, [], FREE, HoldReason.FINISHED, ["died at", "5 attempts", "ValueError: no"],
         f"pulse jobs retry {JOB_ID}"),
        (FAILED._replace(attempts=1, last_error=""), [], FREE, HoldReason.FINISHED,
         ["1 attempt;", "no error was given"], f"pulse jobs retry {JOB_ID}"),
        (RUNNING, [switch("")], [], HoldReason.RUNNING, [str(WORKER_ID), "attempt 2", "until 2026-01-05 12:00:30 UTC"],
         f"pulse jobs cancel {JOB_ID}"),
        (RUNNING._replace(cancel_requested_at=NOW), [], FREE, HoldReason.RUNNING, ["asked to stop at"], ""),
        (job(next_run_at=NOW + timedelta(seconds=1)), [switch("")], [], HoldReason.LATER, ["12:00:01 UTC, in 1 s"], ""),
        (job(next_run_at=NOW + timedelta(minutes=5)), [], [], HoldReason.LATER, ["in 5 min"], ""),
        (job(next_run_at=NOW + timedelta(days=3)), [], [], HoldReason.LATER, ["in 3 d"], ""),
        (job(JobStatus.RETRYING, next_run_at=NOW + timedelta(hours=3), attempts=3, attempts_forgiven=1), [], FREE,
         HoldReason.LATER, ["Attempt 3 failed", "next of 3", "in 3 h"], f"pulse jobs retry {JOB_ID}"),
        (job(), [switch("", reason="moving", paused_by="ann")], FREE, HoldReason.PAUSED,
         ["Dispatch is paused by ann since 2026-01-05 12:00:00 UTC: moving."], "pulse dispatch resume"),
        (job(), [switch("", paused=False), switch("mail")], [], HoldReason.PAUSED, ["The topic 'mail' is paused since"],
         "pulse dispatch resume --topic mail"),
        (job(), [switch("", paused=False), switch("other")], [], HoldReason.NO_WORKER,
         ["no connected worker", "'mail'"], "pulse workers list"),
        (job(), [], [worker(capacity=2, held=2)], HoldReason.WORKERS_BUSY, ["all 2 slots of the 1 worker "],
         f"pulse jobs priority {JOB_ID} 4"),
        (job(), [], [worker(capacity=2, held=2), worker(capacity=1, held=3)], HoldReason.WORKERS_BUSY,
         ["all 3 slots of the 2 workers"], f"pulse jobs priority {JOB_ID} 4"),
        (job(), [], [worker(capacity=2, held=2), *FREE], HoldReason.NONE, ["Nothing holds it"], ""),
    ],
)  # fmt: skip
def test_the_first_thing_in_a_jobs_way_is_named(
    held: Job, switches: list[DispatchControl], workers: list[WorkersListRow], reason: HoldReason, words: list[str],
    command: str,
) -> None:  # fmt: skip
    explanation = explain_job(held, NOW, switches, workers)
    assert explanation.reason is reason
    for word in words:
        assert word in explanation.text
    assert explanation.command == command


def test_a_topic_in_a_suggested_command_is_one_word_for_the_shell() -> None:
    topic = "mail; rm -rf ~"
    explanation = explain_job(job(topic=topic), NOW, [switch(topic)], [])
    assert shlex.split(explanation.command) == ["pulse", "dispatch", "resume", "--topic", topic]


async def explained(server: Server, job_id: str) -> HoldReason:
    answer = await server.jobs.explain_job(ExplainJobRequest(job_id=job_id))
    assert answer.explanation
    assert answer.job is not None
    assert answer.job.job_id == job_id
    return answer.reason


async def test_a_job_is_explained_through_its_life(timed_server: Server) -> None:
    server = timed_server
    later = await server.submit(delay=timedelta(hours=1))
    assert await explained(server, later) is HoldReason.LATER
    first, second = await server.submit_many(2)
    assert await explained(server, first) is HoldReason.NO_WORKER
    await server.dispatch.pause_dispatch(PauseDispatchRequest(topic="work"))
    async with server.worker(capacity=1) as worker:
        assert await explained(server, first) is HoldReason.PAUSED
        await server.dispatch.resume_dispatch(ResumeDispatchRequest(topic="work"))
        assignment = await worker.take_one()
        await server.app.presence.run_once()
        assert await explained(server, first) is HoldReason.RUNNING
        assert await explained(server, second) is HoldReason.WORKERS_BUSY
        await worker.complete(assignment)
        assert await explained(server, first) is HoldReason.FINISHED
    await server.jobs.cancel_job(CancelJobRequest(job_id=later))
    assert await explained(server, later) is HoldReason.FINISHED
