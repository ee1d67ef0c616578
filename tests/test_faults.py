"""Servers and workers that are killed or told to stop under load: nothing is lost, nothing has two owners."""

import asyncio
import json
import signal
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg

import pulse
from support.program import Pulsed, running_pulsed

SCRIPT = Path(__file__).with_name("ledger_worker.py")
PATIENCE = 60.0
JOBS = 400


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Waits for something that has no signal of its own."""
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.05)


@asynccontextmanager
async def worker(address: str, ledger: Path, seconds: float) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker process; killed at the end if it is still there."""
    process = await asyncio.create_subprocess_exec(sys.executable, str(SCRIPT), address, str(ledger), str(seconds))
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def read(ledger: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []


def assert_one_owner_at_a_time(entries: list[dict[str, Any]]) -> None:
    """Attempts of a job increase, and an attempt that ended did so before the next one began."""
    by_job = defaultdict(list)
    for entry in entries:
        by_job[entry["job"]].append(entry)
    for history in by_job.values():
        starts = [entry for entry in history if entry["event"] == "start"]
        attempts = [entry["attempt"] for entry in starts]
        assert attempts == sorted(set(attempts)), history
        for entry in history:
            if entry["event"] == "end":
                later = [start["at"] for start in starts if start["attempt"] > entry["attempt"]]
                assert all(entry["at"] <= start for start in later), history


async def count(dsn: str, condition: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        return int(await connection.fetchval(f"SELECT count(*) FROM jobs WHERE {condition}"))
    finally:
        await connection.close()


async def restart(stack: AsyncExitStack, dead: Pulsed, dsn: str) -> Pulsed:
    """kill -9, and a new one on the same port."""
    await dead.kill()
    return await stack.enter_async_context(running_pulsed(dsn=dsn, port=dead.port))


async def test_the_server_is_killed_again_and_again_and_two_workers_carry_on(database_dsn: str, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    async with AsyncExitStack() as stack:
        pulsed = await stack.enter_async_context(running_pulsed(dsn=database_dsn))
        async with pulse.Pulse(pulsed.address) as producer:
            await producer.enqueue_many("ledger", [{"n": number} for number in range(JOBS)])
        for _ in range(2):
            await stack.enter_async_context(worker(pulsed.address, ledger, 0.05))
        for share in (0.2, 0.4, 0.6):

            async def reached(share: float = share) -> bool:
                return len(read(ledger)) >= 2 * JOBS * share

            await until(reached)
            pulsed = await restart(stack, pulsed, database_dsn)

        async def all_completed() -> bool:
            return await count(database_dsn, "status = 'COMPLETED'") == JOBS

        await until(all_completed)
    entries = read(ledger)
    assert len({entry["job"] for entry in entries}) == JOBS
    assert_one_owner_at_a_time(entries)


async def test_a_killed_workers_jobs_are_finished_by_another(database_dsn: str, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    async with running_pulsed(dsn=database_dsn, lease_ttl="1s", watchdog_interval="200ms") as pulsed:
        async with pulse.Pulse(pulsed.address) as producer:
            await producer.enqueue_many("ledger", [{"n": number} for number in range(30)])
        async with worker(pulsed.address, ledger, 0.5) as victim:

            async def has_started() -> bool:
                return bool(read(ledger))

            await until(has_started)
            victim.kill()
            await victim.wait()

            async def all_completed() -> bool:
                return await count(database_dsn, "status = 'COMPLETED'") == 30

            async with worker(pulsed.address, ledger, 0.01):
                await until(all_completed)
        assert await count(database_dsn, "attempts > 1 AND last_error = 'worker lease expired'") > 0
    assert_one_owner_at_a_time(read(ledger))


async def test_a_worker_that_is_told_to_stop_finishes_its_long_jobs_and_no_other_gets_them(
    database_dsn: str, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    async with running_pulsed(dsn=database_dsn, lease_ttl="1s", watchdog_interval="200ms") as pulsed:
        async with worker(pulsed.address, ledger, 4.0) as leaving:
            async with pulse.Pulse(pulsed.address) as producer:
                await producer.enqueue_many("ledger", [{"n": number} for number in range(10)])

            async def all_started() -> bool:
                return len(read(ledger)) == 10

            await until(all_started)
            async with worker(pulsed.address, ledger, 4.0):
                leaving.send_signal(signal.SIGTERM)
                async with asyncio.timeout(PATIENCE):
                    assert await leaving.wait() == 0
        assert await count(database_dsn, "status = 'COMPLETED' AND attempts = 1") == 10
    assert {entry["worker"] for entry in read(ledger)} == {leaving.pid}
