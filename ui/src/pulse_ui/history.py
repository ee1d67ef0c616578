"""What happened to a job, in the order of time."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from pulse import JobInfo, JobStatus


@dataclass(frozen=True)
class Moment:
    """One step of a job's life; `kind` is the status that it led to."""

    at: datetime
    kind: JobStatus
    text: str


@dataclass(frozen=True)
class Attempt:
    """One time that a worker had the job. `waited` counts from the submission, or from the failure before."""

    number: int
    worker_id: str | None
    started_at: datetime | None
    waited: timedelta | None
    ran: timedelta | None
    outcome: JobStatus
    error: str | None


def timeline(job: JobInfo) -> list[Moment]:
    """Everything that is known, the oldest first; what is ahead comes last."""
    moments = [Moment(job.submitted_at, JobStatus.PENDING, "Submitted")]
    for failure in job.failures:
        if failure.started_at:
            moments.append(Moment(failure.started_at, JobStatus.RUNNING, f"Attempt {failure.attempt} started"))
        if failure.failed_at:
            moments.append(Moment(failure.failed_at, JobStatus.RETRYING, f"Attempt {failure.attempt} failed"))
    if job.started_at and not _is_recorded(job):
        moments.append(Moment(job.started_at, JobStatus.RUNNING, f"Attempt {job.attempts} started"))
    if job.cancel_requested_at:
        moments.append(Moment(job.cancel_requested_at, JobStatus.CANCELED, "Asked to stop"))
    if job.finished_at:
        moments.append(Moment(job.finished_at, job.status, _ENDS[job.status]))
    elif job.status is not JobStatus.RUNNING and job.next_run_at and job.next_run_at > job.submitted_at:
        moments.append(Moment(job.next_run_at, JobStatus.PENDING, "May run"))
    return sorted(moments, key=lambda moment: moment.at)


_ENDS = {
    JobStatus.COMPLETED: "Completed",
    JobStatus.DEAD_LETTERED: "Died: it went to the dead letters",
    JobStatus.CANCELED: "Canceled",
}


def attempts(job: JobInfo) -> list[Attempt]:
    """The failed ones that are kept, and the one that runs or that ended it; the latest first."""
    found = []
    ready_at: datetime | None = job.submitted_at
    expected = 1
    for failure in job.failures:
        # Of a gap (attempts that were snoozed, or are no longer kept) it is not known when it ended.
        since = ready_at if failure.attempt == expected else None
        found.append(
            Attempt(
                failure.attempt,
                failure.worker_id or None,
                failure.started_at,
                _between(since, failure.started_at),
                _between(failure.started_at, failure.failed_at),
                JobStatus.RETRYING,
                failure.error,
            )
        )
        ready_at, expected = failure.failed_at, failure.attempt + 1
    if job.started_at and not _is_recorded(job):
        since = ready_at if job.attempts == expected else None
        waited = _between(since, job.started_at)
        ran = _between(job.started_at, job.finished_at)
        found.append(Attempt(job.attempts, job.worker_id, job.started_at, waited, ran, job.status, None))
    return found[::-1]


def _is_recorded(job: JobInfo) -> bool:
    """Whether the latest attempt is among the failures already."""
    return any(failure.attempt == job.attempts for failure in job.failures)


def _between(start: datetime | None, end: datetime | None) -> timedelta | None:
    return end - start if start and end else None
