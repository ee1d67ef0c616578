"""A job's life: every transition, and everything that must not be one."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from pulse_gen.rpc.pulse.v1 import (
    Backoff,
    BackoffKind,
    CancelJobRequest,
    CancelJobsRequest,
    DeleteJobRequest,
    DeleteJobsRequest,
    GetJobRequest,
    JobFilter,
    JobOptions,
    JobStatus,
    JobSubmission,
    RetryJobRequest,
    RetryJobsRequest,
    SubmitJobRequest,
    SubmitJobsRequest,
    Unique,
    UniqueScope,
    UpdateJobPriorityRequest,
    UpdateJobsPriorityRequest,
)
from support.server import Server


async def test_a_job_travels_from_submit_to_completed(server: Server) -> None:
    job_id = await server.submit(payload=b'{"to": "a@b.c"}', priority=7, tags=["x"], metadata={"trace": "1"})
    async with server.worker() as worker:
        assignment = await worker.take_one()
        assert (assignment.job_id, assignment.attempt, assignment.payload) == (job_id, 1, b'{"to": "a@b.c"}')
        assert (assignment.tags, assignment.metadata, assignment.priority) == (["x"], {"trace": "1"}, 7)
        assert assignment.lease == timedelta(seconds=30)
        running = await server.job(job_id)
        assert (running.status, running.worker_id) == (JobStatus.RUNNING, worker.worker_id)
        await worker.complete(assignment)
    job = await server.job(job_id)
    assert job.status is JobStatus.COMPLETED
    assert job.finished_at is not None
    assert job.worker_id == ""


@pytest.mark.parametrize("options", [{}, {"priority": 7, "max_attempts": 3}])
async def test_a_job_is_stored_the_same_alone_among_others_and_with_what_few_jobs_set(
    timed_server: Server, options: dict[str, Any]
) -> None:
    server = timed_server
    await server.submit(**options)
    await server.submit_many(2, **options)
    await server.submit(delay=timedelta(0), **options)
    rows = [dict(row) for row in await server.database.fetch("SELECT * FROM jobs")]
    same = [row for row in rows if row.pop("id") and row.pop("seq")]
    assert len(same) == 4
    assert same == [same[0]] * 4
    assert same[0]["submitted_at"] == same[0]["next_run_at"] == server.clock.moment
    assert same[0]["priority"] == options.get("priority", 0)
    assert same[0]["max_attempts"] == options.get("max_attempts", 5)


async def test_a_failed_job_waits_as_the_square_of_its_attempts_and_then_dies(timed_server: Server) -> None:
    server = timed_server
    job_id = await server.submit(max_attempts=3)
    async with server.worker() as worker:
        for attempt, wait in ((1, 1), (2, 4)):
            assignment = await worker.take_one()
            assert assignment.attempt == attempt
            await worker.fail(assignment, f"boom {attempt}")
            job = await server.job(job_id)
            assert job.status is JobStatus.RETRYING
            assert job.next_run_at == server.clock.moment + timedelta(seconds=wait)
            server.advance(seconds=wait)
        await worker.fail(await worker.take_one(), "boom 3")
    job = await server.job(job_id)
    assert job.status is JobStatus.DEAD_LETTERED
    assert job.last_error == "boom 3"
    assert [(failure.attempt, failure.error) for failure in job.failures] == [
        (1, "boom 1"),
        (2, "boom 2"),
        (3, "boom 3"),
    ]
    assert {failure.worker_id for failure in job.failures} == {worker.worker_id}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (BackoffKind.FIXED, [2, 2, 2, 2]),
        (BackoffKind.LINEAR, [2, 4, 5, 5]),
        (BackoffKind.QUADRATIC, [2, 5, 5, 5]),
        (BackoffKind.EXPONENTIAL, [2, 4, 5, 5]),
    ],
)
async def test_the_wait_grows_by_the_jobs_own_policy_up_to_its_cap(
    timed_server: Server, kind: BackoffKind, expected: list[int]
) -> None:
    server = timed_server
    backoff = Backoff(kind=kind, base=timedelta(seconds=2), cap=timedelta(seconds=5))
    job_id = await server.submit(backoff=backoff, max_attempts=9)
    async with server.worker() as worker:
        for wait in expected:
            await worker.fail(await worker.take_one())
            job = await server.job(job_id)
            assert job.next_run_at == server.clock.moment + timedelta(seconds=wait)
            server.advance(seconds=wait)


async def test_jitter_takes_up_to_its_share_of_the_wait(server: Server) -> None:
    delays = await server.database.fetch(
        "SELECT extract(epoch FROM job_retry_delay('FIXED', '10 s', NULL, 0.5, 1, chance)) AS s"
        " FROM unnest(ARRAY[0, 0.5, 0.9]::float8[]) AS chance"
    )
    assert [round(float(row["s"]), 2) for row in delays] == [10.0, 7.5, 5.5]


async def test_the_worker_can_ask_for_another_wait(timed_server: Server) -> None:
    server = timed_server
    job_id = await server.submit()
    async with server.worker() as worker:
        await worker.fail(await worker.take_one(), retry_after=timedelta(minutes=7))
    job = await server.job(job_id)
    assert job.next_run_at == server.clock.moment + timedelta(minutes=7)


async def test_a_discarded_job_dies_at_once(server: Server) -> None:
    job_id = await server.submit()
    async with server.worker() as worker:
        await worker.fail(await worker.take_one(), "no use", discard=True)
    assert (await server.job(job_id)).status is JobStatus.DEAD_LETTERED


async def test_a_snooze_spends_no_attempt_but_moves_the_fence(timed_server: Server) -> None:
    server = timed_server
    job_id = await server.submit(max_attempts=1)
    async with server.worker() as worker:
        for attempt in (1, 2, 3):
            assignment = await worker.take_one()
            assert (assignment.attempt, assignment.attempts_spent) == (attempt, 1)
            await worker.snooze(assignment, delay=timedelta(seconds=30))
            job = await server.job(job_id)
            assert (job.status, job.attempts_spent) == (JobStatus.PENDING, 0)
            server.advance(seconds=30)
        await worker.fail(await worker.take_one())
    assert (await server.job(job_id)).status is JobStatus.DEAD_LETTERED


async def test_history_keeps_the_latest_twenty_failures(timed_server: Server) -> None:
    server = timed_server
    job_id = await server.submit(max_attempts=25, backoff=Backoff(kind=BackoffKind.FIXED, base=timedelta(seconds=1)))
    async with server.worker() as worker:
        for _ in range(23):
            await worker.fail(await worker.take_one())
            server.advance(seconds=1)
    job = await server.job(job_id)
    assert [failure.attempt for failure in job.failures] == list(range(4, 24))


async def test_an_error_with_nul_or_of_great_length_is_made_to_fit(server: Server) -> None:
    job_id = await server.submit()
    async with server.worker() as worker:
        await worker.fail(await worker.take_one(), "bad\0text " + "é" * 10_000)
    job = await server.job(job_id)
    assert job.last_error.startswith("bad\N{REPLACEMENT CHARACTER}text é")
    assert len(job.last_error.encode()) <= 8192


async def test_a_delayed_job_waits_for_its_time(timed_server: Server) -> None:
    server = timed_server
    at = server.clock.moment + timedelta(minutes=10)
    later = await server.submit(run_at=at)
    async with server.worker() as worker:
        now = await server.submit()
        assert (await worker.take_one()).job_id == now
        server.advance(minutes=10)
        assert (await worker.take_one()).job_id == later


async def test_a_submit_that_is_repeated_makes_one_row(server: Server) -> None:
    job_id = await server.submit()
    again = await server.jobs.submit_job(
        SubmitJobRequest(job=JobSubmission(job_id=job_id, topic="work", payload=b"{}"))
    )
    assert (again.job_id, again.existing) == (job_id, True)
    assert await server.statuses() == {"PENDING": 1}


async def test_an_id_that_names_another_job_is_refused_and_nothing_of_the_batch_is_stored(server: Server) -> None:
    job_id = await server.submit()
    with pytest.raises(GRPCError) as refused:
        await server.jobs.submit_jobs(
            SubmitJobsRequest(
                jobs=[JobSubmission(topic="work"), JobSubmission(job_id=job_id, topic="other", payload=b"{}")]
            )
        )
    assert refused.value.status is Status.ALREADY_EXISTS
    assert await server.statuses() == {"PENDING": 1}


def unique_job(key: str, topic: str = "work", period: timedelta | None = None) -> SubmitJobRequest:
    scope = UniqueScope.UNFINISHED if period is None else UniqueScope.PERIOD
    options = JobOptions(unique=Unique(key=key, scope=scope, period=period))
    return SubmitJobRequest(job=JobSubmission(topic=topic, options=options))


async def test_a_unique_key_answers_with_its_holder_until_that_finishes(server: Server) -> None:
    first = await server.jobs.submit_job(unique_job("k"))
    second = await server.jobs.submit_job(unique_job("k"))
    assert (second.job_id, second.existing) == (first.job_id, True)
    assert not (await server.jobs.submit_job(unique_job("k", topic="other"))).existing
    async with server.worker() as worker:
        await worker.complete(await worker.take_one())
        third = await server.jobs.submit_job(unique_job("k"))
        assert not third.existing
        await worker.fail(await worker.take_one(), discard=True)
    assert not (await server.jobs.submit_job(unique_job("k"))).existing


async def test_a_unique_key_for_a_period_outlives_its_job_and_then_ends(timed_server: Server) -> None:
    server = timed_server
    period = timedelta(hours=1)
    first = await server.jobs.submit_job(unique_job("k", period=period))
    async with server.worker() as worker:
        await worker.complete(await worker.take_one())
    again = await server.jobs.submit_job(unique_job("k", period=period))
    assert (again.job_id, again.existing) == (first.job_id, True)
    server.advance(hours=1)
    assert not (await server.jobs.submit_job(unique_job("k", period=period))).existing


async def test_a_unique_key_within_one_batch_is_held_by_the_first(server: Server) -> None:
    job = unique_job("k").job
    assert job is not None
    answer = await server.jobs.submit_jobs(SubmitJobsRequest(jobs=[job, job, job]))
    assert [result.existing for result in answer.results] == [False, True, True]
    assert len({result.job_id for result in answer.results}) == 1


async def test_a_waiting_job_is_canceled_at_once(server: Server) -> None:
    job_id = await server.submit()
    answer = await server.jobs.cancel_job(CancelJobRequest(job_id=job_id))
    assert answer.status is JobStatus.CANCELED
    assert (await server.job(job_id)).status is JobStatus.CANCELED


async def test_the_worker_of_a_running_job_hears_of_its_cancel_and_the_report_ends_it(server: Server) -> None:
    job_id = await server.submit()
    async with server.worker() as worker:
        assignment = await worker.take_one()
        answer = await server.jobs.cancel_job(CancelJobRequest(job_id=job_id))
        assert answer.status is JobStatus.RUNNING
        cancellation = await worker.cancellations.get()
        assert (cancellation.job_id, cancellation.attempt) == (job_id, 1)
        assert [ref.job_id for ref in (await worker.beat(assignment)).cancellations] == [job_id]
        await worker.fail(assignment, "canceled")
    assert (await server.job(job_id)).status is JobStatus.CANCELED


async def test_a_worker_that_finishes_before_it_hears_of_the_cancel_wins(server: Server) -> None:
    job_id = await server.submit()
    async with server.worker() as worker:
        assignment = await worker.take_one()
        await server.jobs.cancel_job(CancelJobRequest(job_id=job_id))
        await worker.complete(assignment)
    assert (await server.job(job_id)).status is JobStatus.COMPLETED


async def test_a_dead_letter_is_retried_with_fresh_attempts_and_a_fence_that_goes_on(server: Server) -> None:
    job_id = await server.submit(max_attempts=2)
    async with server.worker() as worker:
        await worker.fail(await worker.take_one(), discard=True)
        await server.jobs.retry_job(RetryJobRequest(job_id=job_id))
        assignment = await worker.take_one()
        assert (assignment.attempt, assignment.attempts_spent) == (2, 1)
        await worker.fail(assignment)
    assert (await server.job(job_id)).status is JobStatus.RETRYING


async def refused(call: object) -> GRPCError:
    with pytest.raises(GRPCError) as error:
        await call  # type: ignore[misc]
    return error.value


async def test_steps_that_the_state_does_not_allow_are_refused(server: Server) -> None:
    finished = await server.submit("finished")
    async with server.worker("finished") as worker:
        await worker.complete(await worker.take_one())
    running = await server.submit("running")
    waiting = await server.submit("waiting")
    async with server.worker("running") as worker:
        await worker.take_one()
        for call in (
            server.jobs.cancel_job(CancelJobRequest(job_id=finished)),
            server.jobs.retry_job(RetryJobRequest(job_id=finished)),
            server.jobs.update_job_priority(UpdateJobPriorityRequest(job_id=finished, priority=1)),
            server.jobs.retry_job(RetryJobRequest(job_id=running)),
            server.jobs.delete_job(DeleteJobRequest(job_id=running)),
            server.jobs.update_job_priority(UpdateJobPriorityRequest(job_id=running, priority=1)),
            server.jobs.retry_job(RetryJobRequest(job_id=waiting)),
        ):
            assert (await refused(call)).status is Status.FAILED_PRECONDITION
    nobody = "00000000-0000-7000-8000-000000000000"
    assert (await refused(server.jobs.cancel_job(CancelJobRequest(job_id=nobody)))).status is Status.NOT_FOUND


async def test_a_deleted_job_is_gone(server: Server) -> None:
    job_id = await server.submit()
    await server.jobs.delete_job(DeleteJobRequest(job_id=job_id))
    assert (await refused(server.jobs.get_job(GetJobRequest(job_id=job_id)))).status is Status.NOT_FOUND


async def test_a_changed_priority_changes_the_order(server: Server) -> None:
    first, second = await server.submit_many(2)
    await server.jobs.update_job_priority(UpdateJobPriorityRequest(job_id=second, priority=5))
    async with server.worker(capacity=1) as worker:
        assignment = await worker.take_one()
        assert assignment.job_id == second
        await worker.complete(assignment)
        assert (await worker.take_one()).job_id == first


async def test_bulk_steps_take_what_matches_and_may_be_taken_and_say_how_many(server: Server) -> None:
    await server.submit_many(5, "a", tags=["red"])
    await server.submit_many(3, "b", tags=["red"])
    red = JobFilter(tags=["red"])
    changed = await server.jobs.update_jobs_priority(
        UpdateJobsPriorityRequest(filter=JobFilter(topics=["a"]), priority=9)
    )
    assert (changed.affected, changed.more) == (5, False)
    canceled = await server.jobs.cancel_jobs(CancelJobsRequest(filter=red, limit=6))
    assert (canceled.affected, canceled.more) == (6, True)
    assert (await server.jobs.cancel_jobs(CancelJobsRequest(filter=red))).affected == 2
    assert (await server.jobs.retry_jobs(RetryJobsRequest(filter=JobFilter(topics=["b"])))).affected == 3
    assert (await server.jobs.delete_jobs(DeleteJobsRequest(filter=red))).affected == 8
    assert await server.statuses() == {}


async def test_a_bulk_step_without_a_condition_is_refused(server: Server) -> None:
    await server.submit()
    for call in (
        server.jobs.cancel_jobs(CancelJobsRequest()),
        server.jobs.delete_jobs(DeleteJobsRequest(filter=JobFilter())),
    ):
        error = await refused(call)
        assert error.status is Status.INVALID_ARGUMENT
        assert "filter" in (error.message or "")
    assert await server.statuses() == {"PENDING": 1}


async def test_a_step_on_one_job_waits_for_whoever_has_it_locked(server: Server) -> None:
    job_id = await server.submit()
    async with server.database.transaction():
        await server.database.execute("SELECT * FROM jobs FOR UPDATE")
        canceling = asyncio.ensure_future(server.jobs.cancel_job(CancelJobRequest(job_id=job_id)))
        await asyncio.wait([canceling], timeout=0.1)
        assert not canceling.done()
    assert (await canceling).status is JobStatus.CANCELED


async def test_bulk_steps_go_on_where_the_last_call_stopped(server: Server) -> None:
    await server.submit_many(5)
    work = JobFilter(topics=["work"])
    moves = [
        await server.jobs.update_jobs_priority(UpdateJobsPriorityRequest(filter=work, priority=3, limit=2))
        for _ in range(3)
    ]
    assert [(moved.affected, moved.more) for moved in moves] == [(2, True), (2, True), (1, False)]
    async with server.worker() as worker:
        await worker.take(5)
        cancels = [await server.jobs.cancel_jobs(CancelJobsRequest(filter=work, limit=2)) for _ in range(3)]
    assert [(canceled.affected, canceled.more) for canceled in cancels] == [(2, True), (2, True), (1, False)]


async def test_the_same_id_from_two_callers_at_once_is_one_job_and_two_right_answers(server: Server) -> None:
    job_id = "00000000-0000-7000-8000-000000000001"
    payloads = [b"1", b"1", b"2"]
    requests = [SubmitJobRequest(job=JobSubmission(job_id=job_id, topic="work", payload=each)) for each in payloads]
    async with server.database.transaction():
        # A statement that has to wait lets the three arrive in one group.
        await server.database.execute("LOCK TABLE jobs IN EXCLUSIVE MODE")
        blocker = asyncio.ensure_future(server.submit("other"))
        await asyncio.wait([blocker], timeout=0.05)
        calls = [asyncio.ensure_future(server.jobs.submit_job(request)) for request in requests]
        await asyncio.wait(calls, timeout=0.1)
    answers = await asyncio.gather(*calls, return_exceptions=True)
    stored = [answer for answer in answers if not isinstance(answer, BaseException)]
    refused_calls = [answer for answer in answers if isinstance(answer, GRPCError)]
    assert [answer.existing for answer in stored] == [False, True]
    assert [error.status for error in refused_calls] == [Status.ALREADY_EXISTS]
