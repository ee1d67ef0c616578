"""Servers for the tests of the server."""

from collections.abc import AsyncIterator

import pytest

from support.server import Server, VirtualClock, running_server


@pytest.fixture
async def server(database_dsn: str) -> AsyncIterator[Server]:
    """A server that goes by the database's clock."""
    async with running_server(database_dsn) as server:
        yield server


@pytest.fixture
async def timed_server(database_dsn: str) -> AsyncIterator[Server]:
    """A server whose clock the test moves: leases, backoff and schedules without waiting.

    Its own loops tick as usual, but time stands still for them until `server.clock.advance()`.
    """
    async with running_server(database_dsn, clock=VirtualClock()) as server:
        yield server
