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
    """One connection; a database that can't be reached is a StartupError, told without the DSN's password."""
    try:
        connection = await asyncpg.connect(dsn, timeout=CONNECT_TIMEOUT)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise StartupError(f"PULSE_DATABASE_URL: can't connect: {reason}") from None
    try:
        yield connection
    finally:
        await connection.close()
