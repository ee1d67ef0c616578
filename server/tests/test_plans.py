"""Plan guards: what the hot statements cost must not depend on how many jobs wait, are delayed or have died."""

import asyncio
import json
import uuid
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import asyncpg
import pytest

from pulse_gen.db import dispatch, jobs, reports
from pulsed import database
from support.postgres import Databases

BATCH = 100
MILLION = 1_000_000
TOPICS = [f"topic-{number}" for number in range(20)]
ALL_TOPICS = "'{" + ",".join(TOPICS) + "}'"

FILL = """
INSERT INTO jobs (id, topic, payload, content_type, priority, max_attempts, status, submitted_at, next_run_at, ready)
SELECT gen_random_uuid(), 'topic-' || i % 20, '{{}}', 'application/json', {priority}, 5, '{status}', now(), {due},
  {ready}
FROM generate_series(1, {count}) AS i
"""

RUN = f"""
UPDATE jobs
SET status = 'RUNNING', ready = false, attempts = 1, worker_id = '{uuid.uuid4()}', started_at = now(),
  lease_until = now() + interval '30 s'
WHERE id IN (SELECT id FROM jobs LIMIT 10000)
"""


async def fill(
    connection: "asyncpg.Connection[asyncpg.Record]",
    count: int,
    *,
    priority: str = "i % 5",
    status: str = "PENDING",
    due: str = "now()",
    ready: bool = True,
) -> None:
    """Puts jobs into the table, spread over twenty topics."""
    text = FILL.format(count=count, priority=priority, status=status, due=due, ready=ready)
    await connection.execute(text, timeout=300)


class Deep(NamedTuple):
    """The database under test and what else lies in it."""

    name: str
    connection: "asyncpg.Connection[asyncpg.Record]"


# A hundred for each topic: as many as one claim takes.
SHALLOW = "2k ready"
DEPTHS: dict[str, list[dict[str, Any]]] = {
    SHALLOW: [{"count": 2000}],
    "1M ready": [{"count": MILLION}],
    "under 1M delayed of higher priority and 1M due retries": [
        {"count": 2000},
        {"count": MILLION, "priority": "50", "due": "now() + interval '1 day'", "ready": False},
        {"count": MILLION, "status": "RETRYING", "due": "now() - interval '1 s'", "ready": False},
    ],
}


@pytest.fixture(scope="module")
def deep_dsns(databases: Databases) -> Iterator[dict[str, str]]:
    """A database for each depth, filled once."""
    from contextlib import ExitStack

    async def prepare(dsn: str, parts: list[dict[str, Any]]) -> None:
        connection = await asyncpg.connect(dsn)
        for part in parts:
            await fill(connection, **part)
        await connection.execute("VACUUM ANALYZE jobs", timeout=300)
        await connection.close()

    with ExitStack() as stack:
        dsns = {name: stack.enter_context(databases.migrated()) for name in DEPTHS}
        for name, parts in DEPTHS.items():
            asyncio.run(prepare(dsns[name], parts))
        yield dsns


@pytest.fixture(params=["custom", "generic"])
def plan_mode(request: pytest.FixtureRequest) -> str:
    """The driver's prepared statements get either kind of plan sooner or later."""
    return str(request.param)


async def explain(
    dsn: str, mode: str, sql: str, types: str, arguments: str, *, by_index: bool = False
) -> dict[str, Any]:
    """Runs a statement and rolls it back; its plan with what it did."""
    connection = await asyncpg.connect(dsn)
    try:
        if by_index:
            await connection.execute("SET enable_seqscan = off")
        await connection.execute(f"SET jit = off; SET plan_cache_mode = force_{mode}_plan")
        await connection.execute(f"PREPARE guarded ({types}) AS {sql}")
        transaction = connection.transaction()
        await transaction.start()
        plan = await connection.fetchval(
            f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE guarded ({arguments})"
        )
        await transaction.rollback()
        top: dict[str, Any] = json.loads(plan)[0]["Plan"]
        return top
    finally:
        await connection.close()


