"""The things of pulse as records with stable keys (the names of the contract) and as columns for people."""

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pulse_cli.output import View
from pulse_cli.tables import Column
from pulse_cli.times import ago, full, iso, seconds, span

if TYPE_CHECKING:
    import pulse


def now() -> datetime:
    """This machine's clock: for "ago" only."""
    return datetime.now(UTC)


def job_record(job: "pulse.JobInfo") -> dict[str, Any]:
    """A job as lists have it."""
    options = job.options
    return {
        "job_id": job.id,
        "topic": job.topic,
        "status": str(job.status),
        "priority": options.priority,
        "attempts": job.attempts,
        "attempts_spent": job.attempts_spent,
        "max_attempts": options.max_attempts,
        "submitted_at": iso(job.submitted_at),
        "next_run_at": iso(job.next_run_at),
        "started_at": iso(job.started_at),
        "finished_at": iso(job.finished_at),
        "worker_id": job.worker_id,
        "lease_until": iso(job.lease_until),
        "cancel_requested_at": iso(job.cancel_requested_at),
        "last_error": job.last_error,
        "schedule_id": job.schedule_id,
        "scheduled_for": iso(job.scheduled_for),
        "content_type": job.content_type,
        "payload_size": job.payload_size,
        **options_record(options),
    }


def options_record(options: "pulse.JobOptions") -> dict[str, Any]:
    """The options that jobs and schedules share, but for those that jobs show on their own."""
    unique = options.unique
    return {
        "tags": list(options.tags),
        "metadata": dict(options.metadata),
        "timeout_seconds": seconds(options.timeout),
        "lease_seconds": seconds(options.lease),
        "unique_key": unique.key if unique else None,
        "unique_period_seconds": seconds(unique.period) if unique else None,
        "backoff": {
            "kind": str(options.backoff.kind),
            "base_seconds": seconds(options.backoff.base),
            "cap_seconds": seconds(options.backoff.cap),
            "jitter": options.backoff.jitter,
        },
    }


def payload_record(payload: bytes) -> dict[str, Any]:
    """The payload as exact text; in base64 where it is none. Read as JSON it would lose what JSON readers lose."""
    try:
        return {"payload": payload.decode(), "payload_base64": None}
    except UnicodeDecodeError:
        return {"payload": None, "payload_base64": base64.b64encode(payload).decode()}


def whole_job_record(job: "pulse.JobInfo") -> dict[str, Any]:
    """A job with its payload and its history."""
    failures = [
        {
            "attempt": failure.attempt,
            "worker_id": failure.worker_id,
            "started_at": iso(failure.started_at),
            "failed_at": iso(failure.failed_at),
            "error": failure.error,
        }
        for failure in job.failures
    ]
    return job_record(job) | payload_record(job.payload) | {"failures": failures}


def last_line(text: str | None) -> str:
    """The line of an error that says most: tracebacks end with it."""
    lines = (text or "").strip().splitlines()
    return lines[-1].strip() if lines else ""


JOBS: "View[pulse.JobInfo]" = View(
    columns=(
        Column("JOB", lambda job: job.id),
        Column("STATUS", lambda job: str(job.status), narrowest=5),
        Column("TOPIC", lambda job: job.topic, narrowest=8, optional=True),
        Column("PRIO", lambda job: str(job.priority), optional=True),
        Column("TRIES", lambda job: f"{job.attempts_spent}/{job.max_attempts}", optional=True),
        Column("SUBMITTED", lambda job: ago(job.submitted_at, now()), optional=True),
        Column("ERROR", lambda job: last_line(job.last_error), narrowest=12, optional=True),
    ),
    record=job_record,
    empty="no jobs match",
)

FIRES: "View[pulse.JobInfo]" = View(
    columns=(
        Column("JOB", lambda job: job.id),
        Column("STATUS", lambda job: str(job.status)),
        Column("FOR", lambda job: full(job.scheduled_for, now()) if job.scheduled_for else "by hand", narrowest=19),
        Column("SUBMITTED", lambda job: ago(job.submitted_at, now()), optional=True),
        Column("ERROR", lambda job: last_line(job.last_error), narrowest=12, optional=True),
    ),
    record=job_record,
    empty="it has made no jobs",
)


