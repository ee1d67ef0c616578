"""Probes and metrics over HTTP."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator

import asyncpg
import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from pulse_gen.rpc.grpc.health.v1 import HealthCheckRequest
from pulse_gen.rpc.pulse.v1 import GetJobRequest
from pulsed.errors import StartupError
from support.server import PATIENCE, Server, running_server
from support.wire import frame, raw_connection


def free_port() -> int:
    with socket.socket() as unbound:
        unbound.bind(("127.0.0.1", 0))
        port: int = unbound.getsockname()[1]
        return port


class Probe:
    """Asks the HTTP port."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def send(self, data: bytes) -> bytes:
        """Everything that the server says to these bytes until it hangs up."""
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(data)
            try:
                return await reader.read()
            except ConnectionResetError:
                return b""
            finally:
                writer.close()

    async def ask(self, path: str, method: str = "GET") -> tuple[int, dict[str, str], str]:
        """Status, headers and body."""
        answer = await self.send(f"{method} {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        head, _, body = answer.decode().partition("\r\n\r\n")
        status, *headers = head.split("\r\n")
        return int(status.split()[1]), dict(header.lower().split(": ", 1) for header in headers), body

    async def until_ready(self, status: int) -> None:
        """Waits until the readiness is that."""
        async with asyncio.timeout(PATIENCE):
            while (await self.ask("/readyz"))[0] != status:
                await asyncio.sleep(0.02)


@pytest.fixture
async def probe(database_dsn: str) -> AsyncIterator[tuple[Probe, Server]]:
    """A server with an HTTP port, and the way to ask it."""
    port = free_port()
    async with running_server(database_dsn, metrics_addr=f"127.0.0.1:{port}") as server:
        yield Probe(port), server


async def test_a_server_that_works_is_alive_and_ready(probe: tuple[Probe, Server]) -> None:
    for path in ("/livez", "/readyz", "/readyz?verbose"):
        status, headers, body = await probe[0].ask(path)
        assert (status, headers["content-type"], headers["connection"]) == (200, "text/plain", "close")
        assert len(body) == int(headers["content-length"])


async def test_metrics_count_calls_and_what_became_of_jobs(probe: tuple[Probe, Server]) -> None:
    asked, server = probe
    job_id = await server.submit('quo"ted')
    with pytest.raises(GRPCError):
        await server.jobs.get_job(GetJobRequest(job_id="no uuid"))
    async with server.worker('quo"ted') as worker:
        assignment = await worker.take_one()
        assert assignment.job_id == job_id
        _, _, during = await asked.ask("/metrics")
        await worker.complete(assignment)
    await server.app.traffic.flush()
    status, headers, after = await asked.ask("/metrics")
    assert status == 200
    assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "pulse_workers 1.0" in during
    assert "pulse_jobs_held 1.0" in during
    for line in (
        'pulse_rpc_calls_total{method="pulse.v1.JobService/SubmitJob",status="OK"} 1.0',
        'pulse_rpc_calls_total{method="pulse.v1.JobService/GetJob",status="INVALID_ARGUMENT"} 1.0',
        'pulse_rpc_seconds_count{method="pulse.v1.JobService/SubmitJob"} 1.0',
        'pulse_jobs_total{event="submitted",topic="quo\\"ted"} 1.0',
        'pulse_jobs_total{event="started",topic="quo\\"ted"} 1.0',
        'pulse_jobs_total{event="completed",topic="quo\\"ted"} 1.0',
    ):
        assert line in after.splitlines()
    assert "pulse_jobs_held 0.0" in after
    assert re.search(r"^process_resident_memory_bytes \d", after, re.MULTILINE)


async def test_other_paths_and_methods_are_refused(probe: tuple[Probe, Server]) -> None:
    asked, _ = probe
    assert (await asked.ask("/"))[0] == 404
    assert (await asked.ask("/metrics/x"))[0] == 404
    for method in ("POST", "DELETE", "PUT", "OPTIONS"):
        status, headers, body = await asked.ask("/livez", method)
        assert (status, headers["allow"], body) == (405, "get, head", "")


async def test_head_has_the_headers_and_no_body(probe: tuple[Probe, Server]) -> None:
    status, headers, body = await probe[0].ask("/livez", "HEAD")
    assert (status, headers["content-length"], body) == (200, "6", "")


async def test_nonsense_gets_400_or_nothing_and_harms_nobody(probe: tuple[Probe, Server]) -> None:
    asked, _ = probe
    assert (await asked.send(bytes(range(256)) + b"\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
    assert (await asked.send(b"\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
    assert (await asked.send(b"GET /livez\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
    assert await asked.send(b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n") == b""
    # One that says nothing and one that hangs up in the middle.
    _, silent = await asyncio.open_connection("127.0.0.1", asked.port)
    _, hasty = await asyncio.open_connection("127.0.0.1", asked.port)
    hasty.write(b"GET /li")
    hasty.close()
    assert (await asked.ask("/livez"))[0] == 200
    silent.close()


async def test_readiness_follows_the_database(probe: tuple[Probe, Server], empty_database_dsn: str) -> None:
    asked, server = probe
    name = await server.database.fetchval("SELECT current_database()")
    elsewhere = await asyncpg.connect(empty_database_dsn)
    try:
        # Nobody new is let in and those who are in are thrown out: away, as far as this server can tell.
        await elsewhere.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        await elsewhere.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
        await asked.until_ready(503)
        assert (await asked.ask("/livez"))[0] == 200
        assert (await server.health.check(HealthCheckRequest())).status.name == "NOT_SERVING"
        await elsewhere.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        await asked.until_ready(200)
        await server.submit()
    finally:
        await elsewhere.close()


async def test_readiness_ends_before_the_last_calls_do(database_dsn: str) -> None:
    """So that a load balancer looks elsewhere while they finish."""
    asked = Probe(free_port())
    ports: asyncio.Queue[int] = asyncio.Queue()
    stop = asyncio.Event()

    async def serve() -> None:
        address = f"127.0.0.1:{asked.port}"
        async with running_server(database_dsn, metrics_addr=address, shutdown_timeout="1h") as server:
            ports.put_nowait(server.app.port)
            await stop.wait()

    async with asyncio.timeout(PATIENCE):
        serving = asyncio.create_task(serve())
        async with raw_connection(await ports.get()) as raw:
            await raw.open("/pulse.v1.JobService/SubmitJob")
            assert (await raw.call("/pulse.v1.StatsService/GetServerInfo", frame())).status is Status.OK
            stop.set()
            await asked.until_ready(503)
            assert not serving.done()
        await serving


async def test_a_port_in_use_is_one_line_that_names_the_variable(database_dsn: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(BaseExceptionGroup) as caught:
            async with running_server(database_dsn, metrics_addr=address):
                pass
        match, _ = caught.value.split(StartupError)
        assert match is not None
        assert f"PULSE_METRICS_ADDR: can't listen on {address}: " in repr(match)
