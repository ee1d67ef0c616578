"""Every query of pulse, prepared by a real Postgres on the real schema."""

import asyncpg

import pulse_gen.db
from sqlc_gen_asyncpg.database_check import find_disagreements


async def test_postgres_accepts_every_query_and_agrees_with_its_types(database_dsn: str) -> None:
    connection = await asyncpg.connect(database_dsn)
    try:
        assert await find_disagreements(pulse_gen.db, connection) == []
    finally:
        await connection.close()
