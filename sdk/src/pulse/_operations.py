"""What an operator does to jobs and to dispatch, and what there is to see."""

import asyncio
from collections.abc import AsyncIterator
from typing import Unpack

from pulse._connection import Connection
from pulse._convert import (
    STATUS_FROM_WIRE,
    read_dispatch_status,
    read_error_group,
    read_explanation,
    read_job,
    read_server_info,
    read_stats,
    read_switch,
    read_topic,
    read_worker,
)
from pulse._durations import Seconds, to_timedelta
from pulse._enums import JobStatus
from pulse._filters import JobFilter, write_filter
from pulse._models import (
    BulkResult,
    DispatchStatus,
    DispatchSwitch,
    ErrorGroup,
    Explanation,
    JobCount,
    JobInfo,
    Page,
    ServerInfo,
    Stats,
    TopicInfo,
    WorkerInfo,
)
from pulse_gen.rpc.grpc.health.v1 import HealthCheckRequest, HealthCheckResponseServingStatus, HealthStub
from pulse_gen.rpc.pulse import v1 as wire
from pulse_gen.rpc.pulse.v1 import DispatchServiceStub, JobServiceStub, StatsServiceStub


class JobOperations:
    """Jobs, one at a time and by filter."""

    _connection: Connection

    async def get_job(self, job_id: str) -> JobInfo:
        """One job with its payload and the history of its failed attempts."""
        answer = await self._connection.call(
            JobServiceStub, JobServiceStub.get_job, wire.GetJobRequest(job_id=job_id), repeatable=True
        )
        return read_job(answer.job)

    async def wait_job(self, job_id: str, *, timeout: Seconds | None = None) -> JobInfo:
        """The job once it is COMPLETED, DEAD_LETTERED or CANCELED; TimeoutError if that takes longer than `timeout`.

        It asks again and again, at first every 20 ms, later once a second: for tests and scripts, not for thousands.
        """
        wait = 0.02
        async with asyncio.timeout(None if timeout is None else to_timedelta("timeout", timeout).total_seconds()):
            while not (job := await self.get_job(job_id)).status.finished:
                await asyncio.sleep(wait)
                wait = min(1.0, wait * 1.5)
        return job

    async def list_jobs(
        self, *, limit: int | None = None, page_size: int = 100, **conditions: Unpack[JobFilter]
    ) -> AsyncIterator[JobInfo]:
        """The jobs that match, the latest submitted first, without payloads; at most `limit`.

        Pages are fetched as the iteration goes on.
        """
        token: str | None = ""
        left = limit
        while token is not None and left != 0:
            size = page_size if left is None else min(page_size, left)
            page = await self.list_jobs_page(page_size=size, page_token=token, **conditions)
            for job in page:
                yield job
            left = None if left is None else left - len(page)
            token = page.next_page_token

    async def list_jobs_page(
        self, *, page_size: int = 100, page_token: str = "", **conditions: Unpack[JobFilter]
    ) -> Page[JobInfo]:
        """One page of `list_jobs`, for those who keep the place themselves."""
        request = wire.ListJobsRequest(filter=write_filter(conditions), page_size=page_size, page_token=page_token)
        answer = await self._connection.call(JobServiceStub, JobServiceStub.list_jobs, request, repeatable=True)
        return Page(items=tuple(read_job(job) for job in answer.jobs), next_page_token=answer.next_page_token or None)

    async def count_jobs(self, *, limit: int | None = None, **conditions: Unpack[JobFilter]) -> JobCount:
        """How many jobs match, counted up to `limit`, at most 10,000."""
        request = wire.CountJobsRequest(filter=write_filter(conditions), limit=limit or 0)
        answer = await self._connection.call(JobServiceStub, JobServiceStub.count_jobs, request, repeatable=True)
        return JobCount(count=answer.count, capped=answer.capped)

    async def explain_job(self, job_id: str) -> Explanation:
        """What holds a job right now, in plain words."""
        answer = await self._connection.call(
            JobServiceStub, JobServiceStub.explain_job, wire.ExplainJobRequest(job_id=job_id), repeatable=True
        )
        return read_explanation(answer)

    async def cancel_job(self, job_id: str) -> JobStatus:
        """End a job. CANCELED, or RUNNING: its worker was asked to stop, and may still finish first."""
        answer = await self._connection.call(
            JobServiceStub, JobServiceStub.cancel_job, wire.CancelJobRequest(job_id=job_id)
        )
        return STATUS_FROM_WIRE[answer.status]

    async def retry_job(self, job_id: str) -> None:
        """Run a DEAD_LETTERED, CANCELED or RETRYING job now, with fresh attempts."""
        await self._connection.call(JobServiceStub, JobServiceStub.retry_job, wire.RetryJobRequest(job_id=job_id))

    async def delete_job(self, job_id: str) -> None:
        """Remove a job that is not running."""
        await self._connection.call(JobServiceStub, JobServiceStub.delete_job, wire.DeleteJobRequest(job_id=job_id))

    async def update_job_priority(self, job_id: str, priority: int) -> None:
        """Change the priority of a job that waits."""
        request = wire.UpdateJobPriorityRequest(job_id=job_id, priority=priority)
        await self._connection.call(JobServiceStub, JobServiceStub.update_job_priority, request, repeatable=True)

    async def cancel_jobs(self, *, limit: int = 1000, **conditions: Unpack[JobFilter]) -> BulkResult:
        """Cancel what matches and can be canceled, at most `limit` in this call; needs a condition."""
        request = wire.CancelJobsRequest(filter=write_filter(conditions), limit=limit)
        answer = await self._connection.call(JobServiceStub, JobServiceStub.cancel_jobs, request, repeatable=True)
        return BulkResult(affected=answer.affected, more=answer.more)

    async def retry_jobs(self, *, limit: int = 1000, **conditions: Unpack[JobFilter]) -> BulkResult:
        """Retry what matches and can be retried, at most `limit` in this call; needs a condition."""
        request = wire.RetryJobsRequest(filter=write_filter(conditions), limit=limit)
        answer = await self._connection.call(JobServiceStub, JobServiceStub.retry_jobs, request)
        return BulkResult(affected=answer.affected, more=answer.more)

    async def delete_jobs(self, *, limit: int = 1000, **conditions: Unpack[JobFilter]) -> BulkResult:
        """Delete what matches and does not run, at most `limit` in this call; needs a condition."""
        request = wire.DeleteJobsRequest(filter=write_filter(conditions), limit=limit)
        answer = await self._connection.call(JobServiceStub, JobServiceStub.delete_jobs, request, repeatable=True)
        return BulkResult(affected=answer.affected, more=answer.more)

    async def update_jobs_priority(
        self, priority: int, *, limit: int = 1000, **conditions: Unpack[JobFilter]
    ) -> BulkResult:
        """Change the priority of what matches and waits, at most `limit` in this call; needs a condition."""
        request = wire.UpdateJobsPriorityRequest(filter=write_filter(conditions), priority=priority, limit=limit)
        answer = await self._connection.call(
            JobServiceStub, JobServiceStub.update_jobs_priority, request, repeatable=True
        )
        return BulkResult(affected=answer.affected, more=answer.more)


