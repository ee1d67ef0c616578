"""Jobs that find a worker waiting for them: stored as running, without a claim."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from pulse_gen.rpc.pulse.v1 import (
    JobAssignment,
    JobOptions,
    JobStatus,
    JobSubmission,
    PauseDispatchRequest,
    StreamSubmitsRequest,
    Unique,
)
from support.server import PATIENCE, BareWorker, Server, running_server

WAITS = (
    "INSERT INTO jobs (id, topic, payload, content_type, priority, max_attempts, status, submitted_at,"
    " next_run_at, ready) VALUES (gen_random_uuid(), 'work', '', 'x', 0, 1, 'PENDING', now(), now(), true)"
    " RETURNING id::text"
)

OF_BLOCKED = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
BLOCKED = f"SELECT count(*) {OF_BLOCKED}"


@asynccontextmanager
async def nothing_is_stored(server: Server) -> AsyncIterator[None]:
    """Inserts wait while this is open."""
    other = await asyncpg.connect(server.dsn)
    async with other.transaction():
        await other.execute("LOCK TABLE jobs IN SHARE MODE")
        yield
    await other.close()


@asynccontextmanager
async def waiting_worker(server: Server, *topics: str, **options: Any) -> AsyncIterator[BareWorker]:
    """A worker that has been given all that there was."""
    async with server.worker(*topics, **options) as worker:
        async with asyncio.timeout(PATIENCE):
            while server.app.dispatcher._maybe_ready or server.app.dispatcher._claiming:
                await asyncio.sleep(0.01)
        yield worker


def free_slots(server: Server) -> int:
    """Those of the one worker, as its server counts them."""
    (stream,) = server.app.dispatcher.workers.values()
    return stream.free


async def until_kept(server: Server) -> None:
    """Until a slot is kept for a job that is being stored."""
    async with asyncio.timeout(PATIENCE):
        while not server.app.dispatcher._starting:
            await asyncio.sleep(0.01)


async def test_it_is_stored_as_running_with_all_that_it_was_submitted_with(server: Server) -> None:
    async with waiting_worker(server) as worker:
        job_id = await server.submit(
            payload=b'{"n": 1}',
            priority=7,
            max_attempts=3,
            timeout=timedelta(seconds=90),
            lease=timedelta(seconds=45),
            tags=["blue"],
            metadata={"trace": "1"},
        )
        job = await server.job(job_id)
        assert await worker.take_one() == JobAssignment(
            job_id=job_id,
            attempt=1,
            topic="work",
            payload=b'{"n": 1}',
            content_type="application/json",
            priority=7,
            max_attempts=3,
            attempts_spent=1,
            timeout=timedelta(seconds=90),
            lease=timedelta(seconds=45),
            tags=["blue"],
            metadata={"trace": "1"},
            submitted_at=job.submitted_at,
        )
        assert (job.status, job.attempts, job.worker_id) == (JobStatus.RUNNING, 1, worker.worker_id)
        # A claim would have come later.
        assert job.started_at == job.submitted_at
        assert job.submitted_at is not None
        assert job.lease_until == job.submitted_at + timedelta(seconds=45)


async def test_the_lease_of_the_topic_or_of_the_server_is_granted(database_dsn: str) -> None:
    settings: dict[str, Any] = {"lease_ttl": "20s", "topic_leases": {"long": "10m"}}
    async with running_server(database_dsn, **settings) as server, waiting_worker(server, "work", "long") as worker:
        await server.submit("work")
        await server.submit("long")
        assert [job.lease for job in await worker.take(2)] == [timedelta(seconds=20), timedelta(minutes=10)]


async def test_a_claim_hands_out_the_same_assignment(server: Server) -> None:
    """But for the attempt, nobody can tell which way a job came."""
    async with waiting_worker(server) as worker:
        await server.submit(tags=["a"], metadata={"b": "c"}, timeout=timedelta(seconds=1.5), priority=-3)
        started = await worker.take_one()
        await worker.snooze(started)
        claimed = await worker.take_one()
    claimed.attempt -= 1
    assert claimed == started


async def test_what_waits_goes_first_even_if_this_server_does_not_know_of_it(database_dsn: str) -> None:
    async with (
        running_server(database_dsn, dispatch_interval="1h") as server,
        waiting_worker(server, capacity=1) as worker,
    ):
        first = await server.database.fetchval(WAITS)
        second = await server.submit()
        taken = await worker.take_one()
        await worker.complete(taken)
        assert [taken.job_id, (await worker.take_one()).job_id] == [first, second]


async def test_the_highest_priority_of_a_group_takes_the_free_slot(server: Server) -> None:
    async with waiting_worker(server, capacity=1) as worker:
        jobs = [JobSubmission(topic="work", options=JobOptions(priority=priority)) for priority in (1, 3, 2)]
        async for _ in server.jobs.stream_submits(iter([StreamSubmitsRequest(jobs=jobs)])):
            pass
        order = []
        for _ in jobs:
            assignment = await worker.take_one()
            order.append(assignment.priority)
            await worker.complete(assignment)
    assert order == [3, 2, 1]


async def test_workers_are_given_jobs_in_turn(server: Server) -> None:
    async with waiting_worker(server) as first, waiting_worker(server) as second:
        for _ in range(4):
            await server.submit()
        assert len(await first.take(2)) == len(await second.take(2)) == 2


async def test_a_paused_topic_starts_nothing(server: Server) -> None:
    async with waiting_worker(server, "work", "other") as worker:
        await server.dispatch.pause_dispatch(PauseDispatchRequest(topic="work"))
        paused = await server.submit("work")
        running = await server.submit("other")
        assert (await worker.take_one()).job_id == running
        assert (await server.job(paused)).status is JobStatus.PENDING


@pytest.mark.parametrize("later", [{"delay": timedelta(hours=1)}, {"run_at": datetime(2099, 1, 1, tzinfo=UTC)}])
async def test_a_job_for_later_waits(server: Server, later: dict[str, Any]) -> None:
    async with waiting_worker(server) as worker:
        job_id = await server.submit(**later)
        assert (await server.job(job_id)).status is JobStatus.PENDING
        await server.submit()
        await worker.take_one()
        assert worker.arrived.empty()


async def test_a_full_worker_is_given_nothing_and_a_free_slot_is_found_by_the_claim(server: Server) -> None:
    async with waiting_worker(server, capacity=1) as worker:
        await server.submit()
        running = await worker.take_one()
        waiting = await server.submit()
        assert (await server.job(waiting)).status is JobStatus.PENDING
        await worker.complete(running)
        assert (await worker.take_one()).job_id == waiting


async def test_no_worker_ever_holds_more_than_its_capacity(server: Server) -> None:
    """Submits that start, claims and reports, all at once."""
    most = 3
    async with waiting_worker(server, capacity=most) as worker:
        submits = [asyncio.create_task(server.submit()) for _ in range(300)]
        for _ in range(len(submits)):
            assignment = await worker.take_one()
            rows = await server.database.fetchval("SELECT count(*) FROM jobs WHERE status = 'RUNNING'")
            assert rows <= most
            await worker.complete(assignment)
        await asyncio.gather(*submits)
    assert await server.statuses() == {"COMPLETED": 300}


async def test_slots_that_a_claim_deals_with_are_kept_for_nobody(server: Server) -> None:
    async with waiting_worker(server, capacity=1) as worker:
        async with nothing_is_stored(server):
            server.app.dispatcher.ready(["work"])
            submitting = asyncio.create_task(server.submit())
            async with asyncio.timeout(PATIENCE):
                while await server.database.fetchval(BLOCKED) < 2:
                    await asyncio.sleep(0.01)
            assert server.app.dispatcher._claiming
            assert free_slots(server) == 1
        await submitting
        await worker.take_one()


async def test_a_repeated_submit_neither_starts_again_nor_frees_the_slot(server: Server) -> None:
    async with waiting_worker(server, capacity=2) as worker:
        job_id = await server.submit()
        assert await server.submit(job_id=job_id) == job_id
        assert free_slots(server) == 1
        await worker.take_one()
        assert worker.arrived.empty()


async def test_a_unique_key_that_is_taken_leaves_the_slot_free(server: Server) -> None:
    async with waiting_worker(server, capacity=2) as worker:
        holder = await server.submit(unique=Unique(key="k"))
        assert await server.submit(unique=Unique(key="k")) == holder
        assert free_slots(server) == 1
        free = await server.submit()
        assert [job.job_id for job in await worker.take(2)] == [holder, free]


async def test_a_worker_that_leaves_meanwhile_loses_nothing(server: Server) -> None:
    """The job was stored as running there: it goes back, and the attempt does not count."""
    async with waiting_worker(server) as worker:
        async with nothing_is_stored(server):
            submitting = asyncio.create_task(server.submit())
            await until_kept(server)
            await worker.__aexit__(None, None, None)
            async with asyncio.timeout(PATIENCE):
                while server.app.dispatcher.workers:
                    await asyncio.sleep(0.01)
        job_id = await submitting
    async with server.worker() as other:
        assignment = await other.take_one()
        assert (assignment.job_id, assignment.attempt, assignment.attempts_spent) == (job_id, 2, 1)


async def test_a_submit_that_fails_frees_the_slot(server: Server) -> None:
    async with waiting_worker(server, capacity=1) as worker:
        async with nothing_is_stored(server):
            submitting = asyncio.create_task(server.submit())
            await until_kept(server)
            await server.database.execute(f"SELECT pg_terminate_backend(pid) {OF_BLOCKED}")
            with pytest.raises(GRPCError) as refused:
                await submitting
            assert refused.value.status is Status.UNAVAILABLE
            assert free_slots(server) == 1
        job_id = await server.submit()
        assert (await worker.take_one()).job_id == job_id


async def test_the_databases_word_does_not_take_back_a_slot_that_is_kept(server: Server) -> None:
    async with waiting_worker(server, capacity=1) as worker, nothing_is_stored(server):
        submitting = asyncio.create_task(server.submit())
        await until_kept(server)
        await server.app.dispatcher._check_full(0.0)
        assert free_slots(server) == 0
    await submitting
    assert worker.arrived.qsize() <= 1
