"""From a submission on the wire to the row that is stored: validated, defaults filled in."""

import json
import uuid
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pulse_gen.db.models import BackoffKind
from pulse_gen.rpc.pulse.v1 import Backoff, JobOptions, JobSubmission, Unique, UniqueScope
from pulse_gen.rpc.pulse.v1 import BackoffKind as WireBackoffKind
from pulsed.errors import InvalidArgument
from pulsed.identifiers import new_id, parse_id
from pulsed.validation import (
    DAY,
    LONGEST,
    check_content_type,
    check_count,
    check_duration,
    check_metadata,
    check_moment,
    check_payload,
    check_priority,
    check_tags,
    check_text,
    check_topic,
)

DEFAULT_MAX_ATTEMPTS = 5
MICROSECOND = timedelta(microseconds=1)


class JobPolicy(NamedTuple):
    """The options of a job or a schedule as columns; None is the default."""

    priority: int
    max_attempts: int
    backoff_kind: BackoffKind | None
    backoff_base: timedelta | None
    backoff_cap: timedelta | None
    backoff_jitter: float | None
    timeout: timedelta | None
    lease: timedelta | None
    unique_key: str | None
    unique_period: timedelta | None
    tags: list[str] | None
    metadata: dict[str, str] | None


PLAIN = JobPolicy(0, DEFAULT_MAX_ATTEMPTS, *(None,) * 10)


class NewJob(NamedTuple):
    """One job, ready to be stored. `extra` holds what most jobs leave at its default, as JobInsert wants it."""

    id: uuid.UUID
    topic: str
    payload: bytes
    content_type: str
    priority: int
    max_attempts: int
    run_at: datetime | None
    delay: timedelta | None
    extra: str | None
    unique_key: str | None

    @property
    def is_plain(self) -> bool:
        """Due at once, and sets nothing of what few jobs set."""
        return self.run_at is None and self.delay is None and self.extra is None


def read_submission(field: str, submission: JobSubmission | None, *, max_payload: int) -> NewJob:
    """The job that a producer asks for."""
    if submission is None:
        raise InvalidArgument(field, "is missing")
    try:
        content_type = check_content_type("content_type", submission.content_type)
        policy = read_policy("options", submission.options)
        return NewJob(
            parse_id("job_id", submission.job_id) if submission.job_id else new_id(),
            check_topic("topic", submission.topic),
            check_payload("payload", submission.payload, content_type, longest=max_payload),
            content_type,
            policy.priority,
            policy.max_attempts,
            check_moment("run_at", submission.run_at),
            check_duration("delay", submission.delay, longest=LONGEST),
            None if policy is PLAIN else write_extra(policy),
            policy.unique_key,
        )
    except InvalidArgument as error:
        raise error.inside(field) from None


def read_policy(field: str, options: JobOptions | None) -> JobPolicy:
    """The options, checked."""
    if options is None:
        return PLAIN
    kind, base, cap, jitter = _read_backoff(f"{field}.backoff", options.backoff)
    unique_key, unique_period = _read_unique(f"{field}.unique", options.unique)
    return JobPolicy(
        check_priority(f"{field}.priority", options.priority),
        check_count(f"{field}.max_attempts", options.max_attempts, most=1000, default=DEFAULT_MAX_ATTEMPTS),
        kind,
        base,
        cap,
        jitter,
        check_duration(f"{field}.timeout", options.timeout, longest=LONGEST, shortest=MICROSECOND),
        check_duration(f"{field}.lease", options.lease, longest=DAY, shortest=timedelta(seconds=1)),
        unique_key,
        unique_period,
        list(check_tags(f"{field}.tags", options.tags)) or None,
        dict(check_metadata(f"{field}.metadata", options.metadata)) or None,
    )


def write_extra(policy: JobPolicy, **more: str | float) -> str | None:
    """The `extra` of JobInsert: only what is set, durations in seconds; None if nothing is."""
    extra: dict[str, Any] = {
        name: value.total_seconds() if isinstance(value, timedelta) else value
        for name, value in zip(policy._fields[2:], policy[2:], strict=True)
        if value is not None
    } | more
    return json.dumps(extra) if extra else None


def _read_backoff(
    field: str, backoff: Backoff | None
) -> tuple[BackoffKind | None, timedelta | None, timedelta | None, float | None]:
    if backoff is None:
        return None, None, None, None
    if backoff.kind not in BACKOFF_KINDS:
        raise InvalidArgument(f"{field}.kind", f"{int(backoff.kind)} is not a known kind")
    if not 0 <= backoff.jitter <= 1:
        raise InvalidArgument(f"{field}.jitter", f"is {backoff.jitter:g}, it must be from 0 to 1")
    return (
        BACKOFF_KINDS[backoff.kind],
        check_duration(f"{field}.base", backoff.base, longest=DAY),
        check_duration(f"{field}.cap", backoff.cap, longest=DAY),
        backoff.jitter or None,
    )


def _read_unique(field: str, unique: Unique | None) -> tuple[str | None, timedelta | None]:
    if unique is None:
        return None, None
    key = check_text(f"{field}.key", unique.key, longest=255, shortest=1)
    if unique.scope in (UniqueScope.UNSPECIFIED, UniqueScope.UNFINISHED):
        if unique.period is not None:
            raise InvalidArgument(f"{field}.period", "needs the scope UNIQUE_SCOPE_PERIOD")
        return key, None
    if unique.scope is not UniqueScope.PERIOD:
        raise InvalidArgument(f"{field}.scope", f"{int(unique.scope)} is not a known scope")
    if unique.period is None:
        raise InvalidArgument(f"{field}.period", "is missing")
    return key, check_duration(f"{field}.period", unique.period, longest=LONGEST, shortest=MICROSECOND)


BACKOFF_KINDS: dict[WireBackoffKind, BackoffKind | None] = {
    WireBackoffKind.UNSPECIFIED: None,
    WireBackoffKind.QUADRATIC: BackoffKind.QUADRATIC,
    WireBackoffKind.FIXED: BackoffKind.FIXED,
    WireBackoffKind.LINEAR: BackoffKind.LINEAR,
    WireBackoffKind.EXPONENTIAL: BackoffKind.EXPONENTIAL,
}