class DispatchOperations:
    """The switch that stops jobs from being given out."""

    _connection: Connection

    async def pause_dispatch(self, topic: str | None = None, *, reason: str = "") -> DispatchSwitch:
        """Give out no more jobs, of one topic or at all. Running ones go on; the pause outlives restarts."""
        request = wire.PauseDispatchRequest(topic=topic or "", reason=reason)
        answer = await self._connection.call(
            DispatchServiceStub, DispatchServiceStub.pause_dispatch, request, repeatable=True
        )
        return read_switch(answer.switch)

    async def resume_dispatch(self, topic: str | None = None) -> DispatchSwitch:
        """Let it go on, for one topic or for everything; topics that were paused on their own stay so."""
        request = wire.ResumeDispatchRequest(topic=topic or "")
        answer = await self._connection.call(
            DispatchServiceStub, DispatchServiceStub.resume_dispatch, request, repeatable=True
        )
        return read_switch(answer.switch)

    async def dispatch_status(self) -> DispatchStatus:
        """What is paused."""
        answer = await self._connection.call(
            DispatchServiceStub,
            DispatchServiceStub.get_dispatch_status,
            wire.GetDispatchStatusRequest(),
            repeatable=True,
        )
        return read_dispatch_status(answer)


class StatsOperations:
    """How the queue and its server are doing."""

    _connection: Connection

    async def stats(self, *, window: Seconds | None = None, topics: list[str] | None = None) -> Stats:
        """Counts, rates, the oldest waiting job and latencies, over a window of an hour unless given."""
        request = wire.GetStatsRequest(
            window=None if window is None else to_timedelta("window", window), topics=topics or []
        )
        answer = await self._connection.call(StatsServiceStub, StatsServiceStub.get_stats, request, repeatable=True)
        return read_stats(answer)

    async def workers(self, *, topic: str | None = None) -> list[WorkerInfo]:
        """The connected workers, the longest connected first."""
        request = wire.ListWorkersRequest(topic=topic or "")
        answer = await self._connection.call(StatsServiceStub, StatsServiceStub.list_workers, request, repeatable=True)
        return [read_worker(worker) for worker in answer.workers]

    async def topics(self) -> list[TopicInfo]:
        """The topics that have jobs, workers, schedules or recent traffic."""
        answer = await self._connection.call(
            StatsServiceStub, StatsServiceStub.list_topics, wire.ListTopicsRequest(), repeatable=True
        )
        return [read_topic(topic) for topic in answer.topics]

    async def errors(self, *, topic: str | None = None) -> list[ErrorGroup]:
        """The latest errors of dead letters, alike ones grouped, the most frequent first."""
        request = wire.ListErrorsRequest(topic=topic or "")
        answer = await self._connection.call(StatsServiceStub, StatsServiceStub.list_errors, request, repeatable=True)
        return [read_error_group(group) for group in answer.groups]

    async def server_info(self) -> ServerInfo:
        """What the server is, and who it takes us for."""
        answer = await self._connection.call(
            StatsServiceStub, StatsServiceStub.get_server_info, wire.GetServerInfoRequest(), repeatable=True
        )
        return read_server_info(answer)

    async def is_serving(self) -> bool:
        """Whether the server says that it is ready; needs no credentials."""
        answer = await self._connection.call(HealthStub, HealthStub.check, HealthCheckRequest(), repeatable=True)
        return answer.status is HealthCheckResponseServingStatus.SERVING
