"""WorkerService."""

import uuid
from collections.abc import AsyncIterator, Iterator, Sequence

from pulse_gen.rpc.pulse.v1 import (
    AttemptRef,
    HeartbeatRequest,
    HeartbeatResponse,
    JobResult,
    ReportResultRequest,
    ReportResultResponse,
    ReportResultsRequest,
    ReportResultsResponse,
    StreamJobsRequest,
    StreamJobsResponse,
    WorkerServiceBase,
)
from pulsed.dispatcher import Dispatcher
from pulsed.errors import FailedPrecondition, InvalidArgument
from pulsed.identifiers import parse_id
from pulsed.presence import Presence
from pulsed.reports import Attempt, Completion, Failure, Report, Reports, Snooze
from pulsed.validation import (
    LONGEST,
    check_batch,
    check_duration,
    check_moment,
    check_text,
    check_topic,
    safe_text,
)
from pulsed.worker_stream import WorkerStream

LONGEST_ERROR = 8 << 10
MOST_HELD = 100_000


class WorkerService(WorkerServiceBase):
    """The workers' side of the queue."""

    def __init__(self, dispatcher: Dispatcher, reports: Reports, presence: Presence) -> None:
        self._dispatcher = dispatcher
        self._reports = reports
        self._presence = presence

    async def stream_jobs(self, message: StreamJobsRequest) -> AsyncIterator[StreamJobsResponse]:
        check_batch("topics", message.topics, most=1000)
        if not 1 <= message.capacity <= MOST_HELD:
            raise InvalidArgument("capacity", f"is {message.capacity}, it must be from 1 to {MOST_HELD}")
        worker = WorkerStream(
            parse_id("worker_id", message.worker_id),
            frozenset(check_topic("topics", topic) for topic in message.topics),
            message.capacity,
            check_text("host", message.host, longest=255),
            check_text("version", message.version, longest=255),
        )
        try:
            async with self._dispatcher.connect(worker):
                self._presence.changed.set()
                async for batch in worker.messages():
                    yield batch
        finally:
            self._presence.changed.set()

    async def report_result(self, message: ReportResultRequest) -> ReportResultResponse:
        worker_id = parse_id("worker_id", message.worker_id)
        if message.result is None:
            raise InvalidArgument("result", "is missing")
        try:
            report = read_result(worker_id, message.result)
        except InvalidArgument as error:
            raise error.inside("result") from None
        (taken,) = await self._reports.report([report])
        if not taken:
            raise FailedPrecondition(
                f"attempt {message.result.attempt} of job {message.result.job_id} is not, or no longer, this worker's"
            )
        return ReportResultResponse()

    async def report_results(self, message: ReportResultsRequest) -> ReportResultsResponse:
        worker_id = parse_id("worker_id", message.worker_id)
        check_batch("results", message.results, most=10_000)
        reports = list(read_results(worker_id, message.results))
        taken = await self._reports.report(reports)
        if all(taken):
            return ReportResultsResponse()
        return ReportResultsResponse(
            stale=[
                AttemptRef(job_id=result.job_id, attempt=result.attempt)
                for result, was_taken in zip(message.results, taken, strict=True)
                if not was_taken
            ]
        )

    async def heartbeat(self, message: HeartbeatRequest) -> HeartbeatResponse:
        worker_id = parse_id("worker_id", message.worker_id)
        if len(message.held) > MOST_HELD:
            raise InvalidArgument("held", f"has {len(message.held)} entries, more than {MOST_HELD}")
        if not message.held:
            return HeartbeatResponse()
        held = [(parse_id("held.job_id", ref.job_id), ref.attempt) for ref in message.held]
        still = await self._reports.heartbeat(worker_id, held)
        answer = HeartbeatResponse()
        for ref, key in zip(message.held, held, strict=True):
            row = still.get(key)
            if row is None:
                answer.lost.append(ref)
            elif row.cancel_requested:
                answer.cancellations.append(ref)
        return answer


def read_results(worker_id: uuid.UUID, results: Sequence[JobResult]) -> Iterator[Report]:
    """The reports in a request."""
    for index, result in enumerate(results):
        try:
            yield read_result(worker_id, result)
        except InvalidArgument as error:
            raise error.inside(f"results[{index}]") from None


def read_result(worker_id: uuid.UUID, result: JobResult) -> Report:
    """The report in a request. An error text is made to fit, never refused."""
    job_id = parse_id("job_id", result.job_id)
    if result.attempt < 1:
        raise InvalidArgument("attempt", f"is {result.attempt}, it must be at least 1")
    attempt = Attempt(job_id, worker_id, result.attempt)
    if result.success is not None:
        return Completion(attempt)
    if result.failure is not None:
        return Failure(
            attempt,
            safe_text(result.failure.error, LONGEST_ERROR),
            result.failure.discard,
            check_duration("failure.retry_after", result.failure.retry_after, longest=LONGEST),
        )
    if result.snooze is not None:
        delay = check_duration("snooze.delay", result.snooze.delay, longest=LONGEST)
        return Snooze(attempt, check_moment("snooze.until", result.snooze.until), delay)
    raise InvalidArgument("outcome", "is missing: set success, failure or snooze")
