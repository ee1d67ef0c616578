"""What must hold once things have come to rest, whatever happened before. Every fault is judged by this alone.

There are three witnesses. Producers remember the ids that were acknowledged to them. Handlers write a ledger, a file.
And a trigger keeps a journal of every transition that was accepted, in a schema of its own: it commits or vanishes with
the transition itself.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import asyncpg

# For a machine that does much else. Nothing is said to be quick by this: it ends a run that hangs.
PATIENCE = 120.0

JOURNAL = """
CREATE SCHEMA chaos;
CREATE TABLE chaos.journal (
  job uuid NOT NULL, attempt integer NOT NULL, became text NOT NULL, late interval, topic text NOT NULL
);
CREATE TABLE chaos.healed (at timestamptz NOT NULL);
CREATE FUNCTION chaos.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO chaos.journal VALUES (new.id, new.attempts, new.status, CASE
    WHEN old.status = 'RUNNING' AND new.status <> 'COMPLETED' AND new.last_error = 'worker lease expired'
    -- While the database was out of reach nobody could take anything back.
    THEN clock_timestamp() - greatest(old.lease_until, pg_postmaster_start_time(), (SELECT max(at) FROM chaos.healed))
  END, new.topic);
  RETURN NULL;
END
$$;
CREATE TRIGGER changed AFTER UPDATE ON jobs FOR EACH ROW WHEN (old.status <> new.status) EXECUTE FUNCTION chaos.note();
CREATE TRIGGER stored AFTER INSERT ON jobs FOR EACH ROW WHEN (new.status = 'RUNNING') EXECUTE FUNCTION chaos.note();
"""

OCCURRENCES = """
SELECT schedule_id, count(*) AS jobs, count(DISTINCT scheduled_for) AS occurrences,
  extract(epoch FROM max(scheduled_for) - min(scheduled_for))::integer + 1 AS seconds
FROM jobs WHERE schedule_id IS NOT NULL GROUP BY schedule_id
"""


class Entry(NamedTuple):
    """A line of the ledger."""

    event: str
    job: str
    attempt: int
    worker: int
    at: float


class Ledger:
    """What the handlers wrote, read as it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: list[Entry] = []
        self._counts: Counter[str] = Counter()
        self._offset = 0

    def read(self) -> list[Entry]:
        """Every whole line so far."""
        if self.path.exists():
            with self.path.open("rb") as book:
                book.seek(self._offset)
                lines = book.read().rpartition(b"\n")[0]
            self._offset += len(lines) + 1 if lines else 0
            for line in lines.decode().splitlines():
                event, job, attempt, worker, at = line.split()
                self._entries.append(Entry(event, job, int(attempt), int(worker), float(at)))
                self._counts[event] += 1
        return self._entries

    def count(self, event: str) -> int:
        """How often something happened."""
        self.read()
        return self._counts[event]


@dataclass
class Verdict:
    """What was found: figures for people, and everything that should not be."""

    figures: dict[str, float] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def forbid(self, what: str, cases: object) -> None:
        """Notes a violation if there is any case of it."""
        found = list(cases) if isinstance(cases, (list, set)) else cases
        if found:
            self.violations.append(f"{what}: {str(found)[:500]}")


