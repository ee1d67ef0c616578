"""Who gets which job: order, fairness, limits, and what happens to jobs on their way."""

import asyncio
import uuid
from datetime import timedelta

import asyncpg
import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from pulse_gen.db.dispatch import AsyncQuerier
from pulse_gen.rpc.pulse.v1 import CancelJobRequest, JobStatus, PauseDispatchRequest, ResumeDispatchRequest
from pulsed.dispatcher import fair_slots
from pulsed.worker_stream import WorkerStream
from support.server import BareWorker, Server, running_server


async def test_higher_priority_goes_first_and_equals_in_the_order_of_submission(server: Server) -> None:
    low = await server.submit_many(2, priority=-1)
    normal = await server.submit_many(2)
    high = await server.submit_many(2, priority=10)
    async with server.worker(capacity=6) as worker:
        assert [assignment.job_id for assignment in await worker.take(6)] == high + normal + low


async def test_priority_is_strict_over_all_topics_of_a_worker(server: Server) -> None:
    a_low = await server.submit("a", priority=1)
    b_high = await server.submit("b", priority=2)
    a_high = await server.submit("a", priority=2)
    async with server.worker("a", "b", capacity=3) as worker:
        assert [job.job_id for job in await worker.take(3)] == [b_high, a_high, a_low]


async def test_a_worker_never_holds_more_than_its_capacity(server: Server) -> None:
    await server.submit_many(20)
    async with server.worker(capacity=3) as worker:
        first = await worker.take(3)
        await server.app.dispatcher.run_once()
        assert (await server.statuses())["RUNNING"] == 3
        assert worker.arrived.empty()
        await worker.complete(first[0])
        await worker.take(1)
        await server.app.dispatcher.run_once()
        assert (await server.statuses())["RUNNING"] == 3


async def test_what_a_worker_held_before_it_reconnected_counts(server: Server) -> None:
    await server.submit_many(5)
    async with server.worker(capacity=2) as worker:
        await worker.take(2)
    async with server.worker(capacity=2, worker_id=worker.worker_id) as again:
        await server.app.dispatcher.run_once()
        assert again.arrived.empty()
        assert (await server.statuses())["RUNNING"] == 2


async def test_reports_through_another_server_free_slots_too(server: Server, database_dsn: str) -> None:
    await server.submit_many(4)
    async with server.worker(capacity=2) as worker, running_server(database_dsn) as other:
        held = await worker.take(2)
        elsewhere = BareWorker(other, worker_id=worker.worker_id)
        await elsewhere.complete_many(held)
        server.app.dispatcher._next_full_check = 0.0
        server.app.dispatcher.probe_soon()
        assert len(await worker.take(2)) == 2


async def test_few_jobs_spread_over_all_workers(server: Server) -> None:
    # Paused until both are there: a claim that began with the first alone would rightly give it everything.
    await server.dispatch.pause_dispatch(PauseDispatchRequest())
    async with server.worker() as first, server.worker() as second:
        await server.submit_many(4)
        await server.dispatch.resume_dispatch(ResumeDispatchRequest())
        assert len(await first.take(2)) == len(await second.take(2)) == 2


def test_slots_are_taken_in_turn_up_to_the_batch() -> None:
    def stream(capacity: int) -> WorkerStream:
        return WorkerStream(uuid.uuid4(), frozenset({"t"}), capacity, "", "")

    a, b, c = stream(1), stream(3), stream(2)
    ids = {a.worker_id: "a", b.worker_id: "b", c.worker_id: "c"}
    assert "".join(ids[slot] for slot in fair_slots([a, b, c], 10)) == "abcbcb"
    assert "".join(ids[slot] for slot in fair_slots([a, b, c], 4)) == "abcb"


async def test_a_worker_gets_only_the_topics_that_it_serves(server: Server) -> None:
    other = await server.submit("other")
    async with server.worker("work") as worker:
        mine = await server.submit("work")
        assert (await worker.take_one()).job_id == mine
    assert (await server.job(other)).status is JobStatus.PENDING


async def test_a_second_stream_of_a_worker_ends_the_first(server: Server) -> None:
    async with server.worker() as first, server.worker(worker_id=first.worker_id) as second:
        error = await first.ended()
        assert isinstance(error, GRPCError)
        assert error.status is Status.ABORTED
        await server.submit()
        await second.take_one()


