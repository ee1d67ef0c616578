"""The server outlives its database: restarts, cut connections, a full pool, a deaf listener."""

import asyncio
import os
import signal
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from pulse_gen.rpc.pulse.v1 import JobServiceStub, JobStatus, JobSubmission, SubmitJobRequest, SubmitJobsRequest
from pulsed.embedded import EmbeddedPostgres
from pulsed.migrations import migrate
from pulsed.notifications import Hearing, Listener
from support.server import PATIENCE, Server, running_server


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Waits for something that has no signal of its own."""
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.02)


async def cut_connections(dsn: str) -> None:
    """Terminates every backend of the database but our own."""
    own = await asyncpg.connect(dsn)
    try:
        await own.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    finally:
        await own.close()


async def test_cut_connections_delay_and_break_nothing(server: Server) -> None:
    async with server.worker() as worker:
        for _ in range(3):
            await cut_connections(server.dsn)
            job_id = ""

            async def submitted() -> bool:
                nonlocal job_id
                try:
                    job_id = await server.submit()
                except GRPCError as error:
                    assert error.status is Status.UNAVAILABLE
                return bool(job_id)

            await until(submitted)
            assignment = await worker.take_one()
            while assignment.job_id != job_id:
                assignment = await worker.take_one()
            await worker.complete(assignment)
            assert (await server.job(job_id)).status is JobStatus.COMPLETED


async def test_the_listener_reconnects_as_soon_as_its_connection_was_cut(server: Server) -> None:
    """Its next probe is an hour away."""
    opened = asyncio.Semaphore(0)
    hearing = Hearing(print, print, print, reconnected=opened.release)
    listener = Listener(server.dsn, uuid.uuid4(), hearing, probe_interval=timedelta(hours=1))
    listening = asyncio.create_task(listener.run())
    async with asyncio.timeout(PATIENCE):
        await opened.acquire()
        await cut_connections(server.dsn)
        await opened.acquire()
    listening.cancel()


async def test_the_listener_stays_on_its_connection_while_that_answers(server: Server) -> None:
    opened = 0

    def count_opened() -> None:
        nonlocal opened
        opened += 1

    hearing = Hearing(print, print, print, reconnected=count_opened)
    listener = Listener(server.dsn, uuid.uuid4(), hearing, probe_interval=timedelta(milliseconds=5))
    listening = asyncio.create_task(listener.run())

    async def has_probed() -> bool:
        count = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%DatabaseNow%' AND state = 'idle'"
        return bool(await server.database.fetchval(count))

    await until(has_probed)
    listening.cancel()
    assert opened == 1


@pytest.fixture
async def own_postgres(tmp_path: Path) -> AsyncIterator[EmbeddedPostgres]:
    programs = os.environ.get("PULSE_TEST_POSTGRES_BIN")
    directory = Path("/var/tmp") / f"pulse-survival-{os.getpid()}" if programs else tmp_path
    async with EmbeddedPostgres(directory, bin_dir=Path(programs) if programs else None) as postgres:
        connection = await asyncpg.connect(postgres.dsn)
        await migrate(connection)
        await connection.close()
        yield postgres


async def test_a_worker_goes_on_after_postgres_was_down(own_postgres: EmbeddedPostgres, tmp_path: Path) -> None:
    """Postgres crashes and comes back: the stream stays open, what was running completes, new jobs run."""
    async with running_server(own_postgres.dsn) as server, server.worker() as worker:
        before = await server.submit()
        assignment = await worker.take_one()
        # An immediate crash of one backend makes the postmaster restart all of them and recover.
        backend = await server.database.fetchval("SELECT pg_backend_pid()")
        os.kill(backend, signal.SIGKILL)

        async def completed() -> bool:
            try:
                await worker.complete(assignment)
            except GRPCError as error:
                # A report whose answer was lost in the crash is already known.
                return error.status is Status.FAILED_PRECONDITION
            return True

        await until(completed)
        assert (await server.job(before)).status is JobStatus.COMPLETED
        after = await server.submit()
        assert (await worker.take_one()).job_id == after


async def test_calls_beyond_the_pool_wait_or_are_told_and_heartbeats_pass(database_dsn: str) -> None:
    async with (
        running_server(database_dsn, pool_size=2, statement_timeout="2s", dispatch_interval="1h") as server,
        server.worker() as worker,
    ):
        job_id = await server.submit()
        assignment = await worker.take_one()
        locker = await asyncpg.connect(database_dsn)
        try:
            async with locker.transaction():
                await locker.execute("LOCK TABLE jobs IN EXCLUSIVE MODE")
                calls = [
                    asyncio.ensure_future(
                        JobServiceStub(server.channel).submit_jobs(
                            SubmitJobsRequest(jobs=[JobSubmission(topic="other")])
                        )
                    )
                    for _ in range(90)
                ]
                done, _ = await asyncio.wait(calls, timeout=PATIENCE)
                assert len(done) == len(calls)
                errors = [call.exception() for call in calls]
                statuses = {error.status for error in errors if isinstance(error, GRPCError)}
                assert statuses <= {Status.RESOURCE_EXHAUSTED, Status.UNAVAILABLE}
                assert Status.RESOURCE_EXHAUSTED in statuses
        finally:
            await locker.close()
        assert not (await worker.beat(assignment)).lost
        await worker.complete(assignment)
        assert (await server.job(job_id)).status is JobStatus.COMPLETED


async def test_concurrent_single_submits_share_statements_and_all_arrive(server: Server) -> None:
    ids = await asyncio.gather(
        *(
            server.jobs.submit_job(SubmitJobRequest(job=JobSubmission(topic="work", payload=b"%d" % number)))
            for number in range(300)
        )
    )
    assert len({answer.job_id for answer in ids}) == 300
    assert await server.statuses() == {"PENDING": 300}