class Oracle:
    """The witnesses of one run, and the judge."""

    def __init__(self, dsn: str, ledger: Path, watchdog: timedelta) -> None:
        self._dsn = dsn
        self._watchdog = watchdog
        self.ledger = Ledger(ledger)
        self.acknowledged: set[str] = set()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
        """A connection past every proxy."""
        connection = await asyncpg.connect(self._dsn)
        try:
            yield connection
        finally:
            connection.terminate()

    async def install(self) -> None:
        """Begins the journal."""
        async with self.connection() as connection:
            await connection.execute(JOURNAL)

    async def note_healed(self) -> None:
        """From now on the database can be reached again: expired leases are late from here."""
        async with self.connection() as connection:
            await connection.execute("INSERT INTO chaos.healed VALUES (clock_timestamp())")

    async def count(self, condition: str = "true", table: str = "jobs") -> int:
        """How many rows there are of a kind."""
        async with self.connection() as connection:
            return int(await connection.fetchval(f"SELECT count(*) FROM {table} WHERE {condition}"))

    async def until_rest(self) -> None:
        """Until every job is terminal."""

        async def at_rest() -> bool:
            return await self.count("finished_at IS NULL") == 0

        await until(at_rest, "every job to be terminal")

    async def judge(self, *, may_overlap: bool = False) -> Verdict:
        """Everything at once, at rest. Handlers of a process that was stopped in its sleep may overlap others."""
        verdict = Verdict()
        async with self.connection() as connection:
            await self._judge_rows(verdict, connection)
            await self._judge_journal(verdict, connection)
            await self._judge_schedules(verdict, connection)
        self._judge_ledger(verdict, may_overlap)
        assert not verdict.violations, "\n".join(verdict.violations)
        return verdict

    async def _judge_rows(self, verdict: Verdict, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        rows = await connection.fetch("SELECT id::text, status::text, finished_at IS NOT NULL AS ended FROM jobs")
        stored = {row["id"] for row in rows}
        verdict.forbid("acknowledged and lost", self.acknowledged - stored)
        verdict.forbid("not terminal", [(row["id"], row["status"]) for row in rows if not row["ended"]])
        twice = "SELECT payload FROM jobs WHERE topic = 'work' GROUP BY payload HAVING count(*) > 1"
        verdict.forbid("submitted once and stored twice", [row["payload"] for row in await connection.fetch(twice)])
        verdict.figures |= {
            "acknowledged": len(self.acknowledged),
            "completed": sum(row["status"] == "COMPLETED" for row in rows),
            "dead_lettered": sum(row["status"] == "DEAD_LETTERED" for row in rows),
        }

    async def _judge_journal(self, verdict: Verdict, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        twice = await connection.fetch(
            "SELECT job::text FROM chaos.journal WHERE became = 'COMPLETED' GROUP BY job HAVING count(*) > 1"
        )
        verdict.forbid("accepted twice", [row["job"] for row in twice])
        uneven = await connection.fetch(
            "SELECT job::text FROM chaos.journal WHERE became = 'RUNNING' GROUP BY job"
            " HAVING count(*) <> max(attempt) OR count(DISTINCT attempt) <> max(attempt)"
        )
        verdict.forbid("attempts that do not count 1, 2, 3", [row["job"] for row in uneven])
        accepted = await connection.fetch(
            "SELECT job::text, attempt FROM chaos.journal WHERE became = 'COMPLETED' AND topic IN ('work', 'tick')"
        )
        ended = {(entry.job, entry.attempt) for entry in self.ledger.read() if entry.event == "end"}
        verdict.forbid("accepted and never run", {(row["job"], row["attempt"]) for row in accepted} - ended)
        row = await connection.fetchrow(
            "SELECT count(late) AS expired, coalesce(max(late), '0') AS latest FROM chaos.journal"
        )
        assert row is not None
        verdict.figures |= {"expired": row["expired"], "latest_s": round(row["latest"].total_seconds(), 2)}
        if row["latest"] > 2 * self._watchdog:
            verdict.forbid("held past lease + 2 watchdog ticks", f"by {row['latest']}")

    async def _judge_schedules(self, verdict: Verdict, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        rows = await connection.fetch(OCCURRENCES)
        for row in rows:
            if not row["jobs"] == row["occurrences"] == row["seconds"]:
                verdict.forbid("a schedule of one second that missed or doubled", dict(row))
        if rows:
            verdict.figures["occurrences"] = sum(row["jobs"] for row in rows)

    def _judge_ledger(self, verdict: Verdict, may_overlap: bool) -> None:
        histories: defaultdict[str, list[Entry]] = defaultdict(list)
        for entry in self.ledger.read():
            histories[entry.job].append(entry)
        for job, history in histories.items():
            starts = {entry.attempt: entry.at for entry in history if entry.event == "start"}
            order = [entry.attempt for entry in history if entry.event == "start"]
            verdict.forbid(f"{job} was started out of order", order if order != sorted(set(order)) else [])
            late = [e for e in history if e.event == "end" and any(e.at > starts[a] for a in starts if a > e.attempt)]
            verdict.forbid(f"{job} had two owners at a time", [] if may_overlap else late)


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Waits for something that has no signal of its own, through any outage."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not await _holds(condition):
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"waited {PATIENCE:g} s for {what}") from None


async def _holds(condition: Callable[[], Awaitable[bool]]) -> bool:
    try:
        return await condition()
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return False
