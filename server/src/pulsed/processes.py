"""Several server processes on one port: the kernel spreads connections over them (SO_REUSEPORT).

The parent owns the embedded Postgres, if there is one, starts the children and starts them again when they die.
"""

import asyncio
import gc
import logging
import multiprocessing
import multiprocessing.connection
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from multiprocessing.context import SpawnProcess

import uvloop

from pulsed.app import run_app
from pulsed.errors import PulsedError, StartupError, first_error
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


def rest_collector() -> None:
    """Tells the garbage collector what lasts as long as the process, and to look at the rest less often.

    A batch makes thousands of objects that no cycle holds. To look at them after every 700, as is the default, took a
    sixth of the server's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


@asynccontextmanager
async def run_processes(settings: Settings, dsn: str) -> AsyncIterator[None]:
    """Keeps `settings.processes` servers running while the context is open.

    One that can't start in the first place is a StartupError; one that dies later is started again.
    """
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
    first = True
    while True:
        refusal, sender = context.Pipe(duplex=False)
        with refusal, sender:
            child = context.Process(target=serve_child, args=(number, settings, dsn, sender))
            child.start()
            try:
                await _ended(child)
            except asyncio.CancelledError:
                child.terminate()
                await _ended(child)
                raise
            reason = refusal.recv() if refusal.poll() else None
        if first and reason is not None:
            raise StartupError(reason)
        first = False
        await asyncio.sleep(failures.failed(ChildProcessError(reason or f"it ended with {child.exitcode}")))


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


def serve_child(
    number: int, settings: Settings, dsn: str, refusal: "multiprocessing.connection.Connection[str, str]"
) -> None:
    """One of several processes; its metrics are on a port of its own. Why it can't start, it tells its parent."""
    configure_logging(settings.log_level)
    if settings.metrics_addr is not None:
        settings = settings.model_copy(update={"metrics_addr": own_address(settings.metrics_addr, number)})
    try:
        uvloop.run(_serve(settings, dsn))
    except* PulsedError as group:
        # Once one process is refused the parent ends them all, and need not hear the same from each.
        with suppress(OSError):
            refusal.send(str(first_error(group)))
        sys.exit(1)


def own_address(address: str, number: int) -> str:
    """The address of one process: ports in a row, or any if that is what was asked for."""
    host, port = parse_address(address)
    return f"{host or ''}:{port and port + number}"


def stop_when_orphaned(stop: asyncio.Event) -> None:
    """Ends this process with its parent, which may be killed: nobody would ever stop it otherwise."""
    loop = asyncio.get_running_loop()
    parent = multiprocessing.parent_process()
    assert parent is not None

    def orphaned() -> None:
        loop.remove_reader(parent.sentinel)
        stop.set()

    loop.add_reader(parent.sentinel, orphaned)


async def _serve(settings: Settings, dsn: str) -> None:
    stop = stop_signal()
    stop_when_orphaned(stop)
    async with run_app(settings, dsn, reuse_port=True) as app:
        rest_collector()
        logger.info("serving", extra={"port": app.port})
        await stop.wait()
