"""Rows to messages. The one place where the enums of the database meet those of the wire."""

import json
from datetime import UTC, datetime, timedelta

from pulse_gen.db import models
from pulse_gen.db.jobs import JobSummariesRow
from pulse_gen.rpc.pulse.v1 import (
    Backoff,
    BackoffKind,
    Cron,
    DispatchSwitch,
    Every,
    FailedAttempt,
    Job,
    JobOptions,
    JobStatus,
    MisfirePolicy,
    Schedule,
    ScheduleDefinition,
    Unique,
    UniqueScope,
)
from pulsed.errors import InvalidArgument

STATUS_TO_WIRE = {status: JobStatus[status.name] for status in models.JobStatus}
STATUS_FROM_WIRE = {wire: status for status, wire in STATUS_TO_WIRE.items()}
BACKOFF_TO_WIRE = {kind: BackoffKind[kind.name] for kind in models.BackoffKind}
MISFIRE_TO_WIRE = {policy: MisfirePolicy[policy.name] for policy in models.MisfirePolicy}


def read_status(field: str, status: JobStatus) -> models.JobStatus:
    """A status in a request."""
    try:
        return STATUS_FROM_WIRE[status]
    except KeyError:
        raise InvalidArgument(field, f"{int(status)} is not a known status") from None


def write_job(row: models.Job) -> Job:
    """A job, whole."""
    return _write_job(row, payload=row.payload, payload_size=len(row.payload), failures=row.failures)


def write_job_summary(row: JobSummariesRow | models.Job) -> Job:
    """A job for a list: no payload, no history."""
    size = len(row.payload) if isinstance(row, models.Job) else row.payload_size
    return _write_job(row, payload=b"", payload_size=size, failures=None)


def _write_job(row: JobSummariesRow | models.Job, *, payload: bytes, payload_size: int, failures: str | None) -> Job:
    return Job(
        job_id=str(row.id),
        topic=row.topic,
        status=STATUS_TO_WIRE[row.status],
        payload=payload,
        content_type=row.content_type,
        options=_write_options(row),
        attempts=row.attempts,
        attempts_spent=row.attempts - row.attempts_forgiven,
        submitted_at=row.submitted_at,
        next_run_at=row.next_run_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        worker_id=str(row.worker_id) if row.status is models.JobStatus.RUNNING else "",
        lease_until=row.lease_until,
        cancel_requested_at=row.cancel_requested_at,
        last_error=row.last_error or "",
        failures=_write_failures(failures),
        schedule_id=str(row.schedule_id) if row.schedule_id else "",
        scheduled_for=row.scheduled_for,
        payload_size=payload_size,
    )


def _write_options(row: JobSummariesRow | models.Job | models.Schedule) -> JobOptions:
    period = None
    if isinstance(row, models.Schedule):
        period = row.unique_period
    elif row.unique_until is not None:
        period = row.unique_until - row.submitted_at
    return JobOptions(
        priority=row.priority,
        max_attempts=row.max_attempts,
        backoff=Backoff(
            kind=BACKOFF_TO_WIRE[row.backoff_kind or models.BackoffKind.QUADRATIC],
            base=timedelta(seconds=1) if row.backoff_base is None else row.backoff_base,
            cap=timedelta(days=1) if row.backoff_cap is None else row.backoff_cap,
            jitter=row.backoff_jitter or 0.0,
        ),
        timeout=row.timeout,
        lease=row.lease,
        unique=None if row.unique_key is None else _write_unique(row.unique_key, period),
        tags=row.tags or [],
        metadata=json.loads(row.metadata) if row.metadata else {},
    )


def _write_unique(key: str, period: timedelta | None) -> Unique:
    scope = UniqueScope.UNFINISHED if period is None else UniqueScope.PERIOD
    return Unique(key=key, scope=scope, period=period)


def _write_failures(failures: str | None) -> list[FailedAttempt]:
    return [
        FailedAttempt(
            attempt=failure["attempt"],
            worker_id=failure["worker_id"],
            started_at=_moment(failure["started_at"]),
            failed_at=_moment(failure["failed_at"]),
            error=failure["error"],
        )
        for failure in json.loads(failures or "[]")
    ]


def _moment(epoch: float) -> datetime:
    return datetime.fromtimestamp(epoch, UTC)


def write_schedule(row: models.Schedule, upcoming: list[datetime]) -> Schedule:
    """A schedule."""
    definition = ScheduleDefinition(
        name=row.name,
        topic=row.topic,
        payload=row.payload,
        content_type=row.content_type,
        options=_write_options(row),
        misfire_policy=MISFIRE_TO_WIRE[row.misfire_policy],
        misfire_limit=row.misfire_limit,
    )
    match row.kind:
        case models.ScheduleKind.AT:
            definition.at = row.start_at
        case models.ScheduleKind.EVERY:
            definition.every = Every(interval=row.every, start=row.start_at)
        case models.ScheduleKind.CRON:
            definition.cron = Cron(expression=row.cron or "", timezone=row.timezone or "")
    return Schedule(
        schedule_id=str(row.id),
        definition=definition,
        paused=row.paused,
        next_run_at=row.next_run_at,
        last_fired_at=row.last_fired_at,
        created_at=row.created_at,
        updated_at=row.updated_at,
        upcoming=upcoming,
    )


def write_switch(row: models.DispatchControl) -> DispatchSwitch:
    """The pause switch of one scope."""
    return DispatchSwitch(
        topic=row.scope,
        paused=row.paused,
        reason=row.reason,
        paused_at=row.paused_at,
        paused_by=row.paused_by,
    )
