"""Leases: heartbeats keep them, silence loses them, and a zombie can't bring them back."""

import asyncio
import uuid
from datetime import timedelta

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from pulse_gen.rpc.pulse.v1 import CancelJobRequest, JobStatus
from support.server import Server, VirtualClock, running_server


async def refused_as_stale(report: object) -> None:
    with pytest.raises(GRPCError) as refused:
        await report  # type: ignore[misc]
    assert refused.value.status is Status.FAILED_PRECONDITION


async def test_a_silent_workers_job_goes_through_the_retry_path(timed_server: Server) -> None:
    server = timed_server
    job_id = await server.submit(max_attempts=2)
    async with server.worker() as worker:
        await worker.take_one()
        server.advance(seconds=29)
        assert await server.app.reports.reap_expired() == 0
        server.advance(seconds=2)
        assert await server.app.reports.reap_expired() == 1
        job = await server.job(job_id)
        assert (job.status, job.last_error) == (JobStatus.RETRYING, "worker lease expired")
        assert job.next_run_at == server.clock.moment + timedelta(seconds=1)
        server.advance(seconds=1)
        await worker.take_one()
        server.advance(seconds=31)
        await server.app.reports.reap_expired()
    job = await server.job(job_id)
    assert job.status is JobStatus.DEAD_LETTERED
    assert [failure.error for failure in job.failures] == ["worker lease expired"] * 2


async def test_heartbeats_keep_a_lease_for_ever(timed_server: Server) -> None:
    server = timed_server
    await server.submit()
    async with server.worker() as worker:
        assignment = await worker.take_one()
        for _ in range(10):
            server.advance(seconds=20)
            answer = await worker.beat(assignment)
            assert not answer.lost
            assert await server.app.reports.reap_expired() == 0
        await worker.complete(assignment)


async def test_a_beat_names_what_is_lost_and_changes_nothing(timed_server: Server) -> None:
    server = timed_server
    lost_id, kept_id = await server.submit_many(2)
    async with server.worker() as worker:
        assignments = {a.job_id: a for a in await worker.take(2)}
        server.advance(seconds=20)
        await worker.beat(assignments[kept_id])
        server.advance(seconds=20)
        await server.app.reports.reap_expired()
        before = await server.job(lost_id)
        answer = await worker.beat(*assignments.values())
        assert [ref.job_id for ref in answer.lost] == [lost_id]
        assert await server.job(lost_id) == before


async def test_a_zombie_can_neither_beat_nor_report(timed_server: Server) -> None:
    server = timed_server
    job_id = await server.submit()
    async with server.worker() as zombie:
        old = await zombie.take_one()
    server.advance(seconds=31)
    await server.app.reports.reap_expired()
    server.advance(seconds=1)
    async with server.worker() as owner:
        new = await owner.take_one()
        assert (new.job_id, new.attempt) == (job_id, 2)
        assert [ref.attempt for ref in (await zombie.beat(old)).lost] == [1]
        await refused_as_stale(zombie.complete(old))
        await refused_as_stale(zombie.fail(old))
        await refused_as_stale(zombie.snooze(old))
        await owner.complete(new)
    assert (await server.job(job_id)).status is JobStatus.COMPLETED


async def test_a_worker_cannot_complete_with_an_earlier_claim_of_its_own(timed_server: Server) -> None:
    """The self-zombie: the same worker holds the job again, and its stuck first handler wakes up."""
    server = timed_server
    job_id = await server.submit()
    async with server.worker() as worker:
        old = await worker.take_one()
        server.advance(seconds=31)
        await server.app.reports.reap_expired()
        server.advance(seconds=1)
        new = await worker.take_one()
        await refused_as_stale(worker.complete(old))
        assert (await server.job(job_id)).status is JobStatus.RUNNING
        assert [ref.attempt for ref in (await worker.beat(old, new)).lost] == [1]
        both = await worker.complete_many([old, new])
        assert [ref.attempt for ref in both.stale] == [1]
    assert (await server.job(job_id)).status is JobStatus.COMPLETED


