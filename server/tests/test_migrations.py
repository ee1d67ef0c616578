"""Migrations run once, whole, in order, and never against a schema they do not know."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import pytest

from pulsed import migrations
from pulsed.migrations import Migration, MigrationError, check, load_migrations, migrate, status

if TYPE_CHECKING:
    from pulsed.migrations import Connection

# Each fails when it runs a second time, or before the one above it.
JOBS = Migration(1, "jobs", "CREATE TABLE jobs (id int); INSERT INTO jobs VALUES (1);")
TOPICS = Migration(2, "topics", "ALTER TABLE jobs ADD topic text; CREATE INDEX ON jobs (topic);")
LEASES = Migration(3, "leases", "ALTER TABLE jobs ADD lease timestamptz;")
ALL = (JOBS, TOPICS, LEASES)

WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


@pytest.fixture
async def connection(empty_database_dsn: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(empty_database_dsn)
    yield connection
    await connection.close()


def write(directory: Path, files: Mapping[str, str]) -> Path:
    for name, sql in files.items():
        (directory / name).write_text(sql)
    return directory


async def versions(connection: Connection) -> list[int]:
    return [row.version for row in (await status(connection, ALL)).applied]


async def test_empty_database_gets_every_migration_in_order(
    connection: Connection,
) -> None:
    assert await migrate(connection, ALL) == list(ALL)
    assert await versions(connection) == [1, 2, 3]
    assert await connection.fetchval("SELECT count(lease) FROM jobs WHERE topic IS NULL") == 0
    await check(connection, ALL)


async def test_second_run_applies_nothing(connection: Connection) -> None:
    await migrate(connection, ALL)
    assert await migrate(connection, ALL) == []


async def test_only_what_is_missing_is_applied(connection: Connection) -> None:
    await migrate(connection, ALL[:1])
    assert await migrate(connection, ALL) == [TOPICS, LEASES]


async def migrate_all_at_once(dsn: str, *connections: Connection) -> list[Migration]:
    """Let the migrators go when each of them waits for its turn; return what they applied."""
    gate = await asyncpg.connect(dsn)
    try:
        await gate.execute("SELECT pg_advisory_lock($1)", migrations._LOCK_KEY)
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            runs = [group.create_task(migrate(connection, ALL)) for connection in connections]
            while await gate.fetchval(WAITING) < len(connections):
                await asyncio.sleep(0)
            await gate.execute("SELECT pg_advisory_unlock($1)", migrations._LOCK_KEY)
    finally:
        await gate.close()
    return [migration for run in runs for migration in run.result()]


async def test_migrators_that_race_apply_each_migration_once(empty_database_dsn: str) -> None:
    connections = [await asyncpg.connect(empty_database_dsn) for _ in range(5)]
    try:
        applied = await migrate_all_at_once(empty_database_dsn, *connections)
        assert sorted(migration.version for migration in applied) == [1, 2, 3]
        assert await versions(connections[0]) == [1, 2, 3]
    finally:
        for connection in connections:
            await connection.close()


async def test_migrator_that_waited_sees_the_others_work_whatever_the_default_isolation(
    empty_database_dsn: str,
) -> None:
    strict = {"default_transaction_isolation": "serializable"}
    first = await asyncpg.connect(empty_database_dsn, server_settings=strict)
    second = await asyncpg.connect(empty_database_dsn, server_settings=strict)
    try:
        applied = await migrate_all_at_once(empty_database_dsn, first, second)
        assert sorted(migration.version for migration in applied) == [1, 2, 3]
    finally:
        await first.close()
        await second.close()


async def test_endless_other_migrator_is_reported(
    connection: Connection,
    empty_database_dsn: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(migrations, "_TURN_TIMEOUT", timedelta(milliseconds=50))
    other = await asyncpg.connect(empty_database_dsn)
    try:
        await other.execute("SELECT pg_advisory_lock($1)", migrations._LOCK_KEY)
        with pytest.raises(MigrationError, match="another process has been migrating"):
            await migrate(connection, ALL)
    finally:
        await other.close()
    assert await migrate(connection, ALL) == list(ALL)


async def test_broken_migration_leaves_nothing_and_names_its_file_and_line(
    connection: Connection,
) -> None:
    broken = Migration(2, "broken", "CREATE TABLE half (id int);\nSELECT nothing;")
    with pytest.raises(MigrationError) as caught:
        await migrate(connection, (JOBS, broken))
    assert str(caught.value).startswith('0002_broken.sql line 2: column "nothing" does not exist')
    assert await versions(connection) == [1]
    assert await connection.fetchval("SELECT to_regclass('half')") is None
    assert await migrate(connection, ALL) == [TOPICS, LEASES]


async def test_edited_migration_is_refused(connection: Connection) -> None:
    await migrate(connection, ALL)
    edited = (JOBS, Migration(2, "topics", TOPICS.sql + " -- later thought"), LEASES)
    for refused in (migrate(connection, edited), check(connection, edited)):
        with pytest.raises(MigrationError, match=r"0002_topics\.sql is not the file that was"):
            await refused


async def test_newer_schema_is_refused(connection: Connection) -> None:
    await migrate(connection, ALL)
    expected = r"schema \(3\) is newer than this program knows \(2\): upgrade pulsed"
    for refused in (migrate(connection, ALL[:2]), check(connection, ALL[:2])):
        with pytest.raises(MigrationError, match=expected):
            await refused


async def test_check_refuses_a_schema_that_is_behind(
    connection: Connection,
) -> None:
    await migrate(connection, ALL[:1])
    with pytest.raises(MigrationError, match=r"schema \(1\) is older .* \(3\): run `pulsed migr"):
        await check(connection, ALL)


async def test_status_tells_applied_from_pending_and_changes_nothing(
    connection: Connection,
) -> None:
    before = await status(connection, ALL)
    assert (before.version, before.applied, before.pending) == (0, (), ALL)
    assert await connection.fetchval("SELECT to_regclass('schema_migrations')") is None

    await migrate(connection, ALL[:2])
    after = await status(connection, ALL)
    assert [(row.version, row.name) for row in after.applied] == [(1, "jobs"), (2, "topics")]
    assert (after.version, after.pending) == (2, (LEASES,))


async def test_table_of_another_program_is_told_apart(
    connection: Connection,
) -> None:
    await connection.execute("CREATE TABLE schema_migrations (version text)")
    with pytest.raises(MigrationError, match="belongs to another program"):
        await migrate(connection, ALL)


def test_files_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    write(tmp_path, {"0002_b.sql": "B", "0001_a.sql": "A", "README.md": "not a migration"})
    assert load_migrations(tmp_path) == (Migration(1, "a", "A"), Migration(2, "b", "B"))


def test_line_ends_of_a_checkout_do_not_change_the_checksum(tmp_path: Path) -> None:
    (tmp_path / "0001_a.sql").write_bytes(b"SELECT 1;\r\n")
    assert load_migrations(tmp_path)[0].checksum == Migration(1, "a", "SELECT 1;\n").checksum


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("0001_a.sql", "0003_c.sql"), "there is no migration 0002"),
        (("0002_b.sql",), "there is no migration 0001"),
        (("0001_a.sql", "0001_b.sql"), "0001_a.sql and 0001_b.sql share a number"),
        (("0001_a.sql", "2_b.sql"), "2_b.sql is not named as a migration"),
        ((), "there are no migrations in"),
    ],
)
def test_files_that_make_no_sequence_are_refused(tmp_path: Path, names: tuple[str, ...], message: str) -> None:
    write(tmp_path, dict.fromkeys(names, "SELECT 1;"))
    with pytest.raises(MigrationError, match=message):
        load_migrations(tmp_path)
