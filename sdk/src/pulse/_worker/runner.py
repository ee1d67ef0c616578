"""Runs handlers, on the loop of whoever called `run`, at most `concurrency` at a time.

A job does not get a task of its own: a slot takes one job after the other. So a handler that never waits costs no trip
through the event loop, and one that does leaves the loop to the next slot.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from enum import Enum, auto
from typing import Any

from pydantic import ValidationError

from pulse._job import Job, log_fields, set_current_job
from pulse._middleware import Middleware, chain
from pulse._task import Task
from pulse._worker import results
from pulse._worker.calls import TimedOut, call_handler, call_plain, ended, timeout_text
from pulse._worker.threads import ProcessPool, ThreadPool
from pulse_gen.rpc.pulse.v1 import JobAssignment, JobResult

logger = logging.getLogger("pulse.worker")

# How long slots may keep the loop to themselves while handlers never wait, in seconds.
LONGEST_TURN = 0.005
# How long a plain function gets to notice that its time is up, in seconds.
THREAD_GRACE = 10.0


class Stop(Enum):
    """Why a handler is stopped."""

    CANCELED = auto()
    LEASE_LOST = auto()
    SHUTDOWN = auto()


class Attempt:
    """A handler at work."""

    __slots__ = ("assignment", "in_pool", "job", "slot", "stop")

    def __init__(self, assignment: JobAssignment, slot: "asyncio.Task[None]", in_pool: bool) -> None:
        self.assignment = assignment
        self.job = Job(assignment)
        self.slot = slot
        self.in_pool = in_pool
        self.stop: Stop | None = None


class Runner:
    """The handlers' side of a worker. All of it runs on the handlers' loop."""

    def __init__(
        self,
        tasks: Mapping[str, Task[Any]],
        *,
        concurrency: int,
        processes: int | None,
        middleware: Sequence[Middleware],
        report: Callable[[JobResult], None],
    ) -> None:
        self._tasks = tasks
        self._concurrency = concurrency
        self._middleware = middleware
        self._report = report
        self._queue: deque[JobAssignment] = deque()
        # Jobs that came back to us while the handler of an earlier attempt was still ending: never two at once.
        self._deferred: dict[str, JobAssignment] = {}
        self._slots: set[asyncio.Task[None]] = set()
        # Whether a slot was opened and has not begun: one is enough, it opens the next.
        self._opening = False
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._threads = ThreadPool(concurrency)
        self._processes = ProcessPool(processes)
        self._idle = asyncio.Event()
        self._idle.set()
        # Read by the transport's thread too: for the watch over a blocked loop, and for how much to prefetch.
        self.active: dict[str, Attempt] = {}
        self.started = 0

    # What the transport tells.

    def accept(self, assignments: Iterable[JobAssignment]) -> None:
        """Jobs that are ours now."""
        self._queue.extend(assignments)
        if self._queue:
            self._idle.clear()
            self._open_slot()

    def stop(self, attempts: Iterable[tuple[str, int]], why: Stop) -> None:
        """Stop these attempts, if they are here."""
        for job_id, number in attempts:
            attempt = self.active.get(job_id)
            if attempt is not None and attempt.assignment.attempt == number:
                self._stop_attempt(attempt, why)
            else:
                self._drop_queued(job_id, number, why)

    # What the worker tells.

    def hand_back_queue(self) -> None:
        """Give back what was not started."""
        while self._queue:
            self._report(results.handed_back(self._queue.popleft()))
        while self._deferred:
            self._report(results.handed_back(self._deferred.popitem()[1]))
        self._note_idle()

    def stop_all(self) -> None:
        """Stop every handler; async ones are handed back, plain functions can only be asked."""
        for attempt in list(self.active.values()):
            self._stop_attempt(attempt, Stop.SHUTDOWN)

    async def wait_idle(self) -> None:
        """Until nothing is queued and nothing runs."""
        await self._idle.wait()

    async def wait_unwound(self) -> None:
        """Until no async handler runs."""
        while slots := {attempt.slot for attempt in self.active.values() if not attempt.in_pool}:
            await asyncio.wait(slots)

    def close(self) -> None:
        """No more jobs will come."""
        self._threads.close()
        self._processes.close()

    # Slots.

    def _open_slot(self) -> None:
        if self._opening or len(self._slots) >= self._concurrency:
            return
        self._opening = True
        # A context of its own: what one handler sets in it must not be seen by the next.
        slot = self._loop.create_task(self._serve_slot(), context=self._context.copy())
        self._slots.add(slot)
        slot.add_done_callback(self._close_slot)

    def _close_slot(self, slot: "asyncio.Task[None]") -> None:
        self._slots.discard(slot)
        if self._queue:
            self._open_slot()
        self._note_idle()
        if not slot.cancelled() and (error := slot.exception()) is not None:
            logger.error("a slot of the worker failed", exc_info=error)

    def _note_idle(self) -> None:
        if not self._queue and not self.active and not self._slots:
            self._idle.set()

    async def _serve_slot(self) -> None:
        self._opening = False
        queue, time = self._queue, self._loop.time
        slot = asyncio.current_task()
        assert slot is not None
        turn_began = time()
        while queue:
            assignment = queue.popleft()
            if assignment.job_id in self.active:
                self._deferred[assignment.job_id] = assignment
                continue
            # If this handler waits, the next slot runs meanwhile; if not, it finds an empty queue and closes.
            if queue and not self._opening:
                self._open_slot()
            task = self._tasks[assignment.topic]
            attempt = Attempt(assignment, slot, not task.is_async)
            set_current_job(attempt.job)
            before = copy_context()
            self.active[assignment.job_id] = attempt
            self.started += 1
            try:
                result = await self._run(task, attempt)
            finally:
                self._forget(assignment.job_id)
            if result is not None:
                self._report(result)
            if attempt.stop is not None or copy_context() != before:
                return  # cancelled, or something was left in its context: a fresh slot takes over
            if time() - turn_began > LONGEST_TURN:
                await asyncio.sleep(0)
                turn_began = time()

    def _forget(self, job_id: str) -> None:
        self.active.pop(job_id, None)
        if self._deferred and (later := self._deferred.pop(job_id, None)):
            self.accept([later])

    # One attempt.

    async def _run(self, task: Task[Any], attempt: Attempt) -> JobResult | None:
        """How it ended; None if there is nothing to report."""
        assignment = attempt.assignment
        signature = task.signature
        try:
            args = signature.payload.decode(assignment.payload) if signature.takes_args else None
        except ValidationError as error:
            # It will not fit the next time either.
            logger.warning("payload does not fit the task", extra=log_fields(attempt.job))
            return results.failed(assignment, signature.payload.explain(error), discard=True)
        try:
            if attempt.in_pool:
                if await self._call_in_pool(task, attempt, args):
                    return None
            elif assignment.timeout is None and not self._middleware:
                await call_handler(task, args, attempt.job)
            else:
                await self._call_bounded(task, attempt, args)
        except asyncio.CancelledError:
            return self._read_cancellation(attempt)
        except TimedOut:
            attempt.job._cancel()
            return results.failed(assignment, timeout_text(assignment))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit too: a handler does not end the worker
            return self._read_error(attempt, error)
        return None if attempt.stop is Stop.LEASE_LOST else results.succeeded(assignment)

    async def _call_bounded(self, task: Task[Any], attempt: Attempt, args: Any) -> None:
        async def handler() -> None:
            await call_handler(task, args, attempt.job)

        timeout = attempt.assignment.timeout
        limit = asyncio.timeout(None if timeout is None else timeout.total_seconds())
        try:
            async with limit:
                await chain(self._middleware, attempt.job, handler)()
        except TimeoutError:
            if limit.expired():
                raise TimedOut from None
            raise

    async def _call_in_pool(self, task: Task[Any], attempt: Attempt, args: Any) -> bool:
        """Whether it was given up: reported while the function, which can't be stopped, goes on."""
        running = asyncio.ensure_future(self._start_in_pool(task, attempt, args))
        timeout = attempt.assignment.timeout
        if await ended(running, None if timeout is None else timeout.total_seconds()):
            running.result()
            return False
        attempt.job._cancel()
        if await ended(running, THREAD_GRACE):
            if running.exception() is None:
                return False  # late, but done
            raise TimedOut from None
        logger.warning(
            "%s still runs %g s after its timeout and can't be stopped: look at job.cancelled in it",
            task.name,
            THREAD_GRACE,
            extra=log_fields(attempt.job),
        )
        if attempt.stop is not Stop.LEASE_LOST:
            self._report(results.failed(attempt.assignment, timeout_text(attempt.assignment)))
        # Its slot stays taken, and so does its place in `active`: the next attempt does not start beside it.
        await asyncio.wait([running])
        running.exception()
        return True

    async def _start_in_pool(self, task: Task[Any], attempt: Attempt, args: Any) -> None:
        async def handler() -> None:
            if task.in_process:
                await self._processes.run(task.handler, (args,) if task.signature.takes_args else ())
            else:
                await self._threads.run(lambda: call_plain(task, args, attempt.job))

        await (chain(self._middleware, attempt.job, handler)() if self._middleware else handler())

    def _read_cancellation(self, attempt: Attempt) -> JobResult | None:
        if attempt.stop is None and attempt.slot.cancelling():
            raise asyncio.CancelledError  # not by us: the loop is going down
        match attempt.stop:
            case Stop.CANCELED:
                return results.failed(attempt.assignment, "canceled while it was running")
            case Stop.SHUTDOWN:
                return results.handed_back(attempt.assignment)
            case Stop.LEASE_LOST:
                return None
            case None:
                return results.failed(attempt.assignment, "the handler raised CancelledError by itself")

    def _read_error(self, attempt: Attempt, error: BaseException) -> JobResult | None:
        if attempt.stop is Stop.LEASE_LOST:
            return None
        if not results.is_outcome(error):
            logger.warning("job failed: %s", type(error).__name__, extra=log_fields(attempt.job), exc_info=error)
        return results.raised(attempt.assignment, error)

    def _stop_attempt(self, attempt: Attempt, why: Stop) -> None:
        if attempt.stop is not None:
            return
        attempt.stop = why
        attempt.job._cancel()
        if not attempt.in_pool:
            attempt.slot.cancel()
        if why is Stop.LEASE_LOST:
            logger.warning("lease lost: the handler is stopped", extra=log_fields(attempt.job))

    def _drop_queued(self, job_id: str, number: int, why: Stop) -> None:
        deferred = self._deferred.get(job_id)
        candidates = self._queue if deferred is None else (deferred,)
        for assignment in candidates:
            if assignment.job_id == job_id and assignment.attempt == number:
                break
        else:
            return
        if deferred is None:
            self._queue.remove(assignment)
        else:
            del self._deferred[job_id]
        if why is Stop.CANCELED:
            self._report(results.failed(assignment, "canceled before it was started"))
        self._note_idle()
