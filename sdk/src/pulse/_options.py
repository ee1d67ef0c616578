"""The options of a job as callers give them, checked and written for the wire."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypedDict

from pulse._durations import Seconds, to_timedelta
from pulse._enums import BackoffKind, parse_member
from pulse._errors import InvalidArgument
from pulse_gen.rpc.pulse import v1 as wire


@dataclass(frozen=True, slots=True)
class Backoff:
    """The wait between a failed attempt and the next (n = 1, 2, 3, ... attempts spent).

    QUADRATIC: base * n * n, the default. FIXED: base. LINEAR: base * n. EXPONENTIAL: base * 2 ** (n - 1).
    `jitter` is the share of the wait that is left to chance, from 0 to 1.
    """

    kind: BackoffKind = BackoffKind.QUADRATIC
    base: Seconds | None = None
    cap: Seconds | None = None
    jitter: float = 0.0


@dataclass(frozen=True, slots=True)
class Unique:
    """Lets at most one job of a topic hold a key: until it finishes, or for `period` from its submission."""

    key: str
    period: Seconds | None = None


class TaskOptions(TypedDict, total=False):
    """The options that a task can have as its defaults."""

    # Higher runs first, strictly. Default: 0.
    priority: int
    # Attempts before the job goes to the dead letters. Default: 5.
    max_attempts: int
    # The wait between attempts. Default: 1 s, 4 s, 9 s, ...
    backoff: Backoff
    # How long one attempt may run. Default: no limit.
    timeout: Seconds
    # How long a worker may be silent before the job is taken from it. Default: the server's, 30 s.
    lease: Seconds
    # Lets at most one such job exist; a string is a key that is held until the job finishes.
    unique: Unique | str
    # Words to find the job by.
    tags: Sequence[str]
    # Opaque pairs that travel to the handler.
    metadata: Mapping[str, str]


class EnqueueOptions(TaskOptions, total=False):
    """The options of one job, or of all jobs of one call."""

    # Not before this moment, which has a time zone.
    run_at: datetime
    # Not before this long from now.
    delay: Seconds


class SubmitOptions(EnqueueOptions, total=False):
    """The options of one job alone."""

    # A uuid made by the caller: the same id makes one job, however often it is submitted.
    job_id: str
    # What the payload is, where it is given as bytes. Default: application/octet-stream.
    content_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The options that a job has, defaults filled in by the server."""

    priority: int = 0
    max_attempts: int = 0
    backoff: Backoff = field(default_factory=Backoff)
    timeout: timedelta | None = None
    lease: timedelta | None = None
    unique: Unique | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)


_KINDS = {
    BackoffKind.QUADRATIC: wire.BackoffKind.QUADRATIC,
    BackoffKind.FIXED: wire.BackoffKind.FIXED,
    BackoffKind.LINEAR: wire.BackoffKind.LINEAR,
    BackoffKind.EXPONENTIAL: wire.BackoffKind.EXPONENTIAL,
}
_KINDS_READ = {value: key for key, value in _KINDS.items()}

_INT32 = range(-(2**31) + 1, 2**31)


