"""What the operations answer with: frozen, typed, without behaviour beyond convenience."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from pulse._enums import HoldReason, JobStatus, MisfirePolicy
from pulse._options import JobOptions
from pulse._timing import Timing

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The answer to one submit. `existing`: nothing was stored, because the id was seen before or the key is taken."""

    job_id: str
    existing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """One entry of a job's history."""

    attempt: int
    worker_id: str
    started_at: datetime | None
    failed_at: datetime | None
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo:
    """A job as it stands. In lists, `payload` and `failures` are empty."""

    id: str
    topic: str
    status: JobStatus
    payload: bytes = field(repr=False)
    payload_size: int
    content_type: str
    options: JobOptions
    # How often it was given to a worker, and how many of `options.max_attempts` are used up.
    attempts: int
    attempts_spent: int
    submitted_at: datetime
    next_run_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    # While RUNNING: who holds it, and until when that worker may be silent.
    worker_id: str | None
    lease_until: datetime | None
    cancel_requested_at: datetime | None
    last_error: str | None
    failures: tuple[FailedAttempt, ...]
    schedule_id: str | None
    scheduled_for: datetime | None

    @property
    def priority(self) -> int:
        """The present priority."""
        return self.options.priority

    @property
    def max_attempts(self) -> int:
        """How many attempts it may spend."""
        return self.options.max_attempts

    @property
    def tags(self) -> tuple[str, ...]:
        """The words to find it by."""
        return self.options.tags

    def json(self) -> Any:
        """The payload, read as JSON; ValueError if it is none."""
        return json.loads(self.payload)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Item]):
    """One page of a list, and where the next begins; no token: it is the last."""

    items: tuple[Item, ...]
    next_page_token: str | None

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCount:
    """How many jobs match; `capped`: there are more than that."""

    count: int
    capped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkResult:
    """How many jobs a bulk step changed; `more`: its limit was reached, call again for the rest."""

    affected: int
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What holds a job, for programs and for people, and the command that would change it."""

    reason: HoldReason
    text: str
    suggested_command: str | None
    job: JobInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleInfo:
    """A schedule as it stands."""

    id: str
    name: str
    topic: str
    payload: bytes = field(repr=False)
    content_type: str
    options: JobOptions
    timing: Timing
    misfire_policy: MisfirePolicy
    misfire_limit: int
    paused: bool
    next_run_at: datetime | None
    last_fired_at: datetime | None
    created_at: datetime
    updated_at: datetime | None
    # The next occurrences, at most five.
    upcoming: tuple[datetime, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchSwitch:
    """Whether jobs are given out, for one topic or, without one, for everything."""

    topic: str | None
    paused: bool
    reason: str | None
    paused_at: datetime | None
    paused_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchStatus:
    """The switch for everything, and those of topics that are paused or were once."""

    everything: DispatchSwitch
    topics: tuple[DispatchSwitch, ...]

    @property
    def paused(self) -> bool:
        """Whether everything is paused."""
        return self.everything.paused

    @property
    def reason(self) -> str | None:
        """Why everything is paused."""
        return self.everything.reason

    def is_paused(self, topic: str) -> bool:
        """Whether jobs of this topic are held back, by its own switch or by the one for everything."""
        return self.paused or any(switch.paused for switch in self.topics if switch.topic == topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusCount:
    """How many jobs have a status; `estimated` where counting would take long."""

    status: JobStatus
    count: int
    estimated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """A distribution of times over the window that was asked for."""

    p50: timedelta | None
    p95: timedelta | None
    p99: timedelta | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What happened in a span of time."""

    start: datetime
    length: timedelta
    submitted: int
    completed: int
    failed: int
    dead_lettered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStats:
    """How one topic or, without one, everything is doing."""

    topic: str | None
    counts: tuple[StatusCount, ...]
    oldest_waiting: timedelta | None
    wait: Latency
    run: Latency
    traffic: tuple[Traffic, ...]

    def count(self, status: JobStatus) -> int:
        """How many jobs have this status."""
        return sum(each.count for each in self.counts if each.status is status)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """How the queue is doing."""

    total: TopicStats
    topics: tuple[TopicStats, ...]
    taken_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """A connected worker."""

    id: str
    host: str
    version: str
    topics: tuple[str, ...]
    capacity: int
    held: int
    connected_at: datetime | None
    last_seen_at: datetime | None
    server_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """A topic in short."""

    name: str
    ready: int
    later: int
    running: int
    workers: int
    free_slots: int
    paused: bool
    oldest_waiting: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorGroup:
    """A set of dead letters with alike errors."""

    topic: str
    summary: str
    count: int
    latest_at: datetime | None
    example_job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """What the server is."""

    version: str
    server_id: str
    started_at: datetime | None
    postgres_version: str
    schema_version: int
    oldest_transaction: timedelta | None
    default_lease: timedelta | None
    # The user that this caller is known as; None where the server has no users.
    user: str | None
