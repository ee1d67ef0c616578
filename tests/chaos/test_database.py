"""A database that cuts connections, has few of them, or is kept from cleaning up."""

import asyncio
import json
from collections import Counter

import asyncpg

import pulse
from chaos.oracle import until
from chaos.system import Storm, running_system

JOBS = 10_000

CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database()
  AND (application_name = 'pulsed listener' OR (application_name = 'pulsed' AND random() < $1))
"""


async def test_backends_are_terminated_at_random_and_the_listeners_each_time(storm: Storm, database_dsn: str) -> None:
    async with running_system(storm, database_dsn, servers=3, workers=3) as system:
        async with system.ticking(), system.load(JOBS), system.oracle.connection() as connection:
            for share in storm.shares(10):
                await system.until_ended(share * JOBS)
                await system.until_listening()
                await connection.fetch(CUT, storm.random.random())
        await system.until_listening()
        await system.judge()
    assert storm.figures["expired"] == 0


async def test_a_pool_of_two_connections_under_five_hundred_calls(storm: Storm, database_dsn: str) -> None:
    """Each call is answered or told to come again within its deadline, and no worker loses a lease over it."""
    async with running_system(storm, database_dsn, workers=1, PULSE_POOL_SIZE="2") as system, system.client() as client:
        await system.submit(client, 50, seconds=6)

        async def all_started() -> bool:
            return system.oracle.ledger.count("start") == 50

        await until(all_started, "the worker to hold its jobs")

        async def call(number: int) -> str:
            try:
                if number % 2:
                    return "answered" if await system.submit(client, 50, seconds=0) else "told to come again"
                await client.dispatch_status()
            except pulse.LimitReached:
                return "told to come again"
            return "answered"

        outcomes = Counter(await asyncio.gather(*(call(number) for number in range(500))))
        storm.figures |= {name.replace(" ", "_"): number for name, number in outcomes.items()}
        await system.judge()
    assert storm.figures["expired"] == 0


async def pages_to_the_first_waiting_job(connection: "asyncpg.Connection[asyncpg.Record]") -> int:
    """What a claim reads before it finds anything."""
    explained = await connection.fetchval(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)"
        " SELECT id FROM jobs WHERE ready AND topic = 'work' ORDER BY priority DESC, seq LIMIT 1"
    )
    plan = json.loads(explained)[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def test_a_transaction_is_held_open_for_long(storm: Storm, database_dsn: str) -> None:
    """Vacuum can't clean up behind it: dispatch goes on, and whoever asks the server is told of the transaction."""
    async with (
        running_system(storm, database_dsn, workers=2) as system,
        system.client() as client,
        system.oracle.connection() as connection,
    ):
        async with system.oracle.connection() as holder:
            await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM jobs")
            async with system.load(JOBS):
                await system.until_ended(JOBS)
            await system.judge()
            storm.figures["pages_to_the_first_waiting_job"] = await pages_to_the_first_waiting_job(connection)
            held = await client.server_info()
        over = await client.server_info()
    assert held.oldest_transaction is not None
    assert over.oldest_transaction is not None
    assert held.oldest_transaction > over.oldest_transaction
