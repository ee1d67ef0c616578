"""What the benchmark measures with: a durable Postgres, `pulsed` and workers as processes, and meters for all."""

import asyncio
import os
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

import pulse
from pulsed.embedded import EmbeddedPostgres
from pulsed.migrations import migrate
from support.program import Pulsed, running_pulsed

TOPIC = "noop"
RECORD = struct.Struct("<QQ")

# Rows as the server would have stored them, faster. Ids follow the order of time, as those that the SDK makes: with
# random ones every update of a job touches another page of the primary key.
FILL = """
INSERT INTO jobs (id, topic, payload, content_type, priority, max_attempts, status, submitted_at, next_run_at, ready)
SELECT uuidv7(), $2, convert_to(json_build_object('i', i, 't', 0, 'pad', repeat('x', 25))::text, 'utf8'),
  'application/json', $3, 5, 'PENDING', now(), now() + $4, $4 <= interval '0'
FROM generate_series(1, $1) AS i
"""


def payload(number: int) -> dict[str, Any]:
    """About sixty bytes; `t` is when its submit began."""
    return {"i": number, "t": time.monotonic_ns() // 1000, "pad": "x" * 25}


@dataclass(frozen=True)
class Reading:
    """The meters at one moment."""

    at: float
    cpu: dict[str, float]
    transactions: int
    rollbacks: int
    wal_bytes: int


class Workers:
    """Worker processes and the log that their handlers append to."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.processes: list[asyncio.subprocess.Process] = []

    async def start(self, count: int, address: str, concurrency: int) -> None:
        """Start so many. Their log is emptied first."""
        self._log.unlink(missing_ok=True)
        self._log.touch()
        for _ in range(count):
            command = (sys.executable, "-m", "bench.worker", address, str(concurrency), str(self._log))
            self.processes.append(await asyncio.create_subprocess_exec(*command))

    def handled(self) -> int:
        """How many jobs were run so far."""
        return self._log.stat().st_size // RECORD.size

    async def until_handled(self, count: int) -> None:
        """Wait for it; a worker that ends is an error."""
        while self.handled() < count:
            if any(process.returncode is not None for process in self.processes):
                raise RuntimeError("a worker ended; its output says why")
            await asyncio.sleep(0.002)

    def waits(self) -> list[float]:
        """Milliseconds from the begin of a submit to the start of its handler, in the order of the starts."""
        return [(start - begin) / 1000 for begin, start in RECORD.iter_unpack(self._log.read_bytes())]

    async def stop(self) -> None:
        """End them."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            await process.wait()
        self.processes.clear()


class Rig:
    """One server on one fresh database."""

    def __init__(
        self, postgres: EmbeddedPostgres, server: Pulsed, database: "asyncpg.Connection[asyncpg.Record]", log: Path
    ) -> None:
        self._postgres = postgres
        self.server = server
        self.database = database
        self.workers = Workers(log)
        self.client = pulse.Pulse(server.address)

    async def read(self) -> Reading:
        """All meters."""
        row = await self.database.fetchrow(
            "SELECT xact_commit, xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        )
        assert row is not None
        wal = await self.database.fetchval("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        cpu = {
            "server": cpu_seconds(self.server.process.pid),
            "postgres": cpu_seconds(self._postgres.pid),
            "workers": sum(cpu_seconds(process.pid) for process in self.workers.processes),
            "producer": time.process_time(),
        }
        return Reading(time.perf_counter(), cpu, row["xact_commit"], row["xact_rollback"], int(wal))

    async def fill(self, count: int, *, topic: str = TOPIC, priority: int = 0, delay: str = "0 s") -> None:
        """Store jobs and let the database come to rest, as it would have long ago."""
        interval = await self.database.fetchval("SELECT $1::text::interval", delay)
        await self.database.execute(FILL, count, topic, priority, interval, timeout=600)

    async def set_autovacuum(self, state: str) -> None:
        """Switch it for the whole of Postgres."""
        await self.database.execute(f"ALTER SYSTEM SET autovacuum = {state}")
        await self.database.execute("SELECT pg_reload_conf()")

    async def settle(self) -> None:
        """What autovacuum and the checkpointer would have done by now."""
        await self.database.execute("VACUUM ANALYZE jobs", timeout=600)
        await self.database.execute("CHECKPOINT", timeout=600)

    async def until_finished(self, count: int) -> None:
        """Wait until so many jobs are finished, by the table's word."""
        while await self.database.fetchval("SELECT count(*) FROM jobs WHERE finished_at IS NOT NULL") < count:
            await asyncio.sleep(0.01)


def durable_postgres(directory: Path) -> EmbeddedPostgres:
    """A Postgres with stock settings, on a disk: every commit is fsynced."""
    return EmbeddedPostgres(directory / "data", settings={"max_wal_size": "8GB"})


@asynccontextmanager
async def fresh_rig(postgres: EmbeddedPostgres) -> AsyncIterator[Rig]:
    """A server on a database of its own."""
    async with AsyncExitStack() as stack:
        admin = await asyncpg.connect(postgres.dsn)
        stack.push_async_callback(admin.close)
        await admin.execute("DROP DATABASE IF EXISTS bench WITH (FORCE)")
        await admin.execute("CREATE DATABASE bench")
        dsn = postgres.dsn.replace("/pulse?", "/bench?", 1)
        database = await asyncpg.connect(dsn)
        stack.push_async_callback(database.close)
        await migrate(database)
        server = await stack.enter_async_context(running_pulsed(dsn=dsn))
        log = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "jobs"
        rig = Rig(postgres, server, database, log)
        stack.push_async_callback(rig.client.close)
        stack.push_async_callback(rig.workers.stop)
        yield rig


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, its threads and its children, ended ones included."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    family = {pid}
    while grown := {child for child, parent in parents.items() if parent in family} - family:
        family |= grown
    return sum(ticks.get(each, 0) for each in family) / os.sysconf("SC_CLK_TCK")


def resident_mebibytes(pid: int) -> float:
    """Memory of one process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def percentile(values: Sequence[float], share: float) -> float:
    """The value that a share of the others stays below."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def median_of(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    """The median of each figure."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}
