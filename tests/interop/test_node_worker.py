"""The example of a worker in Node, as it stands."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from interop.toolchains import NODE_WORKER, Toolchain
from pulse_gen.rpc.pulse.v1 import CancelJobRequest, Job, JobStatus
from support.program import running_pulsed
from support.server import Client

PATIENCE = 30.0


@asynccontextmanager
async def running_worker(node: Toolchain, address: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The example, connected."""
    process = await asyncio.create_subprocess_exec(
        *node.command,
        str(NODE_WORKER / "worker.js"),
        env={**node.environment, "PULSE_ADDR": address},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        await printed(process, "connected")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def printed(process: asyncio.subprocess.Process, line: str) -> None:
    """Waits for a line of its output."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        async for found in process.stdout:
            if found.decode().rstrip() == line:
                return
    raise AssertionError(f"it ended without {line!r}")


async def finished(client: Client, job_id: str) -> Job:
    """The job, once nothing more happens to it."""
    async with asyncio.timeout(PATIENCE):
        while (job := await client.job(job_id)).finished_at is None:
            await asyncio.sleep(0.02)
    return job


async def test_it_works_fails_stops_when_asked_and_finishes_what_it_began(node: Toolchain, database_dsn: str) -> None:
    async with running_pulsed(dsn=database_dsn, lease_ttl="1s", watchdog_interval="200ms") as pulsed:
        client = Client(pulsed.port)
        async with running_worker(node, pulsed.address) as worker:
            sent = await client.submit("send-email", b'{"to": "ada@example.com"}')
            await printed(worker, "hello, ada@example.com")
            assert (await finished(client, sent)).status is JobStatus.COMPLETED

            broken = await client.submit("send-email", b"no JSON", max_attempts=1)
            job = await finished(client, broken)
            assert job.status is JobStatus.DEAD_LETTERED
            assert job.last_error.startswith("SyntaxError")

            endless = await client.submit("render-report", b'{"seconds": 3600}')
            await printed(worker, "rendering for 3600 s")
            await client.jobs.cancel_job(CancelJobRequest(job_id=endless))
            job = await finished(client, endless)
            assert job.status is JobStatus.CANCELED
            assert job.last_error.startswith("AbortError")

            # Longer than its lease: beats keep it, also while the worker leaves.
            long = await client.submit("render-report", json.dumps({"seconds": 2}).encode())
            await printed(worker, "rendering for 2 s")
            worker.send_signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE):
                assert await worker.wait() == 0
            job = await client.job(long)
            assert (job.status, job.attempts) == (JobStatus.COMPLETED, 1)
        client.channel.close()


async def test_it_finds_a_server_that_was_away_and_reports_what_it_did_meanwhile(
    node: Toolchain, database_dsn: str
) -> None:
    async with running_pulsed(dsn=database_dsn) as first, running_worker(node, first.address) as worker:
        client = Client(first.port)
        job_id = await client.submit("render-report", b'{"seconds": 0.5}')
        await printed(worker, "rendering for 0.5 s")
        client.channel.close()
        await first.kill()
        async with running_pulsed(dsn=database_dsn, port=first.port):
            client = Client(first.port)
            await printed(worker, "connected")
            job = await finished(client, job_id)
            assert (job.status, job.attempts) == (JobStatus.COMPLETED, 1)
            client.channel.close()
