"""The database of this server: the one that the settings name, or an embedded one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg

from pulsed.embedded import EmbeddedPostgres, default_data_dir
from pulsed.errors import StartupError
from pulsed.migrations import check, migrate
from pulsed.settings import Settings

CONNECT_TIMEOUT = 10
DATABASE_ERRORS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError)


@dataclass(frozen=True)
class Store:
    """Where the database is, and the Postgres process behind it if that is ours."""

    dsn: str
    embedded: EmbeddedPostgres | None

    async def run_until(self, stop: asyncio.Event) -> None:
        """Waits for the stop; an embedded Postgres that dies before is an error."""
        if self.embedded is None:
            await stop.wait()
            return
        watching = asyncio.ensure_future(self.embedded.watch())
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait([watching, stopping], return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
        finally:
            watching.cancel()
            stopping.cancel()


@asynccontextmanager
async def open_store(settings: Settings, *, prepare: bool = True) -> AsyncIterator[Store]:
    """The database, its schema ready: an embedded one is migrated, another one only checked.

    `prepare=False` leaves the schema as it is.
    """
    if settings.database_url is not None:
        store = Store(settings.database_url.get_secret_value(), None)
        if prepare:
            async with connected(store.dsn) as connection:
                await check(connection)
        yield store
        return
    async with EmbeddedPostgres(settings.data_dir or default_data_dir()) as embedded:
        store = Store(embedded.dsn, embedded)
        if prepare:
            async with connected(store.dsn) as connection:
                await migrate(connection)
        yield store


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """One connection; a database that can't be reached or used is a StartupError, told without the DSN's password."""
    try:
        # Named statements don't pass pgbouncer, and nothing here is run twice.
        connection = await asyncpg.connect(dsn, timeout=CONNECT_TIMEOUT, statement_cache_size=0)
    except DATABASE_ERRORS as error:
        raise StartupError(f"PULSE_DATABASE_URL: can't connect: {_first_line(error)}") from None
    except ValueError:
        # Its text would quote the part of the DSN that could not be read, which may be of the password.
        raise StartupError(
            "PULSE_DATABASE_URL: is not a DSN such as postgresql://user:password@host:5432/database;"
            " special characters of a password are written as %XX"
        ) from None
    try:
        yield connection
    except DATABASE_ERRORS as error:
        raise StartupError(f"PULSE_DATABASE_URL: {_first_line(error)}") from None
    finally:
        await connection.close()


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
