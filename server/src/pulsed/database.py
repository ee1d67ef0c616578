"""Connections to Postgres: three lanes, a timeout on everything, and errors that callers understand.

The lanes keep each other free: operators' long lists can't hold up claims and reports, and nothing holds up
heartbeats, because a heartbeat that waits for a connection is a lost lease.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from pulsed.errors import InvalidArgument, PulsedError, ResourceExhausted, Unavailable

logger = logging.getLogger(__name__)

Connection: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"

# Jobs come and go faster than statistics do: no plan of ours gains from these.
SESSION = {"application_name": "pulsed", "jit": "off", "idle_in_transaction_session_timeout": "60s"}

# The hot statements have one good plan each, whatever their arguments: to plan them each time costs more than to run
# them. But a table that is empty when a plan is made looks as if it were best read from end to end, and a moment later
# it may hold a million jobs. So that way is closed, and no plan is kept for long.
FIXED_PLANS = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off"}
PLAN_LIFETIME = 5

# The database is away, or refuses for now. Deadlocks are among them: the statement changed nothing.
PASSING = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.exceptions.OperatorInterventionError,
    asyncpg.exceptions.InsufficientResourcesError,
    asyncpg.exceptions.ReadOnlySQLTransactionError,
    asyncpg.exceptions.TransactionRollbackError,
    asyncpg.exceptions.ObjectNotInPrerequisiteStateError,
)


async def _keep_session(connection: object) -> None:
    """Nothing of ours changes a session, so there is nothing to reset: one round trip less."""


class Lane:
    """A pool of connections for one kind of work.

    The driver's pool starts tasks and timers for each use, which costs as much as a small statement: what is free stays
    here, and goes back there only when somebody waits for it.
    """

    def __init__(self, name: str, pool: "asyncpg.Pool[asyncpg.Record]", timeout: timedelta) -> None:
        self._name = name
        self._pool = pool
        self._timeout = timeout.total_seconds()
        self._free: list[Connection] = []
        self._waiting = 0
        self._closing = False

    def connection(self) -> "Loan":
        """A connection. Waits for a free one within the timeout, then it's RESOURCE_EXHAUSTED."""
        return Loan(self)

    async def acquire(self) -> Connection:
        """For a loan: takes one out."""
        while self._free:
            connection = self._free.pop()
            if is_open(connection):
                return connection
            await self._pool.release(connection)
        self._waiting += 1
        try:
            return await self._pool.acquire(timeout=self._timeout)
        except TimeoutError:
            raise ResourceExhausted(f"every database connection for {self._name} is busy; try again") from None
        finally:
            self._waiting -= 1

    async def release(self, connection: Connection) -> None:
        """For a loan: takes it back."""
        if self._waiting or self._closing:
            await self._pool.release(connection, timeout=self._timeout)
        else:
            self._free.append(connection)

    async def close(self) -> None:
        """Gives everything back to the pool."""
        self._closing = True
        while self._free:
            await self._pool.release(self._free.pop())

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """A connection in a transaction."""
        async with self.connection() as connection, connection.transaction():
            yield connection


class Loan:
    """A connection of a lane for as long as the context is open, in which errors of the driver become ours.

    A class, because every statement needs one and contextlib's generators take longer.
    """

    __slots__ = ("_connection", "_lane")

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    async def __aenter__(self) -> Connection:
        try:
            self._connection = await self._lane.acquire()
        except Exception as error:
            raise_translated(error)
            raise
        return self._connection

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        try:
            await self._lane.release(self._connection)
        except Exception as failure:
            raise_translated(failure)
            raise
        if error is not None:
            raise_translated(error)


def is_open(connection: Connection) -> bool:
    """Whether it can be used."""
    try:
        return not connection.is_closed()
    except asyncpg.InterfaceError:  # it was cut, and the pool took it back
        return False


def raise_translated(error: BaseException) -> None:
    """Raises what the driver raised as an error of ours, if it is one of those that we know."""
    match error:
        case PulsedError():
            return
        case TimeoutError():
            raise Unavailable("the database did not answer in time; try again") from error
        case asyncpg.exceptions.DataError():
            # Its own words quote the value, and others may share the statement.
            raise InvalidArgument("request", "the database refused a value") from error
        case _ if isinstance(error, PASSING):
            logger.debug("database error", exc_info=error)
            raise Unavailable("the database is not available; try again") from error


@dataclass(frozen=True)
class Database:
    """The lanes of one process."""

    work: Lane
    heartbeat: Lane
    operator: Lane


@asynccontextmanager
async def open_database(
    dsn: str, *, pool_size: int, timeout: timedelta, prepared_statements: bool
) -> AsyncIterator[Database]:
    """Opens the lanes; Unavailable if the database does not answer."""

    async def open_lane(name: str, size: int, session: dict[str, str]) -> Lane:
        pool = asyncpg.create_pool(
            dsn,
            min_size=1,
            max_size=size,
            timeout=timeout.total_seconds(),
            command_timeout=timeout.total_seconds(),
            max_inactive_connection_lifetime=0,
            statement_cache_size=100 if prepared_statements else 0,
            max_cached_statement_lifetime=PLAN_LIFETIME,
            server_settings=SESSION | session,
            reset=_keep_session,
        )
        lane = Lane(name, await stack.enter_async_context(pool), timeout)
        stack.push_async_callback(lane.close)
        return lane

    async with AsyncExitStack() as stack:
        try:
            database = Database(
                work=await open_lane("work", pool_size, FIXED_PLANS),
                heartbeat=await open_lane("heartbeats", 2, FIXED_PLANS),
                # Filters differ from call to call: a plan made for one is wrong for the next.
                operator=await open_lane("operators", 4, {"plan_cache_mode": "force_custom_plan"}),
            )
        except Exception as error:
            raise_translated(error)
            raise
        yield database
