"""The worker's composition root, and its life from start to drained."""

import asyncio
import logging
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from pulse._errors import TaskError
from pulse._middleware import Middleware
from pulse._settings import ConnectionSettings
from pulse._task import Task
from pulse._worker.prefetch import Prefetch
from pulse._worker.runner import Runner
from pulse._worker.settings import WorkerSettings
from pulse._worker.transport import Transport
from pulse._worker.watch import LoopWatch
from pulse_gen.rpc.pulse.v1 import JobResult

logger = logging.getLogger("pulse.worker")

# How long handlers that were cancelled may take to clean up, and the last results to be sent, in seconds.
UNWIND = 5.0
FLUSH = 10.0


class Worker:
    """Takes jobs and runs them until it is told to stop. Made for one run."""

    def __init__(
        self,
        connection: ConnectionSettings,
        settings: WorkerSettings,
        tasks: Mapping[str, Task[Any]],
        middleware: Sequence[Middleware],
    ) -> None:
        if not tasks:
            raise TaskError("this worker has no tasks: decorate functions with @p.task(name) before p.run()")
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._runner = Runner(
            tasks,
            concurrency=settings.concurrency,
            processes=settings.processes,
            middleware=middleware,
            report=self._report,
        )
        watch = LoopWatch(self._loop, threading.get_ident(), self._runner.active, settings.blocked_after)
        prefetch = Prefetch(settings.prefetch, settings.concurrency, lambda: self._runner.started, self._runner.active)
        self._transport = Transport(connection, settings, sorted(tasks), watch.run, prefetch)

    def stop(self) -> None:
        """Drain; a second call ends it at once. Safe from any thread."""
        self._loop.call_soon_threadsafe(self._note_stop)

    async def run(self, *, handle_signals: bool) -> None:
        """Until told to stop, then drained. Cancelled, it stops at once."""
        with _signals(self._note_stop) if handle_signals else _nothing():
            try:
                await self._transport.start(self._runner)
                await self._until(self._stop, self._transport.connected())
                await self._until(self._stop)
                logger.info("draining", extra={"running": len(self._runner.active)})
                await self._transport.close_stream()
                self._runner.hand_back_queue()
                await self._until(self._stop_now, self._runner.wait_idle(), timeout=self._settings.drain_timeout)
            finally:
                await self._end()

    def _note_stop(self) -> None:
        if self._stop.is_set():
            self._stop_now.set()
        self._stop.set()

    def _report(self, result: JobResult) -> None:
        self._transport.report(result)

    async def _until(self, event: asyncio.Event, *others: Any, timeout: float | None = None) -> None:
        """Until the event, one of the others, or the end of the transport, whose error is ours."""
        ended = asyncio.wrap_future(self._transport.ended)
        waiting = [asyncio.ensure_future(each) for each in (event.wait(), *others)]
        try:
            await asyncio.wait([ended, *waiting], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                ended.result()
        finally:
            for each in waiting:
                each.cancel()

    async def _end(self) -> None:
        """Stop what still runs, send the last results and let go of everything."""
        try:
            if self._transport.ended.done():
                self._runner.stop_all()
                return
            if self._runner.active:
                logger.warning(
                    "handlers did not end in time and are stopped; their jobs run again elsewhere",
                    extra={"running": len(self._runner.active)},
                )
            # Before anything is handed back, or it would be given to us again.
            await self._transport.close_stream()
            self._runner.hand_back_queue()
            self._runner.stop_all()
            # What does not listen is left behind; the lease of its job runs out.
            with suppress(TimeoutError):
                async with asyncio.timeout(UNWIND):
                    await self._runner.wait_unwound()
            await self._transport.finish(0.5 if self._stop_now.is_set() else FLUSH)
        finally:
            self._runner.close()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _signals(handler: Any) -> Iterator[None]:
    """SIGTERM and SIGINT call the handler; elsewhere than in the main thread they are left alone."""
    loop = asyncio.get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        try:
            loop.add_signal_handler(number, handler)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(handler))
    try:
        yield
    finally:
        for number in numbers:
            with suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            signal.signal(number, before[number])
