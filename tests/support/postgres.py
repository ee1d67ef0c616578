"""pytest plugin: a real Postgres, and a database of its own for every test that asks for one.

    database_dsn          a fresh database with pulse's schema
    empty_database_dsn    a fresh database with nothing in it
    databases             the maker of both, for a test that needs several

By default a session (under pytest-xdist: each worker) starts the embedded Postgres on a unix
socket. The environment can name another one:

    PULSE_TEST_POSTGRES_BIN   programs to run instead, such as /usr/lib/postgresql/15/bin
    PULSE_TEST_DATABASE_URL   a running server to use instead; the role needs CREATEDB

The fixtures are plain functions that work in a thread with an event loop of its own: so they serve
plain tests, pytest-asyncio with any loop, Hypothesis and Playwright alike. Nothing but pytest is
imported before a test asks for a database: the SDK's tests run without server and driver.
"""

import asyncio
import os
import shutil
import tempfile
import threading
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    import asyncpg

Result = TypeVar("Result")

# Tests may lose their data in a power cut.
_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_MEMORY = Path("/dev/shm")
_MEMORY_NEEDED_BYTES = 4 * 1024**3
_PREFIX = "pulse-test-"


class Databases:
    """Makes and drops databases on the session's server."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        self._names = (f"pulse_test_{uuid4().hex[:12]}_{number}" for number in count())
        self._server_dsn: str
        self._connection: asyncpg.Connection[asyncpg.Record]
        self._template: str | None = None

    @contextmanager
    def running(self) -> Iterator["Databases"]:
        """Start the server, or reach the one that the environment names; stop it afterwards."""
        thread = threading.Thread(target=self._loop.run_forever, name="test databases")
        thread.start()
        try:
            self._run(self._start())
            yield self
        finally:
            self._run(self._stack.aclose())
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()
            self._loop.close()

    @contextmanager
    def empty(self) -> Iterator[str]:
        """The dsn of a database without any table."""
        with self._database("template0") as dsn:
            yield dsn

    @contextmanager
    def migrated(self) -> Iterator[str]:
        """The dsn of a database with pulse's schema: a copy of one that was migrated once."""
        if self._template is None:
            self._template = self._run(self._make_template())
        with self._database(self._template) as dsn:
            yield dsn

    @contextmanager
    def _database(self, template: str) -> Iterator[str]:
        name = next(self._names)
        self._run(self._create(name, template))
        try:
            yield _with_database(self._server_dsn, name)
        finally:
            self._run(self._drop(name))

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _start(self) -> None:
        import asyncpg

        url = os.environ.get("PULSE_TEST_DATABASE_URL")
        self._server_dsn = url or await self._start_postgres()
        self._connection = await asyncpg.connect(self._server_dsn)
        self._stack.push_async_callback(self._connection.close)

    async def _start_postgres(self) -> str:
        from pulsed.embedded import EmbeddedPostgres

        directory = self._stack.enter_context(_temporary_directory())
        programs = os.environ.get("PULSE_TEST_POSTGRES_BIN")
        bin_dir = Path(programs) if programs else None
        postgres = EmbeddedPostgres(directory, bin_dir=bin_dir, settings=_SETTINGS)
        return (await self._stack.enter_async_context(postgres)).dsn

    async def _make_template(self) -> str:
        import asyncpg

        from pulsed.migrations import migrate

        name = next(self._names)
        await self._create(name, "template0")
        self._stack.push_async_callback(self._drop, name)
        connection = await asyncpg.connect(_with_database(self._server_dsn, name))
        try:
            await migrate(connection)
        finally:
            await connection.close()
        return name

    async def _create(self, name: str, template: str) -> None:
        # Copying files beats logging every block (10 against 14 ms); before 15 it is the only way.
        copying = self._connection.get_server_version().major >= 15
        strategy = "STRATEGY FILE_COPY" if copying else ""
        await self._connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} {strategy}")

    async def _drop(self, name: str) -> None:
        # A test may leave connections open; with them it takes 100 ms instead of 5.
        await self._connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def _with_database(dsn: str, name: str) -> str:
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))


@contextmanager
def _temporary_directory() -> Iterator[Path]:
    """In memory where there is plenty: on a disk a new database may take 300 ms instead of 10."""
    base = Path(tempfile.gettempdir())
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _MEMORY_NEEDED_BYTES:
        base = _MEMORY
    _remove_leftovers(base)
    path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=base))
    path.chmod(0o711)  # as root, a Postgres before 16 must be able to walk through it
    try:
        yield path
    finally:
        shutil.rmtree(path)


def _remove_leftovers(base: Path) -> None:
    """A killed test run cannot tidy up after itself, and memory is dear."""
    for path in base.glob(f"{_PREFIX}*"):
        pid = int(path.name.removeprefix(_PREFIX).split("-")[0])
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            shutil.rmtree(path, ignore_errors=True)
        except PermissionError:  # it lives, and is somebody else's
            continue


@pytest.fixture(scope="session")
def databases() -> Iterator[Databases]:
    """Where databases come from, for tests that need more than one."""
    with Databases().running() as databases:
        yield databases


@pytest.fixture
def empty_database_dsn(databases: Databases) -> Iterator[str]:
    """A fresh database with nothing in it."""
    with databases.empty() as dsn:
        yield dsn


@pytest.fixture
def database_dsn(databases: Databases) -> Iterator[str]:
    """A fresh database with pulse's schema."""
    with databases.migrated() as dsn:
        yield dsn
