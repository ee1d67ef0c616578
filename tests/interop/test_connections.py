"""The life of a connection as stock clients see it: deadlines, cancels, pings, TLS, and a server that goes away."""

import pytest

from interop.client import Client, Connect
from interop.worker import Worker
from support.postgres import Databases
from support.program import Pulsed, running_pulsed

pytestmark = pytest.mark.asyncio(loop_scope="session")

INFO = "StatsService/GetServerInfo"
WATCH = "grpc.health.v1.Health/Watch"


async def submit(client: Client, topic: str, **fields: object) -> str:
    answer = await client.call("JobService/SubmitJob", {"job": {"topic": topic, **fields}})
    job_id: str = answer["job_id"]
    return job_id


async def test_a_deadline_ends_a_stream(client: Client, topic: str) -> None:
    async with Worker(client, topic, timeout=0.5) as worker:
        assert (await worker.ended()).code == "DEADLINE_EXCEEDED"


async def test_a_canceled_stream_lets_its_worker_go(client: Client, topic: str) -> None:
    listing = {"topic": topic}
    async with Worker(client, topic) as worker:
        while not (await client.call("StatsService/ListWorkers", listing))["workers"]:
            pass
        worker.stream.cancel()
        assert (await worker.ended()).code == "CANCELLED"
        while (await client.call("StatsService/ListWorkers", listing))["workers"]:
            pass


async def test_pings_keep_an_idle_stream(connect: Connect, topic: str) -> None:
    """The delayed job is the clock: meanwhile the client asks again and again whether the server is there."""
    pings = {"keepalive_time_ms": 200, "keepalive_timeout_ms": 2000, "keepalive_permit_without_calls": 1}
    async with connect(**pings, **{"http2.max_pings_without_data": 0}) as client, Worker(client, topic) as worker:
        job_id = await submit(client, topic, delay={"seconds": 2})
        assert (await worker.take())["job_id"] == job_id


async def test_health_is_watched(client: Client) -> None:
    watch = client.start(WATCH, {"service": "pulse.v1.JobService"})
    async for message in watch:
        assert message == {"status": "SERVING"}
        break
    watch.cancel()


async def test_a_certificate_of_a_stranger_is_not_trusted(connect: Connect, pulsed: Pulsed) -> None:
    """That is the client's doing; here to show that the tests do speak TLS."""
    async with connect(plain_address=pulsed.address) as plain:
        assert (await plain.refusal(INFO)).code == "UNAVAILABLE"


async def test_a_channel_outlives_its_server(connect: Connect, databases: Databases, topic: str) -> None:
    with databases.migrated() as dsn:
        async with running_pulsed(dsn=dsn) as before, connect(plain_address=before.address) as client:
            async with Worker(client, topic) as worker:
                job_id = await submit(client, topic, delay={"nanos": 1})
                assert (await worker.take())["job_id"] == job_id
                assert await before.stop() == 0
                assert (await worker.ended()).code == "UNAVAILABLE"
            async with running_pulsed(dsn=dsn, port=before.port):
                answer = await client.call("JobService/GetJob", {"job_id": job_id}, timeout=20)
                assert answer["job"]["status"] == "JOB_STATUS_RUNNING"
