"""What a test looks at: a database, the server on it and the dashboard in front, each as real as in production."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, TypeVar

from anyio.from_thread import BlockingPortal

import pulse.sync
from pulse_gen.rpc.pulse.v1 import AttemptRef, JobAssignment
from support.server import BareWorker, Server, running_server

PATIENCE = 30.0
Result = TypeVar("Result")


class Worker:
    """A worker whose jobs the test takes and reports by hand."""

    def __init__(self, world: "World", bare: BareWorker) -> None:
        self._world = world
        self._bare = bare

    @property
    def id(self) -> str:
        """What the server knows it by."""
        return self._bare.worker_id

    def take(self, count: int = 1) -> list[JobAssignment]:
        """The next jobs that it was given."""
        return self._world.run(self._bare.take, count)

    def complete(self, count: int = 1) -> None:
        """Take so many and report success."""
        for assignment in self.take(count):
            self._world.run(self._bare.complete, assignment)

    def fail(self, error: str, count: int = 1, **failure: Any) -> None:
        """Take so many and report a failure."""
        for assignment in self.take(count):
            self._world.run(self._bare.fail, assignment, error, **failure)

    def cancellation(self) -> AttemptRef:
        """The next attempt that it is asked to stop."""
        return self._world.run(self._bare.cancellations.get)

    def report_success(self, assignment: JobAssignment) -> None:
        """Report about a job that was taken before."""
        self._world.run(self._bare.complete, assignment)

    def report_failure(self, assignment: JobAssignment, error: str) -> None:
        """Report about a job that was taken before."""
        self._world.run(self._bare.fail, assignment, error)


class World:
    """A server with its database and its dashboard."""

    def __init__(
        self, portal: BlockingPortal, server: Server, dashboard: "Dashboard", client: pulse.sync.Pulse
    ) -> None:
        self.portal = portal
        self.server = server
        self.dashboard = dashboard
        self.pulse = client

    @property
    def url(self) -> str:
        """Where the dashboard is."""
        return self.dashboard.url

    def run(self, work: Callable[..., Awaitable[Result]], *arguments: Any, **named: Any) -> Result:
        """Await something on the server's loop."""
        return self.portal.call(partial(work, *arguments, **named))

    def rows(self, query: str, *arguments: Any) -> list[dict[str, Any]]:
        """What the database says."""
        return [dict(row) for row in self.run(self.server.database.fetch, query, *arguments)]

    def value(self, query: str, *arguments: Any) -> Any:
        """One value from the database."""
        return self.run(self.server.database.fetchval, query, *arguments)

    def execute(self, statement: str, *arguments: Any) -> None:
        """Change the database behind everybody's back."""
        self.run(self.server.database.execute, statement, *arguments)

    def statuses(self, topic: str) -> dict[str, int]:
        """How many jobs of a topic have each status, by the table."""
        query = "SELECT status::text, count(*) FROM jobs WHERE topic = $1 GROUP BY status"
        return {row["status"]: row["count"] for row in self.rows(query, topic)}

    @contextmanager
    def worker(self, *topics: str, host: str = "test", **options: Any) -> Iterator[Worker]:
        """A worker while the block lasts."""
        bare = self.run(self._make_worker, topics, options)
        bare.request.host = host
        with self.portal.wrap_async_context_manager(bare):
            yield Worker(self, bare)

    async def _make_worker(self, topics: tuple[str, ...], options: dict[str, Any]) -> BareWorker:
        return self.server.worker(*topics, **options)  # its queues belong to the loop that they are made on


class Dashboard:
    """A running `pulse-ui`, and what it logs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.log = ""
        self.url: str

    async def start_reading(self) -> asyncio.Task[None]:
        """Reads the log up to the line that says where it serves, and goes on reading."""
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.log += line.decode()
            if found := re.search(r"https?://[\d.]+:\d+", self.log):
                self.url = found.group()
                return asyncio.create_task(self._read(self.process.stderr))
        raise AssertionError(f"pulse-ui did not start:\n{self.log}")

    async def _read(self, stream: asyncio.StreamReader) -> None:
        async for line in stream:
            self.log += line.decode()


@asynccontextmanager
async def running_dashboard(address: str, **settings: str) -> AsyncIterator[Dashboard]:
    """`pulse-ui` as a process of its own, for the server at that address; settings without their prefix."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PULSE_")}
    environment |= {"PULSE_ADDR": address, "PULSE_UI_ADDR": "127.0.0.1:0", "PYTHONUNBUFFERED": "1"}
    environment |= {f"PULSE_{name.upper()}": value for name, value in settings.items()}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pulse_ui", env=environment, stderr=asyncio.subprocess.PIPE
    )
    dashboard = Dashboard(process)
    try:
        async with asyncio.timeout(PATIENCE):
            reading = await dashboard.start_reading()
        yield dashboard
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(PATIENCE):
            await reading
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@contextmanager
def running_world(
    portal: BlockingPortal, dsn: str, *, users: Mapping[str, str] | None = None, **settings: str
) -> Iterator[World]:
    """All of it, on a migrated database. The test is the first of the users; `ui_*` are the dashboard's settings."""
    for_dashboard = {name: value for name, value in settings.items() if name.startswith("ui_")}
    for_server: dict[str, Any] = {name: value for name, value in settings.items() if name not in for_dashboard}
    credentials: tuple[str | None, str | None] = (None, None)
    if users:
        for_server["auth_users"] = ",".join(f"{user}:{password}" for user, password in users.items())
        credentials = next(iter(users.items()))
    with ExitStack() as stack:
        server = stack.enter_context(portal.wrap_async_context_manager(running_server(dsn, **for_server)))
        address = f"127.0.0.1:{server.app.port}"
        starting = running_dashboard(address, **for_dashboard)
        dashboard = stack.enter_context(portal.wrap_async_context_manager(starting))
        client = stack.enter_context(pulse.sync.Pulse(address, user=credentials[0], password=credentials[1]))
        yield World(portal, server, dashboard, client)
