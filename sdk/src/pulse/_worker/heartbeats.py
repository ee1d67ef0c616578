"""Keeps the leases of everything that is held, in one call, at least three times a lease."""

import asyncio
import logging
from collections.abc import Callable, Iterable

from pulse._connection import Connection, full_jitter
from pulse._errors import PulseError
from pulse._worker.held import HeldJobs
from pulse._worker.runner import Stop
from pulse_gen.rpc.pulse.v1 import AttemptRef, HeartbeatRequest, WorkerServiceStub

logger = logging.getLogger("pulse.worker")

StopAttempts = Callable[[Iterable[tuple[str, int]], Stop], None]


class Heartbeats:
    """Runs on the transport's loop."""

    def __init__(self, connection: Connection, worker_id: str, held: HeldJobs, stop: StopAttempts) -> None:
        self._connection = connection
        self._worker_id = worker_id
        self._held = held
        self._stop = stop
        self._due = float("inf")
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def held_more(self, lease: float) -> None:
        """Something with this lease, in seconds, was added to what is held."""
        due = self._loop.time() + lease / 3
        if due < self._due:
            self._due = due
            self._changed.set()

    async def run(self) -> None:
        """Beat for ever; while nothing is held, wait."""
        failures = 0
        while True:
            await self._sleep_until_due()
            lease = self._held.shortest_lease()
            if lease is None:
                self._due = float("inf")
                continue
            self._due = self._loop.time() + lease / 3
            try:
                await self.beat(lease / 3)
                failures = 0
            except PulseError as error:
                log = logger.warning if failures == 0 else logger.debug
                log("heartbeat failed: %s", error, extra={"held": len(self._held)})
                # Sooner than usual, but not all workers at once.
                self._due = min(self._due, self._loop.time() + full_jitter(failures, longest=lease / 3))
                failures += 1
            # Without a beat in time another worker may have it: two must not run it.
            if expired := self._held.take_expired(self._loop.time()):
                self._stop(expired, Stop.LEASE_LOST)
                # Jobs that the server gave us meanwhile are others' by the time they get here: hang up on them.
                await self._connection.close()

    async def beat(self, timeout: float) -> None:
        """One call for all; stops what is lost or canceled."""
        sent_at = self._loop.time()
        request = HeartbeatRequest(worker_id=self._worker_id, held=self._held.references())
        answer = await self._connection.call(WorkerServiceStub, WorkerServiceStub.heartbeat, request, timeout=timeout)
        self._held.renewed(sent_at)
        if answer.lost:
            # Those whose report is on its way are among them; the handlers' side knows none of these.
            self._held.remove(answer.lost)
            self._stop(_keys(answer.lost), Stop.LEASE_LOST)
        if answer.cancellations:
            self._stop(_keys(answer.cancellations), Stop.CANCELED)

    async def _sleep_until_due(self) -> None:
        while True:
            self._changed.clear()
            wait = self._due - self._loop.time()
            if wait <= 0:
                return
            try:
                async with asyncio.timeout(None if wait == float("inf") else wait):
                    await self._changed.wait()
            except TimeoutError:
                return


def _keys(references: Iterable[AttemptRef]) -> list[tuple[str, int]]:
    return [(each.job_id, each.attempt) for each in references]