async def test_a_report_is_taken_once(server: Server) -> None:
    await server.submit()
    async with server.worker() as worker:
        assignment = await worker.take_one()
        await worker.complete(assignment)
        await refused_as_stale(worker.complete(assignment))
        await refused_as_stale(worker.fail(assignment))


async def test_a_batch_of_reports_says_which_were_stale(server: Server) -> None:
    await server.submit_many(3)
    async with server.worker() as worker:
        assignments = await worker.take(3)
        await worker.complete(assignments[1])
        answer = await worker.complete_many(assignments)
        assert [ref.job_id for ref in answer.stale] == [assignments[1].job_id]
    assert await server.statuses() == {"COMPLETED": 3}


async def test_another_workers_report_is_stale(server: Server) -> None:
    await server.submit()
    async with server.worker() as worker:
        assignment = await worker.take_one()
        await refused_as_stale(server.worker(worker_id=str(uuid.uuid4())).complete(assignment))
        await worker.complete(assignment)


async def test_leases_are_set_by_job_then_topic_then_server(database_dsn: str) -> None:
    settings = {"lease_ttl": "40s", "topic_leases": "slow=10m"}
    async with (
        running_server(database_dsn, clock=VirtualClock(), **settings) as server,
        server.worker("quick", "slow") as worker,
    ):
        expected = {
            await server.submit("quick"): 40,
            await server.submit("slow"): 600,
            await server.submit("slow", lease=timedelta(seconds=5)): 5,
        }
        assignments = await worker.take(3)
        assert {a.job_id: a.lease for a in assignments} == {
            job_id: timedelta(seconds=seconds) for job_id, seconds in expected.items()
        }
        server.advance(seconds=1)
        await worker.beat(*assignments)
        for job_id, seconds in expected.items():
            lease_until = (await server.job(job_id)).lease_until
            assert lease_until == server.clock.moment + timedelta(seconds=seconds)


async def test_a_canceled_job_whose_worker_fell_silent_is_canceled(timed_server: Server) -> None:
    server = timed_server
    job_id = await server.submit()
    async with server.worker() as worker:
        await worker.take_one()
        await server.jobs.cancel_job(CancelJobRequest(job_id=job_id))
        server.advance(seconds=31)
        await server.app.reports.reap_expired()
    assert (await server.job(job_id)).status is JobStatus.CANCELED


async def test_thousands_of_expired_leases_are_reaped_once_by_concurrent_watchdogs(
    timed_server: Server, database_dsn: str
) -> None:
    server = timed_server
    await server.database.execute(
        "INSERT INTO jobs (id, topic, payload, content_type, priority, max_attempts, status, submitted_at, next_run_at,"
        " ready, attempts, worker_id, lease_until, started_at) SELECT gen_random_uuid(), 'work', '', 'x', 0, 5,"
        " 'RUNNING', $1, $1, false, 1, gen_random_uuid(), $1, $1 FROM generate_series(1, 5000)",
        server.clock.moment - timedelta(seconds=1),
    )
    async with running_server(database_dsn, clock=server.clock) as other:
        await asyncio.gather(*(each.app.reports.reap_expired() for each in (server, other, server, other)))
    # The other server's own watchdog may have stopped with it in the middle of a batch, which is then left to the next.
    await server.app.reports.reap_expired()
    assert await server.statuses() == {"RETRYING": 5000}
    histories = await server.database.fetch("SELECT DISTINCT jsonb_array_length(failures) AS length FROM jobs")
    assert [row["length"] for row in histories] == [1]


async def test_a_heartbeat_during_a_report_of_the_same_job_neither_waits_nor_calls_it_lost(server: Server) -> None:
    await server.submit()
    async with server.worker() as worker:
        assignment = await worker.take_one()
        async with server.database.transaction():
            await server.database.execute("SELECT * FROM jobs FOR UPDATE")
            answer = await worker.beat(assignment)
        assert not answer.lost
