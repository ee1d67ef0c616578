"""Retention: finished jobs go when their time is over, nothing else does, and in small bites."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from pulse_gen.db import jobs as job_queries
from pulsed import retention
from pulsed.database import Database, open_database
from pulsed.retention import Pruner
from pulsed.settings import load_settings
from support.server import VirtualClock

DAY = timedelta(days=1)
KEEP = {"COMPLETED": DAY, "CANCELED": 7 * DAY, "DEAD_LETTERED": 90 * DAY}

INSERT = """
INSERT INTO jobs (id, topic, payload, content_type, priority, max_attempts, status, submitted_at, next_run_at, ready,
  finished_at, lease_until, worker_id, unique_key, unique_held, unique_until, tags)
SELECT gen_random_uuid(), 'work', '', 'x', 0, 5, $1::job_status, $2, $2, false,
  CASE WHEN $1 IN ('COMPLETED', 'CANCELED', 'DEAD_LETTERED') THEN $2::timestamptz END,
  CASE WHEN $1 = 'RUNNING' THEN $2::timestamptz END, gen_random_uuid(),
  $4::text, $4 IS NOT NULL, $5::timestamptz, ARRAY[$6::text]
FROM generate_series(1, $3::int)
"""


class Table:
    """The table of jobs, at a moment of the test's choice."""

    def __init__(self, database: Database, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self.database = database
        self.connection = connection
        self.clock = VirtualClock()

    async def add(self, status: str, age: timedelta, count: int = 1, *, label: str = "", **unique: Any) -> None:
        """Jobs that came to `status` so long ago."""
        key, until = unique.get("key"), unique.get("until")
        await self.connection.execute(INSERT, status, self.clock.moment - age, count, key, until, label)

    async def prune(self, **settings: Any) -> int:
        return await Pruner(self.database, self.clock, load_settings(**settings)).run_once()

    async def labels(self) -> list[str]:
        rows = await self.connection.fetch("SELECT tags[1] AS label FROM jobs ORDER BY 1")
        return [row["label"] for row in rows]


@pytest.fixture
async def table(database_dsn: str) -> AsyncIterator[Table]:
    connection = await asyncpg.connect(database_dsn)
    async with open_database(
        database_dsn, pool_size=2, timeout=timedelta(seconds=20), prepared_statements=True
    ) as database:
        yield Table(database, connection)
    await connection.close()


async def test_each_final_status_is_kept_for_its_own_time(table: Table) -> None:
    second = timedelta(seconds=1)
    for status, keep in KEEP.items():
        await table.add(status, keep + second, label=f"{status} old")
        await table.add(status, keep - second, label=f"{status} young")
    assert await table.prune() == 3
    assert await table.labels() == [f"{status} young" for status in sorted(KEEP)]


async def test_dead_letters_outlive_all_others_by_default() -> None:
    settings = load_settings()
    assert settings.retention_dead_lettered > settings.retention_canceled > settings.retention_completed


async def test_the_time_can_be_set_for_each_status(table: Table) -> None:
    for status in KEEP:
        await table.add(status, 2 * DAY, label=status)
    await table.prune(retention_completed="3d", retention_canceled="1d", retention_dead_lettered="1d")
    assert await table.labels() == ["COMPLETED"]


async def test_what_is_not_finished_is_never_pruned(table: Table) -> None:
    for status in ("PENDING", "RETRYING", "RUNNING"):
        await table.add(status, 10_000 * DAY, label=status)
    assert await table.prune() == 0
    assert await table.labels() == ["PENDING", "RETRYING", "RUNNING"]


async def test_a_unique_key_that_is_held_for_a_period_keeps_its_job_until_then(table: Table) -> None:
    until = table.clock.moment + DAY
    await table.add("COMPLETED", 2 * DAY, label="held", key="k", until=until)
    await table.add("COMPLETED", 2 * DAY, label="over", key="l", until=table.clock.moment)
    assert await table.prune() == 1
    assert await table.labels() == ["held"]
    table.clock.advance(days=1)
    assert await table.prune() == 1


async def test_a_backlog_is_removed_whole_in_bounded_bites(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BREATH", 0)
    bites: list[int] = []

    class WatchedPruner(Pruner):
        async def _prune(self, *args: Any) -> int:
            bites.append(await super()._prune(*args))
            return bites[-1]

    await table.add("COMPLETED", 2 * DAY, 2300)
    assert await WatchedPruner(table.database, table.clock, load_settings()).run_once() == 2300
    assert bites == [1000, 1000, 300, 0, 0]
    assert await table.labels() == []


async def test_traffic_of_past_days_is_forgotten(table: Table) -> None:
    for age in (timedelta(days=2, minutes=1), DAY):
        await table.connection.execute(
            "INSERT INTO topic_minutes VALUES ('work', $1, 1, 0, 0, 0, '{}', '{}')", table.clock.moment - age
        )
    await table.prune()
    rows = await table.connection.fetch("SELECT minute FROM topic_minutes")
    assert [row["minute"] for row in rows] == [table.clock.moment - DAY]


async def test_pruning_walks_the_index_of_finished_jobs_and_no_table(table: Table) -> None:
    await table.add("PENDING", DAY, 30_000)
    await table.add("COMPLETED", 2 * DAY, 20_000)
    await table.connection.execute("VACUUM ANALYZE jobs")
    plan = await table.connection.fetch(
        f"EXPLAIN (COSTS OFF) {job_queries.JOB_PRUNE}", "COMPLETED", table.clock.moment, DAY, 1000
    )
    text = "\n".join(row[0] for row in plan)
    assert "jobs_finished" in text
    assert "Seq Scan" not in text
    assert "Sort" not in text
