"""The databases that tests get: each apart, with the schema or without, and gone afterwards."""

import asyncpg

from pulsed.migrations import check
from support.postgres import Databases


async def count_databases(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM pg_database"))
    finally:
        await connection.close()


async def test_databases_are_apart_and_dropped_although_somebody_is_connected(
    databases: Databases, empty_database_dsn: str
) -> None:
    before = await count_databases(empty_database_dsn)
    with databases.empty() as one, databases.empty() as other:
        connection = await asyncpg.connect(one)
        await connection.execute("CREATE TABLE mine (id int)")
        second = await asyncpg.connect(other)
        assert await second.fetchval("SELECT to_regclass('mine')") is None
        await second.close()
        assert await count_databases(empty_database_dsn) == before + 2
    assert await count_databases(empty_database_dsn) == before
    connection.terminate()


async def test_migrated_database_has_the_schema(database_dsn: str) -> None:
    connection = await asyncpg.connect(database_dsn)
    await check(connection)
    await connection.close()


def test_plain_function_may_use_a_database(database_dsn: str) -> None:
    assert database_dsn.startswith("postgresql://")
