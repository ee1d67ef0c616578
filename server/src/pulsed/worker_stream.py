"""One worker's open stream: what it serves, what it holds, and what waits to be sent to it."""

import asyncio
import uuid
from collections.abc import AsyncIterator

from pulse_gen.db.dispatch import JobClaimRow
from pulse_gen.rpc.pulse.v1 import AttemptRef, StreamJobsResponse
from pulsed.assignments import write_assignment
from pulsed.errors import Aborted, Unavailable

# Stock gRPC clients refuse messages above 4 MiB; a single larger job still travels, alone.
BYTES_A_MESSAGE = 2 << 20
BYTES_A_JOB = 512

# A job and which attempt of it.
Held = tuple[uuid.UUID, int]


class WorkerStream:
    """A worker as its server knows it.

    `held` maps the jobs that the worker holds, running or queued, to the attempt. It only ever shrinks by what is
    certain (a report that was processed, or the database's word), so a worker is never given more than `capacity`.
    """

    def __init__(self, worker_id: uuid.UUID, topics: frozenset[str], capacity: int, host: str, version: str) -> None:
        self.worker_id = worker_id
        self.topics = topics
        self.capacity = capacity
        self.host = host
        self.version = version
        self.held: dict[uuid.UUID, int] = {}
        # Written as messages only when they are sent: by then the dispatcher has its next claim under way.
        self._claimed: list[JobClaimRow] = []
        self._cancellations: list[AttemptRef] = []
        self._outgoing = asyncio.Event()
        self._ended_by: Exception | None = None

    @property
    def free(self) -> int:
        """How many more jobs it can hold."""
        return self.capacity - len(self.held)

    def assign(self, job: JobClaimRow) -> None:
        """Queues a job that was claimed for it."""
        self.held[job.id] = job.attempts
        self._claimed.append(job)
        self._outgoing.set()

    def release(self, job_id: uuid.UUID, attempt: int) -> None:
        """It has let go of this; a report on an earlier attempt frees nothing that a later one holds."""
        if self.held.get(job_id) == attempt:
            del self.held[job_id]

    def cancel(self, job_id: uuid.UUID, attempt: int) -> None:
        """Queues the wish to stop a job."""
        self._cancellations.append(AttemptRef(job_id=str(job_id), attempt=attempt))
        self._outgoing.set()

    def replace(self) -> None:
        """Ends the stream because the worker opened a newer one."""
        self._end(Aborted("this worker opened another stream"))

    def shut_down(self) -> None:
        """Ends the stream because the server stops."""
        self._end(Unavailable("the server is shutting down; connect again"))

    def _end(self, reason: Exception) -> None:
        self._ended_by = reason
        self._outgoing.set()

    def take_unsent(self) -> list[JobClaimRow]:
        """What was claimed and never reached the wire."""
        unsent = self._claimed
        self._claimed = []
        return unsent

    async def messages(self) -> AsyncIterator[StreamJobsResponse]:
        """What to send, for as long as the stream is open. The first message is empty: it says hello."""
        yield StreamJobsResponse()
        while True:
            await self._outgoing.wait()
            if self._ended_by is not None:
                raise self._ended_by
            message = self._next_message()
            if not self._claimed:
                self._outgoing.clear()
            yield message

    def _next_message(self) -> StreamJobsResponse:
        size = count = 0
        for job in self._claimed:
            size += len(job.payload) + BYTES_A_JOB
            if count and size > BYTES_A_MESSAGE:
                break
            count += 1
        message = StreamJobsResponse(
            assignments=[write_assignment(job) for job in self._claimed[:count]],
            cancellations=self._cancellations,
        )
        del self._claimed[:count]
        self._cancellations = []
        return message
