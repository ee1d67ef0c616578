"""Submits over a call that stays open: a message there costs a fraction of a call of its own."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from grpclib.client import Stream
from grpclib.const import Status
from grpclib.exceptions import GRPCError, StreamTerminatedError

from pulse._errors import BROKEN_CALLS, Unavailable
from pulse_gen.rpc.pulse.v1 import (
    JobSubmission,
    StreamSubmitsRequest,
    StreamSubmitsResponse,
    SubmitJobResponse,
    SubmitOutcome,
)

SUBMITS_A_MESSAGE = 1000
BYTES_A_MESSAGE = 1 << 20
# While the server stores one batch, the next is on its way.
BATCHES_UNDER_WAY = 2
CLOSED = "the client was closed"

Call = Stream[StreamSubmitsRequest, StreamSubmitsResponse]
Batch = Sequence[JobSubmission]
Waiting = tuple[JobSubmission, "asyncio.Future[SubmitJobResponse]"]


class SubmitStream:
    """The lone submits of one event loop. Those that arrive while a message is under way share the next one.

    Submits that come one after the other send themselves. Where there are many at once a task sends for them, which
    starts a moment later, when all have arrived.
    """

    def __init__(self, open_call: Callable[[], Call], timeout: float) -> None:
        self._open_call = open_call
        self._timeout = timeout
        self._call: Call | None = None
        self._closed = False
        self._waiting: deque[Waiting] = deque()
        self._under_way: list[Waiting] = []
        # Nobody else submitted while the latest message was under way.
        self._one_by_one = True
        # Whoever is sending: a submit, within its time, or the task. The task is only there while something waits, so
        # that an idle client leaves none behind when its loop ends.
        self._sending_itself: asyncio.Timeout | None = None
        self._sending: asyncio.Task[None] | None = None

    async def submit(self, job: JobSubmission, timeout: float) -> SubmitJobResponse:
        """Store a job. It carries an id, so whatever goes wrong with the call, it may be sent again."""
        async with asyncio.timeout(timeout) as time_left:
            if self._one_by_one and self._sending is None and self._sending_itself is None:
                return await self._send_itself(job, time_left)
            answer: asyncio.Future[SubmitJobResponse] = asyncio.get_running_loop().create_future()
            self._waiting.append((job, answer))
            self._one_by_one = False
            self._start_sending()
            return await answer

    async def close(self) -> None:
        """End the call; what is under way fails."""
        self._closed = True
        if self._sending_itself is not None:
            self._sending_itself.reschedule(0)
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait([self._sending])
            self._sending = None
        fail(self._under_way + list(self._waiting), Unavailable(CLOSED))
        self._waiting.clear()
        await self._drop_call(asyncio.CancelledError())

    async def _send_itself(self, job: JobSubmission, time_left: asyncio.Timeout) -> SubmitJobResponse:
        self._sending_itself = time_left
        try:
            (outcome,) = await self._exchange_again([job])
        except asyncio.CancelledError:
            if self._closed:
                raise Unavailable(CLOSED) from None
            raise
        finally:
            self._sending_itself = None
            self._start_sending()
        if isinstance(outcome, GRPCError):
            raise outcome
        return outcome

    def _start_sending(self) -> None:
        if self._waiting and self._sending is None and self._sending_itself is None:
            self._sending = asyncio.create_task(self._send_waiting())

    async def _send_waiting(self) -> None:
        while group := self._next_group():
            self._one_by_one = len(group) == 1
            self._under_way = group
            try:
                async with asyncio.timeout(self._timeout):
                    await self._send(group)
            except BROKEN_CALLS as error:
                fail(group, error)
        self._sending = None

    def _next_group(self) -> list[Waiting]:
        group: list[Waiting] = []
        size = 0
        while self._waiting and len(group) < SUBMITS_A_MESSAGE:
            job, answer = self._waiting[0]
            size += len(job.payload)
            if group and size > BYTES_A_MESSAGE:
                break
            self._waiting.popleft()
            if not answer.done():  # its caller went away
                group.append((job, answer))
        return group

    async def _send(self, group: list[Waiting]) -> None:
        """Send a group and hand out what became of each."""
        outcomes = await self._exchange_again([job for job, _ in group])
        for (_, answer), outcome in zip(group, outcomes, strict=True):
            if answer.done():
                continue
            if isinstance(outcome, GRPCError):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)

    async def _exchange_again(self, jobs: Batch) -> list[SubmitJobResponse | GRPCError]:
        """Send a message and read its answer. A call that lay idle may have ended long ago: then over a new one."""
        was_open = self._call is not None
        try:
            return await self._exchange(jobs)
        except (StreamTerminatedError, OSError):
            if not was_open:
                raise
            return await self._exchange(jobs)

    async def _exchange(self, jobs: Batch) -> list[SubmitJobResponse | GRPCError]:
        if self._call is None:
            self._call = await self._open_call().__aenter__()
        try:
            await self._call.send_message(StreamSubmitsRequest(jobs=list(jobs)))
            return read_response(jobs, await self._call.recv_message())
        except BaseException as error:
            await self._drop_call(error)
            raise

    async def _drop_call(self, error: BaseException) -> None:
        """Forget the call; raises the status that the server ended it with, if it did."""
        call, self._call = self._call, None
        if call is not None:
            await call.__aexit__(type(error), error, error.__traceback__)


def fail(group: list[Waiting], error: Exception) -> None:
    """Give every submit of a group the same error."""
    for _, answer in group:
        if not answer.done():
            answer.set_exception(error)


async def send_batches(
    call: Call, batches: Iterator[Batch], unanswered: deque[Batch], timeout: float
) -> AsyncIterator[list[SubmitJobResponse]]:
    """Store batches in their order, each whole or not at all; the results of one after the other.

    What is sent stands in `unanswered` until it is answered; what stands there at first is sent first.
    """
    for batch in unanswered:
        await call.send_message(StreamSubmitsRequest(jobs=list(batch), together=True))
    while True:
        if len(unanswered) < BATCHES_UNDER_WAY and (batch := next(batches, ())):
            unanswered.append(batch)
            await call.send_message(StreamSubmitsRequest(jobs=list(batch), together=True))
        elif unanswered:
            async with asyncio.timeout(timeout):
                results = read_response(unanswered[0], await call.recv_message())
            unanswered.popleft()
            yield [result for result in results if isinstance(result, SubmitJobResponse)]
        else:
            await call.end()
            return


def read_response(jobs: Batch, response: StreamSubmitsResponse | None) -> list[SubmitJobResponse | GRPCError]:
    """What became of each job."""
    if response is None:
        raise StreamTerminatedError("the server ended the call")
    if not response.outcomes:
        return [SubmitJobResponse(job_id=job.job_id) for job in jobs]
    return [read_outcome(outcome) for outcome in response.outcomes]


def read_outcome(outcome: SubmitOutcome) -> SubmitJobResponse | GRPCError:
    """What became of one job."""
    if outcome.submitted is not None:
        return outcome.submitted
    if outcome.refused is not None:
        return GRPCError(Status(outcome.refused.code), outcome.refused.message)
    return GRPCError(Status.UNKNOWN, "the server said nothing about this job")
