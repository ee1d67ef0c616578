"""The golden code at work on a real Postgres."""

import datetime
import decimal
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from sqlc_runner import Package, import_generated, run_sqlc

from sqlc_gen_asyncpg.database_check import find_disagreements

GOLDEN = Path(__file__).parent / "golden"
NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
MINUTE = datetime.timedelta(minutes=1)
IDS = [uuid.UUID(int=number) for number in range(1, 6)]
WORKERS = [uuid.UUID(int=number) for number in (101, 102)]


@pytest.fixture(scope="module")
def golden() -> ModuleType:
    return import_generated(GOLDEN / "expected", "golden_expected")


@pytest_asyncio.fixture
async def connection(empty_database_dsn: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(empty_database_dsn)
    try:
        await connection.execute((GOLDEN / "schema.sql").read_text())
        yield connection
    finally:
        await connection.close()


@pytest.fixture
def jobs(golden: ModuleType, connection: Any) -> Any:
    return golden.jobs.AsyncQuerier(connection)


async def add_jobs(jobs: Any) -> None:
    await jobs.job_insert_many(
        ids=IDS,
        topics=["mail", "mail", "mail", "video", "video"],
        payloads=[b"\x00\xff"] * 5,
        run_ats=[NOON, None, NOON, NOON, NOON],
    )


def all_values(models: Any) -> dict[str, Any]:
    status, mood = models.JobStatus, models.Mood
    return {
        "a_bool": True,
        "a_smallint": -5,
        "an_integer": 2**31 - 1,
        "a_bigint": 2**63 - 1,
        "a_real": 0.5,
        "a_double": 0.1,
        "a_numeric": decimal.Decimal("1234.567"),
        "a_text": "täxt",
        "a_varchar": "short",
        "a_uuid": IDS[0],
        "a_bytea": b"\x00\xff",
        "a_json": '{"b": 1, "a": 2}',
        "a_jsonb": '{"a": 2}',
        "a_timestamptz": NOON,
        "a_date": NOON.date(),
        "an_interval": datetime.timedelta(days=1, seconds=2, microseconds=3),
        "a_status": status.DEAD_LETTERED,
        "a_mood": mood.BAD,
        "maybe_text": "there",
        "maybe_status": status.VALUE_2ND_TRY,
        "maybe_interval": MINUTE,
        "bools": [True, False],
        "integers": [1, 2],
        "doubles": [0.1],
        "numerics": [decimal.Decimal("0.1")],
        "texts": ["a", "b"],
        "uuids": IDS,
        "byteas": [b"", b"\x00"],
        "jsonbs": ["[1]", "null"],
        "timestamptzs": [NOON, NOON + MINUTE],
        "dates": [NOON.date()],
        "intervals": [MINUTE, -MINUTE],
        "statuses": [status.RUNNING, status.DEAD_LETTERED],
        "maybe_texts": [],
        "maybe_statuses": [status.PENDING],
        "class_": "c",
        "count": 7,
        "datetime": NOON,
    }


async def test_every_value_comes_back_as_it_went(golden: ModuleType, connection: Any) -> None:
    sent = all_values(golden.models)
    row = await golden.values.AsyncQuerier(connection).values_insert(**sent)
    assert isinstance(row, golden.models.AllValue)
    received = {name.rstrip("_"): value for name, value in row._asdict().items()}
    assert received.pop("id") == 1
    assert received == {name.rstrip("_"): value for name, value in sent.items()}
    # Equality would not tell a label from its enum. (asyncpg's UUID is a subclass of Python's.)
    for name, value in sent.items():
        assert isinstance(received[name.rstrip("_")], type(value)), name
    assert all(type(each) is golden.models.JobStatus for each in row.statuses + row.maybe_statuses)


async def test_null_is_none(golden: ModuleType, connection: Any) -> None:
    nullable = {"maybe_text", "maybe_status", "maybe_interval", "maybe_texts", "maybe_statuses"}
    nullable |= {"class_", "count", "datetime"}
    sent = {**all_values(golden.models), **dict.fromkeys(nullable)}
    row = await golden.values.AsyncQuerier(connection).values_insert(**sent)
    assert row.maybe_status is None
    assert row.maybe_statuses is None
    assert {row.maybe_text, row.class_, row.count_, row.datetime_} == {None}


async def test_tuples_pass_as_arrays(golden: ModuleType, connection: Any) -> None:
    sent = all_values(golden.models)
    sent["statuses"] = tuple(sent["statuses"])
    row = await golden.values.AsyncQuerier(connection).values_insert(**sent)
    assert row.statuses == list(sent["statuses"])


async def test_insert_takes_none_among_the_elements_and_skips_conflicts(jobs: Any) -> None:
    await add_jobs(jobs)
    again = await jobs.job_insert_many(
        ids=[IDS[0], uuid.UUID(int=9)], topics=["mail"] * 2, payloads=[b""] * 2, run_ats=[None] * 2
    )
    assert again == [uuid.UUID(int=9)]
    assert (await jobs.job_get(id=IDS[0])).run_at == NOON
    assert (await jobs.job_get(id=IDS[1])).run_at > NOON - 365 * 24 * 60 * MINUTE


async def test_claim_returns_its_own_rows(golden: ModuleType, jobs: Any) -> None:
    await add_jobs(jobs)
    claimed = await jobs.job_claim(topics=["mail", "video"], limits=[2, 1], worker_ids=WORKERS, now=NOON, lease=MINUTE)
    assert sorted(row.topic for row in claimed) == ["mail", "mail", "video"]
    for row in claimed:
        assert type(row) is golden.jobs.JobClaimRow
        assert row.status is golden.models.JobStatus.RUNNING
        assert row.was is golden.models.JobStatus.PENDING
        assert row.lease_until == NOON + MINUTE
        assert row.worker_id == WORKERS[row.slot - 1]


async def test_execrows_counts(jobs: Any) -> None:
    await add_jobs(jobs)
    claimed = await jobs.job_claim(topics=["mail"], limits=[3], worker_ids=WORKERS, now=None, lease=MINUTE)
    ids = [row.id for row in claimed]
    beat = {"ids": ids, "worker_id": WORKERS[0], "now": None, "lease": MINUTE}
    assert await jobs.job_beat(attempts=[1, 1, 1], **beat) == 3
    assert await jobs.job_beat(attempts=[1, 2, 0], **beat) == 1
    assert await jobs.job_copy() == len(IDS)


async def test_columns_of_a_table_are_its_model(golden: ModuleType, jobs: Any) -> None:
    await add_jobs(jobs)
    await jobs.job_claim(topics=["video"], limits=[9], worker_ids=WORKERS, now=None, lease=MINUTE)
    released = await jobs.job_release(worker_id=WORKERS[0])
    assert [row.id for row in released] == IDS[3:]
    assert released[0] == await jobs.job_get(id=IDS[3])
    assert type(released[0]) is golden.models.Job
    assert released[0].status is golden.models.JobStatus.PENDING


async def test_one_column_is_a_bare_value(golden: ModuleType, jobs: Any) -> None:
    status = golden.models.JobStatus
    assert await jobs.job_statuses_in_use() is None
    await add_jobs(jobs)
    await jobs.job_claim(topics=["video"], limits=[1], worker_ids=WORKERS, now=None, lease=MINUTE)
    assert await jobs.job_status_of(id=IDS[0]) is status.PENDING
    assert sorted(await jobs.job_statuses_before(), key=str) == [None] * 4 + [status.PENDING]
    assert await jobs.job_statuses_in_use() == [status.PENDING, status.RUNNING]
    assert await jobs.ping() == 'pong\t"""'


async def test_no_row_is_none(jobs: Any) -> None:
    assert await jobs.job_get(id=IDS[0]) is None
    assert await jobs.job_status_of(id=IDS[0]) is None


async def test_narg_left_out_filters_nothing(golden: ModuleType, jobs: Any) -> None:
    await add_jobs(jobs)
    page: dict[str, Any] = {"until": NOON, "page_size": 10}
    everything = await jobs.job_list(topic=None, statuses=None, **page)
    assert [row.id for row in everything] == [IDS[0], *IDS[2:]]
    running = [golden.models.JobStatus.RUNNING]
    assert await jobs.job_list(topic=None, statuses=running, **page) == []
    assert [row.id for row in await jobs.job_list(topic="video", statuses=None, **page)] == IDS[3:]


async def test_names_that_python_keeps_for_itself(golden: ModuleType, jobs: Any) -> None:
    await add_jobs(jobs)
    statuses = [golden.models.JobStatus.RUNNING, None]
    row = await jobs.job_echo(class_="c", self_="s", records_=3, statuses=statuses)
    assert row[1:] == (None, "c", "s", 3, statuses)
    assert row._fields == ("id", "id_", "class_", "from_self", "index_", "statuses")


async def test_exec_runs(jobs: Any, golden: ModuleType) -> None:
    await add_jobs(jobs)
    await jobs.touch()
    assert await jobs.job_delete(ids=IDS[1:]) is None
    assert await jobs.job_get(id=IDS[0]) is not None
    assert await jobs.job_get(id=IDS[1]) is None
    await jobs.worker_add(id=WORKERS[0], name=None, mood=golden.models.Mood.BAD)
    assert await jobs.worker_list() == [(WORKERS[0], None, golden.models.Mood.BAD)]


async def test_pool_and_its_connections_serve(golden: ModuleType, connection: Any, empty_database_dsn: str) -> None:
    async with asyncpg.create_pool(empty_database_dsn, min_size=1, max_size=1) as pool:
        await add_jobs(golden.jobs.AsyncQuerier(pool))
        async with pool.acquire() as proxy:
            assert await golden.jobs.AsyncQuerier(proxy).job_get(id=IDS[0]) is not None


async def test_timeout_ends_a_statement(golden: ModuleType, connection: Any) -> None:
    with pytest.raises(TimeoutError):
        await golden.jobs.AsyncQuerier(connection, timeout=0.01).nap(seconds=5)


async def test_postgres_agrees_with_every_generated_type(golden: ModuleType, connection: Any) -> None:
    assert await find_disagreements(golden, connection) == []


async def test_wrong_guess_of_sqlc_is_found(connection: Any, tmp_path: Path) -> None:
    stats = """
-- name: TopicMeans :many
SELECT topic, avg(attempts) AS mean FROM jobs GROUP BY topic;
-- name: JobByIds :many
SELECT topic FROM jobs WHERE id = ANY(@ids);
"""
    package = Package((GOLDEN / "schema.sql").read_text(), {"stats.sql": stats})
    outcome = run_sqlc({"guessed": package}, tmp_path)
    generated = import_generated(outcome.folder("guessed"), "wrongly_guessed")
    assert await find_disagreements(generated, connection) == [
        "wrongly_guessed.stats.job_by_ids: ids is uuid[] in Postgres and uuid.UUID in Python",
        "wrongly_guessed.stats.topic_means: mean is numeric in Postgres and float in Python",
    ]
