"""StreamSubmits: jobs over a call that stays open."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import asyncpg
import pytest
from grpclib.client import Stream, StreamStreamMethod
from grpclib.const import Status
from grpclib.exceptions import GRPCError, StreamTerminatedError

from pulse_gen.rpc.pulse.v1 import JobSubmission, StreamSubmitsRequest, StreamSubmitsResponse, SubmitJobResponse
from support.server import PATIENCE, Client, Server, running_server

Call = Stream[StreamSubmitsRequest, StreamSubmitsResponse]


def open_call(client: Client) -> Call:
    path = "/pulse.v1.JobService/StreamSubmits"
    method = StreamStreamMethod(client.channel, path, StreamSubmitsRequest, StreamSubmitsResponse)
    return method.open(timeout=PATIENCE)


def job(number: int, **fields: Any) -> JobSubmission:
    return JobSubmission(job_id=str(uuid.UUID(int=number)), topic="work", payload=b"%d" % number, **fields)


async def send(call: Call, *jobs: JobSubmission, together: bool = False) -> None:
    await call.send_message(StreamSubmitsRequest(jobs=list(jobs), together=together))


async def answer(call: Call) -> StreamSubmitsResponse:
    response = await call.recv_message()
    if response is None:
        raise StreamTerminatedError
    return response


async def stored(server: Server) -> list[int]:
    """The jobs in the order of the queue."""
    return [row["id"].int for row in await server.database.fetch("SELECT id FROM jobs ORDER BY seq")]


@asynccontextmanager
async def locked_jobs(server: Server) -> AsyncIterator[None]:
    """Nothing can be stored meanwhile."""
    connection = await asyncpg.connect(server.dsn)
    try:
        async with connection.transaction():
            await connection.execute("LOCK TABLE jobs IN EXCLUSIVE MODE")
            yield
    finally:
        await connection.close()


async def until_waiting_for_the_lock(server: Server) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await server.database.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            await asyncio.sleep(0.01)


async def test_requests_are_stored_and_answered_in_their_order(server: Server) -> None:
    async with open_call(server) as call:
        for number in range(1, 41, 2):
            await send(call, job(number), job(number + 1), together=number % 4 == 1)
        for _ in range(20):
            assert await answer(call) == StreamSubmitsResponse()
        await call.end()
    assert await stored(server) == list(range(1, 41))


async def test_a_refused_job_does_not_keep_the_others_of_its_request_out(server: Server) -> None:
    await server.submit(job_id=str(uuid.UUID(int=9)), payload=b"another")
    nameless = JobSubmission(topic="work")
    async with open_call(server) as call:
        await send(call, job(1), job(2, run_at=None, content_type="a\0b"), job(9), job(1), nameless)
        outcomes = (await answer(call)).outcomes
        await call.end()
    assert outcomes[0].submitted == SubmitJobResponse(job_id=str(uuid.UUID(int=1)))
    assert outcomes[1].refused is not None
    assert outcomes[1].refused.code == Status.INVALID_ARGUMENT.value
    assert outcomes[1].refused.message.startswith("job.content_type: ")
    assert outcomes[2].refused is not None
    assert outcomes[2].refused.code == Status.ALREADY_EXISTS.value
    assert outcomes[3].submitted == SubmitJobResponse(job_id=str(uuid.UUID(int=1)), existing=True)
    assert outcomes[4].submitted is not None
    assert await stored(server) == [9, 1, uuid.UUID(outcomes[4].submitted.job_id).int]


async def test_a_request_that_belongs_together_is_stored_whole_or_not_and_its_error_ends_the_call(
    server: Server,
) -> None:
    async def submit() -> None:
        async with open_call(server) as call:
            await send(call, job(1), job(2), together=True)
            await send(call, job(3), JobSubmission(topic=""), together=True)
            await send(call, job(5), together=True)
            assert await answer(call) == StreamSubmitsResponse()
            await answer(call)

    with pytest.raises(GRPCError) as refusal:
        await submit()
    assert refusal.value.status is Status.INVALID_ARGUMENT
    assert str(refusal.value.message).startswith("jobs[1].topic: ")
    assert await stored(server) == [1, 2]


async def test_a_database_that_does_not_answer_is_an_outcome_and_the_call_goes_on(database_dsn: str) -> None:
    async with running_server(database_dsn, statement_timeout="200ms") as server, open_call(server) as call:
        async with locked_jobs(server):
            await send(call, job(1), job(2))
            refusals = [outcome.refused for outcome in (await answer(call)).outcomes]
        assert [refused and refused.code for refused in refusals] == [Status.UNAVAILABLE.value] * 2
        await send(call, job(1))
        assert await answer(call) == StreamSubmitsResponse()
        await call.end()


async def test_a_batch_that_was_read_behind_one_that_fails_is_not_stored(database_dsn: str) -> None:
    async with running_server(database_dsn, statement_timeout="500ms") as server:

        async def submit() -> None:
            async with open_call(server) as call, locked_jobs(server):
                await send(call, job(1), together=True)
                await send(call, job(2), together=True)
                await answer(call)

        with pytest.raises(GRPCError) as refusal:
            await submit()
        assert refusal.value.status is Status.UNAVAILABLE
        async with open_call(server) as another:
            await send(another, job(3))
            await answer(another)
            await another.end()
        assert await stored(server) == [3]


async def test_an_idle_call_does_not_hold_up_the_stop(database_dsn: str) -> None:
    async with asyncio.timeout(PATIENCE):
        async with running_server(database_dsn, shutdown_timeout="1h") as server:
            call = await open_call(server).__aenter__()
            await send(call, job(1))
            await answer(call)
    with pytest.raises(StreamTerminatedError):
        await answer(call)


async def test_a_server_that_stops_finishes_what_it_has_and_takes_no_more(database_dsn: str) -> None:
    stop = asyncio.Event()
    ready: asyncio.Future[Server] = asyncio.get_running_loop().create_future()

    async def serve() -> None:
        async with running_server(database_dsn, shutdown_timeout="1h") as server:
            ready.set_result(server)
            await stop.wait()

    async def submit(server: Server) -> None:
        # Not the server's own client, which is closed first.
        client = Client(server.app.port)
        with closing(client.channel):
            await submit_over(open_call(client), server)

    async def submit_over(opened: Call, server: Server) -> None:
        async with opened as call:
            async with locked_jobs(server):
                await send(call, job(1))
                await until_waiting_for_the_lock(server)
                stop.set()
                await until_draining(server)
                await send(call, job(2))
            assert await answer(call) == StreamSubmitsResponse()
            await answer(call)

    async def until_draining(server: Server) -> None:
        while server.app.health.ready:
            await asyncio.sleep(0.01)

    async with asyncio.timeout(PATIENCE):
        serving = asyncio.create_task(serve())
        with pytest.raises(GRPCError) as refusal:
            await submit(await ready)
        await serving
    assert refusal.value.status is Status.UNAVAILABLE
    database = await asyncpg.connect(database_dsn)
    assert [row["id"].int for row in await database.fetch("SELECT id FROM jobs")] == [1]
    await database.close()
