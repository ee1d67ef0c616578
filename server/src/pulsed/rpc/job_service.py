"""JobService."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from pulse_gen.db.models import JobStatus
from pulse_gen.rpc.pulse.v1 import (
    CancelJobRequest,
    CancelJobResponse,
    CancelJobsRequest,
    CancelJobsResponse,
    CountJobsRequest,
    CountJobsResponse,
    DeleteJobRequest,
    DeleteJobResponse,
    DeleteJobsRequest,
    DeleteJobsResponse,
    ExplainJobRequest,
    ExplainJobResponse,
    GetJobRequest,
    GetJobResponse,
    JobFilter,
    JobServiceBase,
    JobSubmission,
    ListJobsRequest,
    ListJobsResponse,
    RetryJobRequest,
    RetryJobResponse,
    RetryJobsRequest,
    RetryJobsResponse,
    StreamSubmitsRequest,
    StreamSubmitsResponse,
    SubmitJobRequest,
    SubmitJobResponse,
    SubmitJobsRequest,
    SubmitJobsResponse,
    SubmitOutcome,
    SubmitRefusal,
    UpdateJobPriorityRequest,
    UpdateJobPriorityResponse,
    UpdateJobsPriorityRequest,
    UpdateJobsPriorityResponse,
)
from pulse_gen.rpc.pulse.v1 import JobStatus as WireStatus
from pulsed.errors import STATUSES, AlreadyExists, InvalidArgument, RequestError
from pulsed.explain import explain_job
from pulsed.filters import END, Filter, JobFinder, check_json
from pulsed.identifiers import parse_id
from pulsed.jobs import CANCELABLE, DELETABLE, MOVABLE, RETRYABLE, Jobs
from pulsed.paging import read_token, write_token
from pulsed.pause import PauseGate
from pulsed.rpc.convert import STATUS_TO_WIRE, read_status, write_job, write_job_summary
from pulsed.stats import Stats
from pulsed.storing import Submitted
from pulsed.submission import NewJob, read_submission
from pulsed.validation import check_batch, check_count, check_priority, check_tags, check_text, check_topic

MOST_COUNTED = 10_000
MOST_SUBMITTED = 10_000


class Submits(NamedTuple):
    """One request of StreamSubmits; the jobs of a batch are checked already."""

    submissions: Sequence[JobSubmission]
    batch: Sequence[NewJob] | None


class JobService(JobServiceBase):
    """Submits jobs, looks at them and changes their fate."""

    def __init__(self, jobs: Jobs, finder: JobFinder, gate: PauseGate, stats: Stats, max_payload: int) -> None:
        self._jobs = jobs
        self._finder = finder
        self._gate = gate
        self._stats = stats
        self._max_payload = max_payload

    async def submit_job(self, message: SubmitJobRequest) -> SubmitJobResponse:
        job = read_submission("job", message.job, max_payload=self._max_payload)
        (result,) = await self._jobs.submit_each([job])
        if isinstance(result, AlreadyExists):
            raise result
        return write_submitted(result)

    async def submit_jobs(self, message: SubmitJobsRequest) -> SubmitJobsResponse:
        results = await self._jobs.submit_many(self._read_batch(message.jobs))
        return SubmitJobsResponse(results=[write_submitted(result) for result in results])

    async def stream_submits(
        self, messages: AsyncIterator[StreamSubmitsRequest]
    ) -> AsyncIterator[StreamSubmitsResponse]:
        # Batches follow one another: while one is stored, the next is read and checked.
        ahead: asyncio.Task[Submits | None] | None = None
        try:
            while submits := await (ahead or self._read_submits(messages)):
                ahead = asyncio.create_task(self._read_submits(messages)) if submits.batch is not None else None
                yield await self._store(submits)
        finally:
            if ahead is not None:
                await give_up(ahead)

    async def _read_submits(self, messages: AsyncIterator[StreamSubmitsRequest]) -> "Submits | None":
        message = await anext(messages, None)
        if message is None:
            return None
        return Submits(message.jobs, self._read_batch(message.jobs) if message.together else None)

    async def _store(self, submits: "Submits") -> StreamSubmitsResponse:
        results: Sequence[Submitted | RequestError]
        if submits.batch is not None:
            results = await self._jobs.submit_many(submits.batch)
        else:
            results = await self._submit_each(submits.submissions)
        if all(submission.job_id for submission in submits.submissions) and all(is_new(result) for result in results):
            return StreamSubmitsResponse()
        return StreamSubmitsResponse(outcomes=[write_outcome(result) for result in results])

    def _read_batch(self, submissions: Sequence[JobSubmission]) -> list[NewJob]:
        """Jobs that are stored all, or none."""
        check_batch("jobs", submissions, most=MOST_SUBMITTED)
        jobs = [
            read_submission(f"jobs[{index}]", submission, max_payload=self._max_payload)
            for index, submission in enumerate(submissions)
        ]
        if len({job.id for job in jobs}) < len(jobs):
            raise InvalidArgument("jobs", "the same job_id stands twice")
        return jobs

    async def _submit_each(self, submissions: Sequence[JobSubmission]) -> Sequence[Submitted | RequestError]:
        """Every job for itself: what is wrong with one is its own outcome."""
        check_batch("jobs", submissions, most=MOST_SUBMITTED)
        results: dict[int, Submitted | RequestError] = {}
        jobs: dict[int, NewJob] = {}
        for index, submission in enumerate(submissions):
            try:
                jobs[index] = read_submission("job", submission, max_payload=self._max_payload)
            except RequestError as error:
                results[index] = error
        if jobs:
            try:
                results |= zip(jobs, await self._jobs.submit_each(list(jobs.values())), strict=True)
            except RequestError as error:
                results |= dict.fromkeys(jobs, error)
        return [results[index] for index in range(len(submissions))]

    async def get_job(self, message: GetJobRequest) -> GetJobResponse:
        job = await self._jobs.get(parse_id("job_id", message.job_id))
        return GetJobResponse(job=write_job(job))

    async def list_jobs(self, message: ListJobsRequest) -> ListJobsResponse:
        job_filter = read_filter(message.filter)
        limit = check_count("page_size", message.page_size, most=1000, default=100)
        before = read_token(str(job_filter), message.page_token, END)
        assert isinstance(before, int)
        found = await self._finder.search(job_filter, limit=limit, before=before)
        rows = await self._finder.summaries(found.ids)
        return ListJobsResponse(
            jobs=[write_job_summary(row) for row in rows],
            next_page_token="" if found.cursor is None else write_token(str(job_filter), found.cursor),
        )

    async def count_jobs(self, message: CountJobsRequest) -> CountJobsResponse:
        limit = check_count("limit", message.limit, most=MOST_COUNTED, default=MOST_COUNTED)
        found = await self._finder.search(read_filter(message.filter), limit=limit)
        return CountJobsResponse(count=len(found.ids), capped=found.cursor is not None)

    async def explain_job(self, message: ExplainJobRequest) -> ExplainJobResponse:
        job = await self._jobs.get(parse_id("job_id", message.job_id))
        explanation = explain_job(
            job,
            await self._stats.now(),
            await self._gate.switches(),
            await self._stats.workers(job.topic),
        )
        return ExplainJobResponse(
            reason=explanation.reason,
            explanation=explanation.text,
            suggested_command=explanation.command,
            job=write_job_summary(job),
        )

    async def cancel_job(self, message: CancelJobRequest) -> CancelJobResponse:
        job_id = parse_id("job_id", message.job_id)
        canceled = await self._jobs.change_one(job_id, self._jobs.cancel, CANCELABLE, "canceled")
        return CancelJobResponse(status=STATUS_TO_WIRE[canceled[0].status])

    async def retry_job(self, message: RetryJobRequest) -> RetryJobResponse:
        job_id = parse_id("job_id", message.job_id)
        await self._jobs.change_one(job_id, self._jobs.retry, RETRYABLE, "retried")
        return RetryJobResponse()

    async def delete_job(self, message: DeleteJobRequest) -> DeleteJobResponse:
        job_id = parse_id("job_id", message.job_id)
        await self._jobs.change_one(job_id, self._jobs.delete, DELETABLE, "deleted: cancel it first")
        return DeleteJobResponse()

    async def update_job_priority(self, message: UpdateJobPriorityRequest) -> UpdateJobPriorityResponse:
        priority = check_priority("priority", message.priority)

        async def set_priority(ids: Sequence[uuid.UUID]) -> int:
            return await self._jobs.set_priority(ids, priority)

        job_id = parse_id("job_id", message.job_id)
        await self._jobs.change_one(job_id, set_priority, MOVABLE, "re-prioritised")
        return UpdateJobPriorityResponse()

    async def cancel_jobs(self, message: CancelJobsRequest) -> CancelJobsResponse:
        async def cancel(ids: Sequence[uuid.UUID]) -> int:
            return len(await self._jobs.cancel(ids))

        affected, more = await self._bulk(message.filter, message.limit, CANCELABLE, cancel, cancel_requested=False)
        return CancelJobsResponse(affected=affected, more=more)

    async def retry_jobs(self, message: RetryJobsRequest) -> RetryJobsResponse:
        affected, more = await self._bulk(message.filter, message.limit, RETRYABLE, self._jobs.retry)
        return RetryJobsResponse(affected=affected, more=more)

    async def delete_jobs(self, message: DeleteJobsRequest) -> DeleteJobsResponse:
        affected, more = await self._bulk(message.filter, message.limit, DELETABLE, self._jobs.delete)
        return DeleteJobsResponse(affected=affected, more=more)

    async def update_jobs_priority(self, message: UpdateJobsPriorityRequest) -> UpdateJobsPriorityResponse:
        priority = check_priority("priority", message.priority)

        async def set_priority(ids: Sequence[uuid.UUID]) -> int:
            return await self._jobs.set_priority(ids, priority)

        affected, more = await self._bulk(
            message.filter, message.limit, MOVABLE, set_priority, other_priority_than=priority
        )
        return UpdateJobsPriorityResponse(affected=affected, more=more)

    async def _bulk(
        self,
        message: JobFilter | None,
        limit: int,
        allowed: frozenset[JobStatus],
        step: Callable[[Sequence[uuid.UUID]], Awaitable[int]],
        *,
        other_priority_than: int | None = None,
        cancel_requested: bool | None = None,
    ) -> tuple[int, bool]:
        """Applies a guarded step to what matches and may take it; how many did, and whether there may be more."""
        limit = check_count("limit", limit, most=10_000, default=1000)
        job_filter = read_filter(message)
        if job_filter.is_empty:
            raise InvalidArgument("filter", "is empty: name at least one condition")
        statuses = [status for status in job_filter.statuses if status in allowed]
        narrowed = job_filter._replace(
            statuses=statuses, other_priority_than=other_priority_than, cancel_requested=cancel_requested
        )
        found = await self._finder.match(narrowed, limit=limit)
        affected = await step([row.id for row in found]) if found else 0
        return affected, len(found) == limit


async def give_up(task: "asyncio.Task[Any]") -> None:
    """Ends a task that nobody waits for any more, whatever becomes of it."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def read_filter(message: JobFilter | None) -> Filter:
    """The filter in a request."""
    message = message or JobFilter()
    if len(message.job_ids) > 1000:
        raise InvalidArgument("filter.job_ids", "has more than 1000 entries")
    if len(message.topics) > 1000:
        raise InvalidArgument("filter.topics", "has more than 1000 entries")
    any_status = not message.statuses or WireStatus.UNSPECIFIED in message.statuses
    statuses = JobStatus if any_status else [read_status("filter.statuses", status) for status in message.statuses]
    return Filter(
        statuses=sorted(set(statuses)),
        ids=[parse_id("filter.job_ids", job_id) for job_id in message.job_ids] or None,
        topics=[check_topic("filter.topics", topic) for topic in message.topics] or None,
        tags=check_tags("filter.tags", message.tags) or None,
        schedule_id=_optional_id("filter.schedule_id", message.schedule_id),
        worker_id=_optional_id("filter.worker_id", message.worker_id),
        error_contains=check_text("filter.error_contains", message.error_contains, longest=1000) or None,
        submitted_after=message.submitted_after,
        submitted_before=message.submitted_before,
        min_priority=message.min_priority,
        max_priority=message.max_priority,
        payload_contains=check_json("filter.payload_contains", message.payload_contains)
        if message.payload_contains
        else None,
    )


def _optional_id(field: str, text: str) -> uuid.UUID | None:
    return parse_id(field, text) if text else None


def is_new(result: Submitted | RequestError) -> bool:
    """Whether it was stored just now."""
    return isinstance(result, Submitted) and not result.existing


def write_submitted(result: Submitted) -> SubmitJobResponse:
    """A submit that went well."""
    return SubmitJobResponse(job_id=str(result.id), existing=result.existing)


def write_outcome(result: Submitted | RequestError) -> SubmitOutcome:
    """What became of one submit of a stream."""
    if isinstance(result, RequestError):
        return SubmitOutcome(refused=SubmitRefusal(code=STATUSES[type(result)].value, message=str(result)))
    return SubmitOutcome(submitted=write_submitted(result))
