"""Everything between a worker and its server, on an event loop and in a thread of its own.

Handlers may do to their loop what they like: jobs are received, kept and reported all the same.
"""

import asyncio
import logging
import os
import platform
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Future
from contextlib import aclosing, suppress
from typing import Any, Protocol

from pulse._connection import Connection, full_jitter
from pulse._errors import BROKEN_CALLS, AuthError, ConfigurationError, InvalidArgument, PulseError, translate_error
from pulse._ids import new_id
from pulse._settings import ConnectionSettings
from pulse._version import __version__
from pulse._worker.heartbeats import Heartbeats
from pulse._worker.held import HeldJobs
from pulse._worker.prefetch import Prefetch
from pulse._worker.reporter import Reporter
from pulse._worker.results import handed_back
from pulse._worker.runner import Stop
from pulse._worker.settings import WorkerSettings
from pulse_gen.rpc.pulse.v1 import (
    JobAssignment,
    JobFilter,
    JobResult,
    JobServiceStub,
    JobStatus,
    ListJobsRequest,
    StreamJobsRequest,
    StreamJobsResponse,
    WorkerServiceStub,
)

logger = logging.getLogger("pulse.worker")

# What another try would not mend.
_HOPELESS = (AuthError, InvalidArgument, ConfigurationError)
_CANCEL_AGAIN = 0.5
_STRAYS_A_PAGE = 1000


class Receiver(Protocol):
    """Who gets what arrives. Its methods run on its own loop."""

    def accept(self, assignments: Sequence[JobAssignment]) -> None:
        """Jobs that are ours now."""

    def stop(self, attempts: Sequence[tuple[str, int]], why: Stop) -> None:
        """Attempts to stop."""