def merge_options(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Later layers win; tags and metadata add up."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            if value is None:
                continue
            if name == "tags" and merged.get("tags"):
                value = [*merged["tags"], *(tag for tag in value if tag not in merged["tags"])]
            elif name == "metadata" and merged.get("metadata"):
                value = {**merged["metadata"], **value}
            merged[name] = value
    return merged


def check_names(options: Mapping[str, Any], allowed: frozenset[str]) -> None:
    """A misspelt option is an error, not a default."""
    if unknown := options.keys() - allowed:
        raise InvalidArgument(f"unknown option {', '.join(sorted(unknown))}; known are {', '.join(sorted(allowed))}")


TASK_OPTIONS = frozenset(TaskOptions.__annotations__)
ENQUEUE_OPTIONS = TASK_OPTIONS | frozenset(EnqueueOptions.__annotations__)
SUBMIT_OPTIONS = ENQUEUE_OPTIONS | frozenset(SubmitOptions.__annotations__)


def write_options(options: Mapping[str, Any]) -> wire.JobOptions | None:
    """The wire form; None when everything is at its default, which most jobs are."""
    if options.keys().isdisjoint(TASK_OPTIONS):
        return None
    message = wire.JobOptions()
    for name in options.keys() & _WRITERS.keys():
        setattr(message, name, _WRITERS[name](options[name]))
    return message


def write_start(options: Mapping[str, Any]) -> tuple[datetime | None, timedelta | None]:
    """When the job may start: a moment, a delay, or neither."""
    run_at, delay = options.get("run_at"), options.get("delay")
    if run_at is not None and delay is not None:
        raise InvalidArgument("run_at and delay: give one of them")
    if run_at is not None:
        check_moment("run_at", run_at)
    return run_at, None if delay is None else to_timedelta("delay", delay)


def check_moment(name: str, value: object) -> datetime:
    """A datetime that names a moment."""
    if not isinstance(value, datetime):
        raise InvalidArgument(f"{name}: {value!r} is not a datetime")
    if value.tzinfo is None:
        raise InvalidArgument(f"{name}: {value} has no time zone; use datetime.now(UTC) or a ZoneInfo")
    return value


def _write_priority(value: object) -> int:
    if not isinstance(value, int) or value not in _INT32:
        raise InvalidArgument(f"priority: {value!r} is not a whole number of 32 bits")
    return value


def _write_max_attempts(value: object) -> int:
    if not isinstance(value, int) or not 1 <= value <= 1000:
        raise InvalidArgument(f"max_attempts: {value!r} is not a whole number from 1 to 1000")
    return value


def _write_backoff(value: Backoff) -> wire.Backoff:
    if not isinstance(value, Backoff):
        raise InvalidArgument(f"backoff: {value!r} is not a pulse.Backoff")
    return wire.Backoff(
        kind=_KINDS[parse_member(BackoffKind, "backoff.kind", value.kind)],
        base=None if value.base is None else to_timedelta("backoff.base", value.base),
        cap=None if value.cap is None else to_timedelta("backoff.cap", value.cap),
        jitter=value.jitter,
    )


def _write_unique(value: Unique | str) -> wire.Unique:
    if isinstance(value, str):
        return wire.Unique(key=value)
    if not isinstance(value, Unique):
        raise InvalidArgument(f"unique: {value!r} is not a key or a pulse.Unique")
    if value.period is None:
        return wire.Unique(key=value.key)
    period = to_timedelta("unique.period", value.period)
    return wire.Unique(key=value.key, scope=wire.UniqueScope.PERIOD, period=period)


def _write_tags(value: Sequence[str]) -> list[str]:
    if isinstance(value, str) or not all(isinstance(tag, str) for tag in value):
        raise InvalidArgument(f"tags: {value!r} is not a list of strings")
    return list(value)


def _write_metadata(value: Mapping[Any, Any]) -> dict[str, str]:
    metadata = dict(value)
    if not all(isinstance(key, str) and isinstance(text, str) for key, text in metadata.items()):
        raise InvalidArgument("metadata: keys and values are strings")
    return metadata


_WRITERS: dict[str, Any] = {
    "priority": _write_priority,
    "max_attempts": _write_max_attempts,
    "backoff": _write_backoff,
    "timeout": lambda value: to_timedelta("timeout", value),
    "lease": lambda value: to_timedelta("lease", value),
    "unique": _write_unique,
    "tags": _write_tags,
    "metadata": _write_metadata,
}


def read_options(message: wire.JobOptions | None) -> JobOptions:
    """The options in an answer."""
    message = message or wire.JobOptions()
    backoff = message.backoff or wire.Backoff()
    unique = message.unique
    return JobOptions(
        priority=message.priority,
        max_attempts=message.max_attempts,
        backoff=Backoff(
            _KINDS_READ.get(backoff.kind, BackoffKind.QUADRATIC), backoff.base, backoff.cap, backoff.jitter
        ),
        timeout=message.timeout,
        lease=message.lease,
        unique=None if unique is None else Unique(unique.key, unique.period),
        tags=tuple(message.tags),
        metadata=dict(message.metadata),
    )
