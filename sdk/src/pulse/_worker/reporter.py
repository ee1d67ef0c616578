"""Sends results: one call in flight, what ends meanwhile goes with the next, and a lone result waits for nothing."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence

from pulse._connection import Connection, full_jitter
from pulse._errors import InvalidArgument, PulseError
from pulse._worker.held import HeldJobs
from pulse_gen.rpc.pulse.v1 import JobResult, ReportResultsRequest, WorkerServiceStub

logger = logging.getLogger("pulse.worker")

MOST_A_CALL = 10_000
# Tracebacks add up: 10,000 of them would be more than a server reads in one message.
BYTES_A_CALL = 4 << 20


class Reporter:
    """`add` is for the handlers' thread; everything else happens on the transport's loop."""

    def __init__(self, connection: Connection, worker_id: str, held: HeldJobs) -> None:
        self._connection = connection
        self._worker_id = worker_id
        self._held = held
        self._loop = asyncio.get_running_loop()
        self._outbox: deque[JobResult] = deque()
        self._wake_sent = False
        self._woken = asyncio.Event()
        self._in_flight = 0
        self._sent = asyncio.Event()

    def add(self, result: JobResult) -> None:
        """Queue a result. The loop is woken once for all that come before it gets there."""
        self._outbox.append(result)
        if not self._wake_sent:
            self._wake_sent = True
            self._loop.call_soon_threadsafe(self._woken.set)

    @property
    def pending(self) -> int:
        """How many results the server does not have yet."""
        return len(self._outbox) + self._in_flight

    async def run(self) -> None:
        """Send for ever. What could not be sent is kept and sent when the server is back."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            # Before the outbox is read: a result that comes later wakes us again.
            self._wake_sent = False
            while batch := self._take():
                self._in_flight = len(batch)
                await self._send(batch)
                self._in_flight = 0
                self._sent.set()

    async def wait_sent(self) -> None:
        """Until the server has everything that was added so far."""
        while self.pending:
            self._sent.clear()
            await self._sent.wait()

    def _take(self) -> list[JobResult]:
        batch: list[JobResult] = []
        size = 0
        while self._outbox and len(batch) < MOST_A_CALL and size < BYTES_A_CALL:
            result = self._outbox.popleft()
            if result.failure is not None:
                size += len(result.failure.error)
            batch.append(result)
        return batch

    async def _send(self, batch: Sequence[JobResult]) -> None:
        failures = 0
        while True:
            try:
                request = ReportResultsRequest(worker_id=self._worker_id, results=list(batch))
                answer = await self._connection.call(WorkerServiceStub, WorkerServiceStub.report_results, request)
            except InvalidArgument as error:
                await self._send_one_by_one(batch, error)
                return
            except PulseError as error:
                log = logger.warning if failures == 0 else logger.debug
                log("results can't be sent now, they are kept: %s", error, extra={"results": len(batch)})
                await asyncio.sleep(full_jitter(failures))
                failures += 1
            else:
                break
        self._held.remove(batch)
        if answer.stale:
            # Normal after a lost answer, where the first report was taken, and after a lost lease.
            logger.info("results of attempts that were no longer ours", extra={"results": len(answer.stale)})

    async def _send_one_by_one(self, batch: Sequence[JobResult], error: InvalidArgument) -> None:
        """One result that the server refuses must not keep the others."""
        if len(batch) == 1:
            logger.error("the server refuses a result: %s", error, extra={"job_id": batch[0].job_id})
            self._held.remove(batch)
            return
        for result in batch:
            await self._send([result])