def buffers(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def assert_bounded(plan: dict[str, Any], most_rows: int) -> None:
    """No scan of the table, and no node that sees more rows than the batch accounts for."""
    for node in nodes(plan):
        assert node["Node Type"] != "Seq Scan", node
        assert node["Actual Rows"] <= most_rows, (node["Node Type"], node["Actual Rows"])
        assert node.get("Rows Removed by Filter", 0) <= most_rows, node


def claim(topics: str) -> tuple[str, str, str]:
    slots = f"array_fill('{uuid.uuid4()}'::uuid, ARRAY[{BATCH}])"
    return (
        dispatch.JOB_CLAIM,
        "uuid[], timestamptz, jsonb, interval, text[]",
        f"{slots}, NULL, '{{}}', interval '30 s', {topics}",
    )


def about_held(held: Sequence[uuid.UUID], worker: uuid.UUID) -> dict[str, tuple[str, str, str]]:
    """The statements with which a worker speaks of jobs that it holds, in their first attempt."""
    ids = "ARRAY[" + ",".join(f"'{job_id}'::uuid" for job_id in held) + "]"
    workers = f"array_fill('{worker}'::uuid, ARRAY[{len(held)}])"
    attempts = f"array_fill(1, ARRAY[{len(held)}])"
    texts = f"array_fill('x'::text, ARRAY[{len(held)}])"
    discards = f"array_fill(false, ARRAY[{len(held)}])"
    nothing = f"array_fill(NULL::interval, ARRAY[{len(held)}])"
    moments = f"array_fill(NULL::timestamptz, ARRAY[{len(held)}])"
    return {
        "complete": (reports.JOB_COMPLETE, "timestamptz, uuid[], uuid[], int[]", f"NULL, {ids}, {workers}, {attempts}"),
        "fail": (
            reports.JOB_FAIL,
            "timestamptz, uuid[], uuid[], int[], text[], bool[], interval[]",
            f"NULL, {ids}, {workers}, {attempts}, {texts}, {discards}, {nothing}",
        ),
        "snooze": (
            reports.JOB_SNOOZE,
            "timestamptz, uuid[], uuid[], int[], timestamptz[], interval[]",
            f"NULL, {ids}, {workers}, {attempts}, {moments}, {nothing}",
        ),
        "heartbeat": (
            reports.JOB_HEARTBEAT,
            "uuid[], int[], uuid, timestamptz, jsonb, interval",
            f"{ids}, {attempts}, '{worker}', NULL, '{{}}', interval '30 s'",
        ),
    }


@pytest.fixture(scope="module")
def busy_dsn(databases: Databases) -> Iterator[str]:
    """A database with many running jobs, of which its statistics, made while nothing ran, know nothing."""

    async def prepare(dsn: str) -> None:
        connection = await asyncpg.connect(dsn)
        await fill(connection, 20_000)
        await connection.execute("VACUUM ANALYZE jobs")
        await connection.execute(RUN, timeout=60)
        await connection.close()

    with databases.migrated() as dsn:
        asyncio.run(prepare(dsn))
        yield dsn


@pytest.mark.parametrize("name", ["complete", "fail", "snooze", "heartbeat"])
async def test_a_word_about_few_jobs_costs_the_same_however_many_run(busy_dsn: str, plan_mode: str, name: str) -> None:
    connection = await asyncpg.connect(busy_dsn)
    held = await connection.fetch("SELECT id, worker_id FROM jobs WHERE status = 'RUNNING' LIMIT 5")
    await connection.close()
    statement = about_held([row["id"] for row in held], held[0]["worker_id"])[name]
    plan = await explain(busy_dsn, plan_mode, *statement, by_index=True)
    assert max(node["Actual Rows"] for node in nodes(plan)) == 5
    assert_bounded(plan, 5)
    assert buffers(plan) < 300


@pytest.mark.parametrize("topics", ["'{topic-1}'", ALL_TOPICS], ids=["one topic", "twenty topics"])
async def test_a_claim_costs_the_same_at_any_depth(deep_dsns: dict[str, str], plan_mode: str, topics: str) -> None:
    # Two thousand jobs are a few dozen pages, and reading them all is cheaper still: the yardstick goes by index too.
    plans = {
        name: await explain(dsn, plan_mode, *claim(topics), by_index=name == SHALLOW) for name, dsn in deep_dsns.items()
    }
    for plan in plans.values():
        assert plan["Actual Rows"] == BATCH
        assert_bounded(plan, BATCH * len(TOPICS))
        assert buffers(plan) <= 1.5 * buffers(plans[SHALLOW]), {name: buffers(plan) for name, plan in plans.items()}


@pytest.mark.parametrize("depth", ["1M ready", "under 1M delayed of higher priority and 1M due retries"])
async def test_no_hot_statement_scans_the_table(deep_dsns: dict[str, str], plan_mode: str, depth: str) -> None:
    dsn = deep_dsns[depth]
    worker = uuid.uuid4()
    connection = await asyncpg.connect(dsn)
    try:
        rows = await dispatch.AsyncQuerier(connection).job_claim(
            topics=TOPICS, slots=[worker] * BATCH, topic_leases="{}", default_lease=timedelta(seconds=30), now=None
        )
    finally:
        await connection.close()
    ids = "ARRAY[" + ",".join(f"'{row.id}'::uuid" for row in rows) + "]"
    workers = f"array_fill('{worker}'::uuid, ARRAY[{BATCH}])"
    attempts = f"array_fill(1, ARRAY[{BATCH}])"
    fresh = "ARRAY[" + ",".join(f"'{uuid.uuid4()}'::uuid" for _ in range(BATCH)) + "]"
    texts = f"array_fill('x'::text, ARRAY[{BATCH}])"
    nothing = f"array_fill(NULL::interval, ARRAY[{BATCH}])"
    statements = {
        **about_held([row.id for row in rows], worker),
        "reap": (reports.JOB_REAP_EXPIRED, "timestamptz, int", f"now() + interval '1 h', {BATCH}"),
        "promote": (dispatch.JOB_PROMOTE_DUE, "timestamptz, int", f"NULL, {BATCH}"),
        "probe": (dispatch.DISPATCH_PROBE, "text[], timestamptz", f"{ALL_TOPICS}, NULL"),
        "insert": (
            jobs.JOB_INSERT,
            "uuid[], text[], bytea[], text[], int[], int[], timestamptz[], interval[], jsonb[], uuid[], interval[],"
            " timestamptz, text[]",
            f"{fresh}, {texts}, array_fill('x'::bytea, ARRAY[{BATCH}]), {texts}, {attempts}, {attempts},"
            f" array_fill(NULL::timestamptz, ARRAY[{BATCH}]), {nothing}, array_fill(NULL::jsonb, ARRAY[{BATCH}]),"
            f" {workers}, array_fill(interval '30 s', ARRAY[{BATCH}]), NULL, {ALL_TOPICS}",
        ),
        "prune": (jobs.JOB_PRUNE, "job_status, timestamptz, interval, int", f"'COMPLETED', NULL, '0 s', {BATCH}"),
        "cancel": (jobs.JOB_CANCEL, "timestamptz, uuid[]", f"NULL, {ids}"),
    }
    for name, statement in statements.items():
        plan = await explain(dsn, plan_mode, *statement)
        touched = [node for node in nodes(plan) if node.get("Relation Name") == "jobs"]
        assert touched, name
        assert all(node["Node Type"] != "Seq Scan" for node in touched), name
        assert_bounded({**plan, "Node Type": name}, BATCH * len(TOPICS))


async def test_a_claim_that_was_planned_on_an_empty_table_goes_by_index_when_jobs_arrive(database_dsn: str) -> None:
    sql, types, arguments = claim(ALL_TOPICS)
    connection = await asyncpg.connect(database_dsn, server_settings={**database.SESSION, **database.FIXED_PLANS})
    try:
        await connection.execute("VACUUM ANALYZE jobs")
        await connection.execute(f"PREPARE guarded ({types}) AS {sql}")
        await connection.execute(f"EXECUTE guarded ({arguments})")
        await fill(connection, 20_000)
        plan = json.loads(await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE guarded ({arguments})"))
        assert_bounded(plan[0]["Plan"], BATCH * len(TOPICS))
    finally:
        await connection.close()


async def test_plans_are_made_anew_after_a_while(database_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report on a table that was empty a moment ago would read it from end to end for as long as its plan lives."""
    monkeypatch.setattr(database, "PLAN_LIFETIME", 1)
    options: dict[str, Any] = {"pool_size": 1, "timeout": timedelta(seconds=20), "prepared_statements": True}
    nothing: dict[str, Any] = {"ids": [uuid.uuid4()], "worker_ids": [uuid.uuid4()], "attempts": [1], "now": None}
    read = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'jobs'"

    async def rows_read() -> int:
        async with opened.work.transaction() as connection:
            await reports.AsyncQuerier(connection).job_complete(**nothing)
            return int(await connection.fetchval(read))

    async with database.open_database(database_dsn, **options) as opened:
        async with opened.work.connection() as connection:
            await connection.execute("VACUUM ANALYZE jobs")
        assert await rows_read() == 0
        filling = await asyncpg.connect(database_dsn)
        await fill(filling, 5000)
        await filling.close()
        async with asyncio.timeout(20):
            while await rows_read() > 10:
                await asyncio.sleep(0.1)
