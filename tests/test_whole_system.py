"""All parts together, each as a process of its own as people run it, on real sockets."""

import asyncio
import json
import os
import re
import signal
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pulse
from pulse_gen.rpc.pulse.v1 import JobStatus
from support.program import running_pulsed
from support.server import BareWorker, Client

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
BIN = Path(sys.executable).parent
PATIENCE = 60


@asynccontextmanager
async def running(*command: str | Path, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program whose output the test reads; ended if it does not end by itself."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def read_until(process: asyncio.subprocess.Process, text: str) -> str:
    """What it prints up to the line with this text."""
    assert process.stdout is not None
    printed = ""
    async with asyncio.timeout(PATIENCE):
        async for line in process.stdout:
            printed += line.decode()
            if text in line.decode():
                return printed
    raise AssertionError(f"it never said {text!r}, but:\n{printed}")


async def ask(address: str, *arguments: str) -> Any:
    """What the command line answers, as JSON."""
    async with (
        running(BIN / "pulse", *arguments, "-o", "json", PULSE_ADDR=address) as program,
        asyncio.timeout(PATIENCE),
    ):
        printed, _ = await program.communicate()
    assert program.returncode == 0, printed.decode()
    return json.loads(printed)


async def fetch(url: str) -> str:
    """A page of the dashboard."""
    with await asyncio.to_thread(urllib.request.urlopen, url, timeout=PATIENCE) as answer:
        assert answer.status == 200
        return str(answer.read().decode())


async def test_a_job_travels_from_submit_to_completed_and_survives_a_restart(tmp_path: Path) -> None:
    async with running_pulsed(data_dir=tmp_path) as pulsed:
        client = Client(pulsed.port)
        completed = await client.submit("work", b'{"n": 1}')
        async with BareWorker(client) as worker:
            assignment = await worker.take_one()
            assert (assignment.job_id, assignment.payload) == (completed, b'{"n": 1}')
            await worker.complete(assignment)
        waiting = await client.submit("work", b'{"n": 2}')
        client.channel.close()
        assert await pulsed.stop() == 0
    async with running_pulsed(data_dir=tmp_path) as pulsed:
        client = Client(pulsed.port)
        assert (await client.job(completed)).status is JobStatus.COMPLETED
        async with BareWorker(client) as worker:
            assert (await worker.take_one()).job_id == waiting
        client.channel.close()


async def test_a_worker_of_one_server_gets_the_jobs_of_another(database_dsn: str) -> None:
    async with running_pulsed(dsn=database_dsn) as one, running_pulsed(dsn=database_dsn) as two:
        producer, consumer = Client(one.port), Client(two.port)
        async with BareWorker(consumer, capacity=100) as worker:
            submitted = await producer.submit_many(50)
            taken = await worker.take(50)
            assert {assignment.job_id for assignment in taken} == set(submitted)
            assert not (await worker.complete_many(taken)).stale
        producer.channel.close()
        consumer.channel.close()


async def test_three_servers_workers_command_line_and_dashboard_share_one_database(database_dsn: str) -> None:
    """A producer on one server, workers on the two others, and everybody sees the same."""
    async with (
        running_pulsed(dsn=database_dsn) as one,
        running_pulsed(dsn=database_dsn) as two,
        running_pulsed(dsn=database_dsn) as three,
        running(sys.executable, EXAMPLES / "emails.py", "worker", PULSE_ADDR=two.address) as second,
        running(sys.executable, EXAMPLES / "emails.py", "worker", PULSE_ADDR=three.address) as third,
        running(BIN / "pulse-ui", PULSE_ADDR=one.address, PULSE_UI_ADDR="127.0.0.1:0") as dashboard,
        pulse.Pulse(one.address) as client,
    ):
        page = re.findall(r"http://[\d.:]+", await read_until(dashboard, "http://"))[-1]
        assert (await fetch(f"{page}/healthz")).strip() == "ok"
        async with running(sys.executable, EXAMPLES / "emails.py", "producer", PULSE_ADDR=one.address) as producer:
            assert "is COMPLETED after 1 attempt" in await read_until(producer, "is COMPLETED")
        async with asyncio.timeout(PATIENCE):
            while (await client.count_jobs(status=["pending", "running"])).count:
                await asyncio.sleep(0.05)
        for server in (one, two, three):
            (dead,) = await ask(server.address, "jobs", "list", "--status", "dead_lettered")
            assert dead["last_error"] == "'nobody' is not an address"
            assert len(await ask(server.address, "workers", "list")) == 2
        assert "send-email" in await fetch(page)
        for worker in (second, third):
            worker.send_signal(signal.SIGTERM)
            printed, _ = await worker.communicate()
            assert worker.returncode == 0
            assert b"sent 'News'" in printed  # each had a share of the thousand


async def test_the_demo_brings_everything_up_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with running(sys.executable, EXAMPLES / "demo" / "up.py", PULSE_DATA_DIR=str(tmp_path)) as demo:
        banner = await read_until(demo, "pulse dispatch resume")
        address = re.findall(r"server +([\d.:]+),", banner)[0]
        async with pulse.Pulse(address) as client, asyncio.timeout(PATIENCE):
            while (await client.count_jobs(status="completed", limit=20)).count < 20:
                await asyncio.sleep(0.05)
        assert "pulse" in await fetch(re.findall(r"dashboard +(http://[\d.:]+)", banner)[0])
        demo.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            await demo.communicate()
        assert demo.returncode == 0
    assert not (tmp_path / "pgdata" / "postmaster.pid").exists()
