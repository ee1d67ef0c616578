"""Workers that freeze, die by their own hand, are told to leave, or live in another time."""

import asyncio
import json
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pulse
from chaos.oracle import until
from chaos.system import AGAIN, LEASE, Storm, running_system

FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


async def test_a_worker_is_frozen_past_its_lease_and_wakes_up(storm: Storm, database_dsn: str) -> None:
    """What it did in its sleep is not accepted, and what it was given before is not started any more."""
    async with running_system(storm, database_dsn, workers=1) as system:
        (frozen,) = system.workers
        async with system.client() as client:
            await system.submit(client, 100, seconds=1)

        async def has_started() -> bool:
            return system.oracle.ledger.count("start") >= 50

        await until(has_started, "the worker to work")
        frozen.signal(signal.SIGSTOP)
        await system.add_worker()

        async def another_took_over() -> bool:
            return any(entry.attempt > 1 for entry in system.oracle.ledger.read())

        await until(another_took_over, "another worker to take over")
        frozen.signal(signal.SIGCONT)
        await system.judge(may_overlap=True)
    assert storm.figures["expired"] > 0


async def test_a_job_that_kills_its_process_is_buried_and_the_others_live(storm: Storm, database_dsn: str) -> None:
    """Whoever keeps the worker alive starts it again each time."""
    async with running_system(storm, database_dsn, workers=2) as system, system.client() as client:
        poison = await client.enqueue("poison", max_attempts=3, backoff=AGAIN)
        system.oracle.acknowledged.add(poison)
        await system.submit(client, 500, seconds=0.05)

        async def keep_alive() -> None:
            while True:
                await asyncio.wait(
                    [asyncio.ensure_future(worker.process.wait()) for worker in system.workers],
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for worker in system.workers:
                    if worker.process.returncode is not None:
                        await worker.start()

        keeper = asyncio.create_task(keep_alive())
        try:
            await system.judge()
        finally:
            keeper.cancel()
            await asyncio.wait([keeper])
        buried = await client.get_job(poison)
    assert (buried.status, buried.attempts, buried.last_error) == ("DEAD_LETTERED", 3, "worker lease expired")
    assert storm.figures["dead_lettered"] == 1


async def test_a_worker_that_is_told_to_stop_finishes_its_long_jobs(storm: Storm, database_dsn: str) -> None:
    """They take longer than two leases; nobody else gets them meanwhile."""
    seconds = 20 if storm.long else 2.5 * LEASE.total_seconds()
    async with running_system(storm, database_dsn, workers=1) as system:
        (leaving,) = system.workers
        async with system.client() as client:
            await system.submit(client, 50, seconds=seconds)

        async def all_started() -> bool:
            return system.oracle.ledger.count("start") == 50

        await until(all_started, "the worker to start them all")
        await system.add_worker()
        assert await leaving.stop() == 0
        await system.judge()
        assert {entry.worker for entry in system.oracle.ledger.read()} == {leaving.process.pid}
    assert storm.figures["expired"] == 0


async def test_servers_and_workers_have_clocks_ten_minutes_off(storm: Storm, database_dsn: str) -> None:
    """The database's clock rules: no lease is lost, no schedule misses, a delay is as long as it says."""
    assert FAKETIME, "no libfaketime here: python3 noxfile.py -s chaos installs it"

    def off(shift: str) -> dict[str, str]:
        return {"LD_PRELOAD": str(FAKETIME), "FAKETIME": shift, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}

    async with running_system(storm, database_dsn, servers=0, workers=0) as system:
        for shift, minutes in (("-10m", -10), ("+10m", 10)):
            server = await system.add_server(**off(shift))
            said_at = datetime.fromisoformat(json.loads(server.log.read_text().splitlines()[-1])["time"])
            assert round((said_at - datetime.now(UTC)) / timedelta(minutes=1)) == minutes
        for shift in ("+10m", "-10m"):
            await system.add_worker(**off(shift))
        async with system.ticking(), system.load(5000), system.client() as client:
            delayed = await client.enqueue("tick", delay=3)
            long = await client.enqueue("work", {"seconds": 2.5 * LEASE.total_seconds()})
            system.oracle.acknowledged |= {delayed, long}
            await client.wait_job(long, timeout=60)
        await system.judge()
        waited = f"id = '{delayed}' AND started_at - submitted_at BETWEEN interval '3 s' AND interval '1 min'"
        assert await system.oracle.count(waited) == 1
    assert storm.figures["expired"] == 0


async def test_a_pause_under_load_outlives_a_restart_of_everything(storm: Storm, database_dsn: str) -> None:
    async with running_system(storm, database_dsn, servers=2, workers=2) as system:
        async with system.load(3000):
            await system.until_ended(500)
            async with system.client() as client:
                await client.pause_dispatch(reason="the storm")

            async def nothing_runs() -> bool:
                return await system.oracle.count("status = 'RUNNING'") == 0

            await until(nothing_runs, "what runs to end")
            programs = [*system.servers, *system.workers]
            for program in programs:
                await program.kill()
            for program in programs:
                await program.start()
            started = system.oracle.ledger.count("start")
            async with system.client() as client:

                async def workers_are_back() -> bool:
                    return len(await client.workers()) == 2

                await until(workers_are_back, "the workers")
                held = await client.enqueue("work", {"seconds": 0})
                system.oracle.acknowledged.add(held)
                assert (await client.explain_job(held)).reason is pulse.HoldReason.PAUSED
                assert system.oracle.ledger.count("start") == started
                await client.resume_dispatch()
        await system.judge()
