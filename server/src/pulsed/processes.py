"""Several server processes on one port: the kernel spreads connections over them (SO_REUSEPORT).

The parent owns the embedded Postgres, if there is one, starts the children and starts them again when they die.
"""

import asyncio
import logging
import multiprocessing
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.context import SpawnProcess

import uvloop

from pulsed.app import run_app
from pulsed.errors import StartupError
from pulsed.logs import configure_logging
from pulsed.loops import Failures
from pulsed.settings import Settings, parse_address

logger = logging.getLogger(__name__)


def stop_signal() -> asyncio.Event:
    """Set by SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


@asynccontextmanager
async def run_processes(settings: Settings, dsn: str) -> AsyncIterator[None]:
    """Keeps `settings.processes` servers running while the context is open."""
    if parse_address(settings.grpc_addr)[1] == 0:
        raise StartupError("PULSE_GRPC_ADDR: several processes need a port other than 0 to share")
    async with asyncio.TaskGroup() as tasks:
        keepers = [tasks.create_task(_keep_running(number, settings, dsn)) for number in range(settings.processes)]
        try:
            yield
        finally:
            for keeper in keepers:
                keeper.cancel()


async def _keep_running(number: int, settings: Settings, dsn: str) -> None:
    failures = Failures(f"server process {number}")
    context = multiprocessing.get_context("spawn")
    while True:
        child = context.Process(target=serve_child, args=(number, settings, dsn))
        child.start()
        try:
            await _ended(child)
        except asyncio.CancelledError:
            child.terminate()
            await _ended(child)
            raise
        await asyncio.sleep(failures.failed(ChildProcessError(f"it ended with {child.exitcode}")))


async def _ended(child: SpawnProcess) -> None:
    """Waits for the end of a process without blocking the loop."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(child.sentinel, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(child.sentinel)
    child.join()


def serve_child(number: int, settings: Settings, dsn: str) -> None:
    """One of several processes; its metrics are on a port of its own."""
    configure_logging(settings.log_level)
    if settings.metrics_addr is not None:
        host, port = parse_address(settings.metrics_addr)
        own = f"{host or ''}:{port + number}"
        settings = settings.model_copy(update={"metrics_addr": own})
    try:
        uvloop.run(_serve(settings, dsn))
    except* StartupError as group:
        sys.exit(f"pulsed: {group.exceptions[0]}")


async def _serve(settings: Settings, dsn: str) -> None:
    stop = stop_signal()
    async with run_app(settings, dsn, reuse_port=True) as app:
        logger.info("serving", extra={"port": app.port})
        await stop.wait()