async def test_jobs_that_were_claimed_and_not_sent_come_back_at_once(server: Server) -> None:
    """The worker's stream ends between claim and send: seen by another worker without waiting for the lease."""
    async with server.worker() as worker:
        (stream,) = server.app.dispatcher.workers.values()
        await server.app.dispatcher.run_once()
        stream._outgoing = asyncio.Event()  # Nobody takes from the outbox any more.
        await server.submit()
        async with asyncio.timeout(10):
            while not stream.held:
                await server.app.dispatcher.run_once()
    async with server.worker() as other:
        assignment = await other.take_one()
        assert (assignment.attempt, assignment.attempts_spent) == (2, 1)
    assert worker.arrived.empty()


async def test_a_job_submitted_to_one_server_reaches_a_worker_of_another_by_notification(
    server: Server, database_dsn: str
) -> None:
    """The other server's poll is far away, so that only the notification can have brought it."""
    async with running_server(database_dsn, dispatch_interval="1h") as other, other.worker() as worker:
        await other.app.listener.connected.wait()
        await asyncio.sleep(0)
        job_id = await server.submit()
        assert (await worker.take_one()).job_id == job_id


async def test_what_others_say_on_the_channel_is_ignored(
    server: Server, database_dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_server(database_dsn, dispatch_interval="1h") as other, other.worker() as worker:
        await other.app.listener.connected.wait()
        for words in ("", "hello", "[]", "1", "{}", '{"from": "x", "cancel": [1]}', '{"from": "x", "topics": [[]]}'):
            await server.database.execute("SELECT pg_notify('pulse', $1)", words)
        job_id = await server.submit()
        assert (await worker.take_one()).job_id == job_id
    assert {record.levelname for record in caplog.records if "notification" in record.message} == {"WARNING"}
    assert "ERROR" not in {record.levelname for record in caplog.records}


async def test_the_poll_finds_what_nobody_told_of(server: Server) -> None:
    async with server.worker() as worker:
        await server.database.execute(
            "INSERT INTO jobs (id, topic, payload, content_type, priority, max_attempts, status, submitted_at,"
            " next_run_at, ready) VALUES (gen_random_uuid(), 'work', '', 'x', 0, 1, 'PENDING', now(), now(), true)"
        )
        assert (await worker.take_one()).attempt == 1


async def test_cancel_reaches_a_worker_of_another_server(server: Server, database_dsn: str) -> None:
    async with running_server(database_dsn) as other, other.worker() as worker:
        await other.app.listener.connected.wait()
        job_id = await other.submit()
        await worker.take_one()
        await server.jobs.cancel_job(CancelJobRequest(job_id=job_id))
        async with asyncio.timeout(10):
            assert (await worker.cancellations.get()).job_id == job_id


async def test_concurrent_claims_are_disjoint_and_each_is_in_order(server: Server) -> None:
    """32 claimers over many jobs: each job is claimed once, and nobody gets a higher one after a lower one."""
    await server.database.execute(
        "INSERT INTO jobs (id, topic, payload, content_type, priority, max_attempts, status, submitted_at,"
        " next_run_at, ready) SELECT gen_random_uuid(), 'bulk', '', 'x', i % 7, 1, 'PENDING', now(), now(), true"
        " FROM generate_series(1, 100000) AS i"
    )
    claimed: list[uuid.UUID] = []

    async def claim_all(pool: "asyncpg.Pool[asyncpg.Record]") -> None:
        worker = uuid.uuid4()
        querier = AsyncQuerier(pool)
        lowest = 6
        while True:
            rows = await querier.job_claim(
                topics=["bulk"],
                slots=[worker] * 500,
                topic_leases="{}",
                default_lease=timedelta(seconds=30),
                now=None,
            )
            if not rows:
                return
            assert all(row.worker_id == worker for row in rows)
            # What is above was taken by somebody, so a claimer's priorities only ever go down.
            assert max(row.priority for row in rows) <= lowest
            lowest = min(row.priority for row in rows)
            claimed.extend(row.id for row in rows)

    async with asyncpg.create_pool(server.dsn, min_size=32, max_size=32) as pool:
        await asyncio.gather(*(claim_all(pool) for _ in range(32)))
    assert len(claimed) == len(set(claimed)) == 100_000