class Transport:
    """Started by the handlers' thread, which then only queues results and asks for the end."""

    def __init__(
        self,
        connection: ConnectionSettings,
        settings: WorkerSettings,
        topics: Sequence[str],
        watch: Callable[[], Any],
        prefetch: Prefetch,
    ) -> None:
        self.worker_id = new_id()
        self._settings = connection
        self._worker = settings
        self._topics = list(topics)
        self._watch = watch
        self._prefetch = prefetch
        self._receiver: Receiver
        self._home = asyncio.get_running_loop()
        self._running: Future[None] = Future()
        self._ready: Future[None] = Future()
        self.ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._run_thread, name="pulse transport", daemon=True)

    # For the handlers' thread.

    async def start(self, receiver: Receiver) -> None:
        """Start the thread, which then connects."""
        self._receiver = receiver
        self._thread.start()
        await asyncio.wrap_future(self._running)

    async def connected(self) -> None:
        """Until the first connection; raises if there can't be one."""
        await asyncio.wrap_future(self._ready)

    def report(self, result: JobResult) -> None:
        """Queue a result."""
        self._reporter.add(result)

    async def close_stream(self) -> None:
        """Take no more jobs. When this returns, everything that was given to us has been handed to the receiver."""
        await self._on_transport(self._close_stream())

    async def finish(self, timeout: float) -> None:
        """Send what is left, within a bound, and end."""
        if not self.ended.done():
            await self._on_transport(self._finish(timeout))
        await asyncio.wrap_future(self.ended)
        self._thread.join(timeout=1)

    async def _on_transport(self, work: Any) -> None:
        try:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
        except RuntimeError:
            work.close()  # the loop is closed: `ended` says why
            raise

    # The thread.

    def _run_thread(self) -> None:
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(self._run())
        except BaseException as error:
            failure = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error
            for future in (self.ended, self._running, self._ready):
                if not future.done():
                    future.set_exception(failure)
        else:
            self.ended.set_result(None)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = Connection(self._settings)
        self._held = HeldJobs()
        self._reporter = Reporter(self._connection, self.worker_id, self._held)
        self._heartbeats = Heartbeats(self._connection, self.worker_id, self._held, self._stop_attempts)
        self._finished = asyncio.Event()
        self._running.set_result(None)
        try:
            async with asyncio.TaskGroup() as tasks:
                self._stream = tasks.create_task(self._keep_streaming())
                others = [
                    tasks.create_task(work) for work in (self._reporter.run(), self._heartbeats.run(), self._watch())
                ]
                await self._finished.wait()
                await cancel(self._stream, *others)
        finally:
            await self._connection.close()

    async def _close_stream(self) -> None:
        if self._stream.done():
            return
        await cancel(self._stream)
        if self._ready.done():
            await self._hand_back_strays()

    async def _finish(self, timeout: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._reporter.wait_sent()
        if self._reporter.pending:
            logger.warning(
                "the server is away: jobs whose results were not sent run again when their leases end",
                extra={"results": self._reporter.pending},
            )
        self._finished.set()

    # The stream.

    async def _keep_streaming(self) -> None:
        """Open the stream, and open it again whenever it ends."""
        failures = 0
        give_up_at = self._loop.time() + self._worker.connect_timeout
        while True:
            try:
                connected = retuned = False
                async with aclosing(self._open_stream()) as messages:
                    async for message in messages:
                        if not connected:
                            connected, failures = True, 0
                            self._note_connected()
                        self._take(message)
                        if retuned := self._prefetch.retune(self._loop.time()):
                            break
                error: PulseError | None = None
            except BROKEN_CALLS as broken:
                error = translate_error(broken, self._settings.address)
                if not self._ready.done() and (isinstance(error, _HOPELESS) or self._loop.time() > give_up_at):
                    raise error from broken
            if retuned:
                logger.debug("prefetching another number of jobs", extra={"prefetch": self._prefetch.value})
            else:
                log = logger.warning if failures == 0 else logger.debug
                log("the stream of jobs ended, connecting again: %s", error or "the server closed it")
                await asyncio.sleep(full_jitter(failures))
                failures += 1
            if self._ready.done():
                await self._hand_back_strays()

    async def _open_stream(self) -> AsyncGenerator[StreamJobsResponse, None]:
        request = StreamJobsRequest(
            worker_id=self.worker_id,
            topics=self._topics,
            capacity=self._worker.concurrency + self._prefetch.value,
            host=f"{socket.gethostname()[:200]}:{os.getpid()}",
            version=f"pulse-sdk/{__version__} python/{platform.python_version()}",
        )
        stream: Any = self._connection.stub(WorkerServiceStub).stream_jobs(request)
        async with aclosing(stream) as messages:
            async for message in messages:
                yield message

    def _note_connected(self) -> None:
        logger.info("connected", extra={"worker_id": self.worker_id, "address": self._settings.address})
        if not self._ready.done():
            self._ready.set_result(None)

    def _take(self, message: StreamJobsResponse) -> None:
        assignments = message.assignments
        if assignments:
            # Held, and so beaten for, before anybody else sees them.
            if lost := self._held.add(assignments, self._loop.time()):
                self._stop_attempts(lost, Stop.LEASE_LOST)
            self._heartbeats.held_more(min({each.lease for each in assignments if each.lease}).total_seconds())
            self._home.call_soon_threadsafe(self._receiver.accept, assignments)
        if message.cancellations:
            self._stop_attempts([(each.job_id, each.attempt) for each in message.cancellations], Stop.CANCELED)

    def _stop_attempts(self, attempts: Any, why: Stop) -> None:
        self._home.call_soon_threadsafe(self._receiver.stop, attempts, why)

    async def _hand_back_strays(self) -> None:
        """Give back what the server counts as ours and never reached us, instead of letting its lease run out."""
        strays = 0
        token = ""
        try:
            while True:
                request = ListJobsRequest(
                    filter=JobFilter(statuses=[JobStatus.RUNNING], worker_id=self.worker_id),
                    page_size=_STRAYS_A_PAGE,
                    page_token=token,
                )
                answer = await self._connection.call(JobServiceStub, JobServiceStub.list_jobs, request, timeout=2.0)
                for job in answer.jobs:
                    if not self._held.holds(job.job_id, job.attempts):
                        self._reporter.add(handed_back(JobAssignment(job_id=job.job_id, attempt=job.attempts)))
                        strays += 1
                token = answer.next_page_token
                if not token:
                    break
        except PulseError as error:
            logger.debug("jobs that were lost on the way come back by lease: %s", error)
        if strays:
            logger.info("jobs that were lost on the way were handed back", extra={"jobs": strays})


async def cancel(*tasks: "asyncio.Task[None]") -> None:
    """End tasks for sure: a cancellation that meets the end of a stream is lost in grpclib, so it is repeated."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_CANCEL_AGAIN)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed: it is an extra, and this loop is ours alone."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
