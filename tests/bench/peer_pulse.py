"""pulse as one more adapter of a benchmark of job queues: the same work as every other, in the same run.

The harness is not ours; it imports this file, starts it with the commands below, and gives it its own module `bench` to
import. `nox -s bench -- --peers PATH/run.py` runs it beside the queues that one names.
"""

import asyncio
import importlib
import os
import sys
from typing import Any

import asyncpg
import uvloop

import pulse

harness: Any = importlib.import_module("bench")

ADDRESS = "127.0.0.1:50951"
UNFINISHED = "SELECT count(*) FROM jobs WHERE finished_at IS NULL"
BACKLOG = """
INSERT INTO jobs (id, topic, payload, content_type, priority, max_attempts, status, submitted_at, next_run_at, ready)
SELECT uuidv7(), 'noop', convert_to(json_build_object('i', i, 't', 0, 'pad', repeat('x', 25))::text, 'utf8'),
  'application/json', 0, 5, 'PENDING', now(), now(), true
FROM generate_series(1, $1) AS i
"""


class PulseAdapter:
    """A producer, a worker and the server."""

    client: pulse.Pulse
    database: "asyncpg.Connection[asyncpg.Record]"

    async def open(self) -> None:
        """Connect as a producer, once the server is there."""
        self.client = pulse.Pulse(ADDRESS)
        async with asyncio.timeout(60):
            while not await self._is_serving():
                await asyncio.sleep(0.05)
        self.database = await asyncpg.connect(harness.URL)

    async def _is_serving(self) -> bool:
        try:
            return await self.client.is_serving()
        except pulse.PulseError:
            return False

    async def close(self) -> None:
        """Disconnect."""
        await self.client.close()
        await self.database.close()

    async def setup(self) -> None:
        """Nothing: the server is on a migrated database."""

    async def one(self, job: dict[str, Any]) -> None:
        """Submit one job."""
        await self.client.enqueue("noop", job)

    async def bulk(self, jobs: list[dict[str, Any]]) -> None:
        """Submit many."""
        await self.client.enqueue_many("noop", jobs)

    async def remaining(self) -> int:
        """Jobs that are not finished."""
        return int(await self.database.fetchval(UNFINISHED))

    async def backlog(self, count: int) -> None:
        """Store jobs by SQL."""
        await self.database.execute(BACKLOG, count, timeout=300)

    def work(self) -> None:
        """One worker, until SIGTERM."""
        worker = pulse.Pulse(ADDRESS, concurrency=harness.OPTS.get("concurrency", 1000))

        async def noop(job: dict[str, Any]) -> None:
            harness.record(job)

        worker.register("noop", noop)
        uvloop.run(worker.run())

    def serve(self) -> None:
        """The server, until SIGTERM."""
        os.environ |= {"PULSE_DATABASE_URL": harness.URL, "PULSE_GRPC_ADDR": ADDRESS, "PULSE_LOG_LEVEL": "warning"}
        if os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-m", "pulsed", "migrate"]) != 0:
            sys.exit("pulsed migrate failed")
        os.execv(sys.executable, [sys.executable, "-m", "pulsed", "serve"])


adapter = PulseAdapter()