def job_pairs(job: "pulse.JobInfo") -> list[tuple[str, str]]:
    """A whole job for people."""
    moment = now()
    options = job.options
    pairs = [
        ("job", job.id),
        ("topic", job.topic),
        ("status", str(job.status)),
        ("priority", str(job.priority)),
        ("attempts", f"{job.attempts_spent} of {job.max_attempts} spent, {job.attempts} in all"),
        ("submitted", full(job.submitted_at, moment)),
        ("next run", full(job.next_run_at, moment)),
        ("started", full(job.started_at, moment)),
        ("finished", full(job.finished_at, moment)),
        ("worker", job.worker_id or "-"),
        ("lease until", full(job.lease_until, moment)),
        ("cancel asked", full(job.cancel_requested_at, moment)),
        ("schedule", f"{job.schedule_id} for {full(job.scheduled_for, moment)}" if job.schedule_id else "-"),
        ("tags", ", ".join(job.tags) or "-"),
        ("metadata", ", ".join(f"{key}={value}" for key, value in options.metadata.items()) or "-"),
        ("unique key", options.unique.key if options.unique else "-"),
        ("time limit", span(options.timeout)),
    ]
    pairs = [pair for pair in pairs if pair[1] != "-"]
    for failure in job.failures:
        pairs.append((f"failure {failure.attempt}", f"{full(failure.failed_at, moment)}\n{failure.error}"))
    pairs.append((f"payload, {job.payload_size} bytes", shown_payload(job.payload, job.content_type)))
    return pairs


def shown_payload(payload: bytes, content_type: str) -> str:
    """A payload for people."""
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return f"{content_type}, not text: see it with --payload"


def timing_words(timing: "pulse.Timing") -> str:
    """When a schedule fires, for people."""
    import pulse

    match timing:
        case pulse.Cron(expression, tz):
            return f"{expression} ({tz})"
        case pulse.Every(interval, _):
            return f"every {span(interval)}"
        case pulse.At(moment):
            return f"at {moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def timing_record(timing: "pulse.Timing") -> dict[str, Any]:
    """When a schedule fires, for programs: all keys, those of the other kinds null."""
    import pulse

    record: dict[str, Any] = dict.fromkeys(("cron", "timezone", "every_seconds", "start", "at"))
    match timing:
        case pulse.Cron(expression, tz):
            return record | {"cron": expression, "timezone": tz}
        case pulse.Every(interval, start):
            return record | {"every_seconds": seconds(interval), "start": iso(start)}
        case pulse.At(moment):
            return record | {"at": iso(moment)}


def schedule_record(schedule: "pulse.ScheduleInfo") -> dict[str, Any]:
    """A schedule."""
    return {
        "schedule_id": schedule.id,
        "name": schedule.name,
        "topic": schedule.topic,
        "paused": schedule.paused,
        **timing_record(schedule.timing),
        "next_run_at": iso(schedule.next_run_at),
        "last_fired_at": iso(schedule.last_fired_at),
        "upcoming": [iso(moment) for moment in schedule.upcoming],
        "misfire_policy": str(schedule.misfire_policy),
        "misfire_limit": schedule.misfire_limit,
        "priority": schedule.options.priority,
        "max_attempts": schedule.options.max_attempts,
        **options_record(schedule.options),
        "content_type": schedule.content_type,
        **payload_record(schedule.payload),
        "created_at": iso(schedule.created_at),
        "updated_at": iso(schedule.updated_at),
    }


SCHEDULES: "View[pulse.ScheduleInfo]" = View(
    columns=(
        Column("NAME", lambda schedule: schedule.name, narrowest=12),
        Column("TOPIC", lambda schedule: schedule.topic, narrowest=8),
        Column("WHEN", lambda schedule: timing_words(schedule.timing), narrowest=12),
        Column("STATE", lambda schedule: "paused" if schedule.paused else "active"),
        Column("NEXT", lambda schedule: "-" if schedule.paused else ago(schedule.next_run_at, now())),
        Column("LAST", lambda schedule: ago(schedule.last_fired_at, now()), optional=True),
        Column("SCHEDULE", lambda schedule: schedule.id, optional=True),
    ),
    record=schedule_record,
    empty="no schedules; make one with `pulse schedules create`",
)
