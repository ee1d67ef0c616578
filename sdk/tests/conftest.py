"""A real server on a real Postgres for every test that asks for one."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

import pulse

PATIENCE = 20


class ServerThread:
    """A server in a thread of its own: it serves plain tests and async ones alike, and is there in 50 ms."""

    def __init__(self, dsn: str, **settings: Any) -> None:
        self._dsn = dsn
        self._settings = settings
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="test server")
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self.app: Any
        self.address: str

    async def _serve(self) -> None:
        from pulsed.app import run_app
        from pulsed.settings import load_settings

        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            settings = load_settings(grpc_addr="127.0.0.1:0", shutdown_timeout=timedelta(0), **self._settings)
            async with run_app(settings, self._dsn) as self.app:
                self.address = f"127.0.0.1:{self.app.port}"
                self._ready.set()
                await self._stop.wait()
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._ready.set()

    def __enter__(self) -> "ServerThread":
        self._thread.start()
        self._ready.wait(PATIENCE)
        assert self._error is None, self._error
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)


class ServerProcess:
    """`pulsed` as a process, to be killed."""

    def __init__(self, dsn: str, port: int, **environment: str) -> None:
        self.address = f"127.0.0.1:{port}"
        self._environment = {
            **os.environ,
            "PULSE_DATABASE_URL": dsn,
            "PULSE_GRPC_ADDR": self.address,
            "PULSE_LOG_LEVEL": "info",
            **environment,
        }
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Until it serves."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pulsed"], env=self._environment, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stderr is not None
        lines = []
        for line in self._process.stderr:
            lines.append(line)
            if '"serving"' in line:
                self._reader = threading.Thread(target=self._process.stderr.read)
                self._reader.start()
                return
        raise AssertionError("".join(lines))

    @property
    def pid(self) -> int:
        """To send signals to."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            assert self._process.stderr is not None
            self._process.stderr.close()
            self._process = None


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No PULSE_ variables."""
    for name in list(os.environ):
        if name.startswith("PULSE_") and not name.startswith("PULSE_TEST_"):
            monkeypatch.delenv(name)


@pytest.fixture
def make_server(database_dsn: str, clean_environment: None) -> Iterator[Callable[..., ServerThread]]:
    """Starts servers with settings of the test's own, all on one database."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(ServerThread(database_dsn, **settings))


@pytest.fixture
def server(make_server: Callable[..., ServerThread]) -> ServerThread:
    """A server with the usual settings."""
    return make_server()


@pytest.fixture
async def client(server: ServerThread) -> AsyncIterator[pulse.Pulse]:
    """A client of that server."""
    async with pulse.Pulse(server.address, concurrency=10) as client:
        yield client


class RunningWorker:
    """A worker in the background; it is stopped when the block ends."""

    def __init__(self, client: pulse.Pulse) -> None:
        self._client = client

    async def __aenter__(self) -> "RunningWorker":
        self.task = asyncio.create_task(self._client.run(handle_signals=False))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._client.stop()
        try:
            async with asyncio.timeout(PATIENCE):
                await self.task
        except TimeoutError:
            raise AssertionError("the worker did not stop") from None


@pytest.fixture
def running() -> Callable[[pulse.Pulse], RunningWorker]:
    """`async with running(client):` a worker runs meanwhile."""
    return RunningWorker


@pytest.fixture
def until_status() -> Callable[..., Awaitable[pulse.JobInfo]]:
    """`await until_status(client, job_id, "COMPLETED")`: the job, as soon as it has one of these statuses."""

    async def wait(client: pulse.Pulse, job_id: str, *statuses: str) -> pulse.JobInfo:
        async with asyncio.timeout(PATIENCE):
            while (job := await client.get_job(job_id)).status not in statuses:
                await asyncio.sleep(0.02)
        return job

    return wait


@pytest.fixture
def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def server_process(database_dsn: str, free_port: int, clean_environment: None) -> Iterator[ServerProcess]:
    """`pulsed` with short leases; started by the test."""
    process = ServerProcess(
        database_dsn, free_port, PULSE_LEASE_TTL="2s", PULSE_WATCHDOG_INTERVAL="300ms", PULSE_DISPATCH_INTERVAL="100ms"
    )
    yield process
    process.kill()
