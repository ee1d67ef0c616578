"""The job as its handler sees it."""

import logging
import time
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any

from pulse_gen.rpc.pulse.v1 import JobAssignment

logger = logging.getLogger("pulse.job")

_current: ContextVar["Job | None"] = ContextVar("pulse_job", default=None)


class Job:
    """One attempt of a job. `id` and `attempt` together name it, and are what to dedupe side effects by."""

    __slots__ = ("_assignment", "_cancelled", "_started")

    def __init__(self, assignment: JobAssignment) -> None:
        self._assignment = assignment
        self._cancelled = False
        self._started = time.time()

    def __repr__(self) -> str:
        return f"<pulse.Job {self.id} {self.topic!r} attempt {self.attempt}>"

    @property
    def id(self) -> str:
        """Its uuid."""
        return self._assignment.job_id

    @property
    def attempt(self) -> int:
        """Which attempt this is, counted from 1. It goes on counting over snoozes and retries by hand."""
        return self._assignment.attempt

    @property
    def topic(self) -> str:
        """Its topic, which is the name of its task."""
        return self._assignment.topic

    @property
    def payload(self) -> bytes:
        """The arguments as they travelled."""
        return self._assignment.payload

    @property
    def content_type(self) -> str:
        """What the payload is."""
        return self._assignment.content_type

    @property
    def priority(self) -> int:
        """Its priority."""
        return self._assignment.priority

    @property
    def max_attempts(self) -> int:
        """How many attempts it may spend in all."""
        return self._assignment.max_attempts

    @property
    def attempts_spent(self) -> int:
        """How many of them are spent, this one included."""
        return self._assignment.attempts_spent

    @property
    def is_last_attempt(self) -> bool:
        """Whether the job goes to the dead letters if this attempt fails."""
        return self.attempts_spent >= self.max_attempts

    @property
    def tags(self) -> tuple[str, ...]:
        """The words to find it by."""
        return tuple(self._assignment.tags)

    @property
    def metadata(self) -> Mapping[str, str]:
        """The pairs that it was submitted with."""
        return self._assignment.metadata

    @property
    def submitted_at(self) -> datetime | None:
        """When it was submitted."""
        return self._assignment.submitted_at

    @property
    def schedule_id(self) -> str | None:
        """The schedule that made it, if one did."""
        return self._assignment.schedule_id or None

    @property
    def scheduled_for(self) -> datetime | None:
        """The occurrence of that schedule that it stands for."""
        return self._assignment.scheduled_for

    @property
    def started_at(self) -> datetime:
        """When its handler was started, by this machine's clock."""
        return datetime.fromtimestamp(self._started, UTC)

    @property
    def timeout(self) -> timedelta | None:
        """How long this attempt may run."""
        return self._assignment.timeout

    @property
    def deadline(self) -> datetime | None:
        """When this attempt is stopped; None without a timeout."""
        if self._assignment.timeout is None:
            return None
        return self.started_at + self._assignment.timeout

    @property
    def cancelled(self) -> bool:
        """Whether to stop: somebody canceled the job, its time is up, or its lease is lost.

        An async handler is cancelled besides; a plain function that runs long looks here now and then and returns.
        """
        return self._cancelled

    @property
    def logger(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger that adds the job's id, attempt and topic to what it logs."""
        return logging.LoggerAdapter(logger, log_fields(self))

    def _cancel(self) -> None:
        self._cancelled = True


def current_job() -> Job | None:
    """The job whose handler is running here, in its async code and in its thread; None outside of one."""
    return _current.get()


def set_current_job(job: Job | None) -> None:
    """For those who run handlers."""
    _current.set(job)


def log_fields(job: Job) -> dict[str, Any]:
    """What a log line says about its job."""
    return {"job_id": job.id, "attempt": job.attempt, "topic": job.topic}


class JobLogFilter(logging.Filter):
    """Put on a logging handler, it adds job_id, attempt and topic to every record logged while a job runs.

    Outside of a job they are None, so that a format string may name them.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields; every record passes."""
        job = _current.get()
        record.job_id = job.id if job else None
        record.attempt = job.attempt if job else None
        record.topic = job.topic if job else None
        return True
