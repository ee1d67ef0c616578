"""Schedules as people keep them: create, change, pause, trigger, delete."""

import json
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypedDict, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import asyncpg
from cronsim import CronSim, CronSimError

from pulse_gen.db.models import BackoffKind, MisfirePolicy, Schedule, ScheduleKind
from pulse_gen.db.schedules import AsyncQuerier
from pulse_gen.rpc.pulse.v1 import MisfirePolicy as WireMisfirePolicy
from pulse_gen.rpc.pulse.v1 import ScheduleDefinition
from pulsed.clock import Clock
from pulsed.database import Connection, Database
from pulsed.dispatcher import Dispatcher
from pulsed.errors import AlreadyExists, InvalidArgument, NotFound
from pulsed.occurrences import GRACE, Timing, next_occurrence, timing_of
from pulsed.storing import Submitted, store_jobs
from pulsed.submission import JobPolicy, NewJob, read_policy, write_extra
from pulsed.traffic import Traffic
from pulsed.validation import (
    LONGEST,
    check_content_type,
    check_count,
    check_duration,
    check_moment,
    check_payload,
    check_text,
    check_topic,
)

MISFIRE_POLICIES = {
    WireMisfirePolicy.UNSPECIFIED: MisfirePolicy.ONCE,
    WireMisfirePolicy.SKIP: MisfirePolicy.SKIP,
    WireMisfirePolicy.ONCE: MisfirePolicy.ONCE,
    WireMisfirePolicy.ALL: MisfirePolicy.ALL,
}


class ScheduleColumns(TypedDict):
    """What the insert and the update of a schedule take."""

    name: str
    topic: str
    payload: bytes
    content_type: str
    kind: ScheduleKind
    start_at: datetime | None
    every: timedelta | None
    cron: str | None
    timezone: str | None
    misfire_policy: MisfirePolicy
    misfire_limit: int
    next_run_at: datetime | None
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
    metadata: str | None


class Definition(NamedTuple):
    """A definition, checked: what to submit, and when."""

    name: str
    topic: str
    payload: bytes
    content_type: str
    policy: JobPolicy
    timing: Timing
    misfire_policy: MisfirePolicy
    misfire_limit: int

    def columns(self, next_run_at: datetime | None) -> ScheduleColumns:
        """The columns of the table that follow from it."""
        policy, timing = self.policy, self.timing
        return {
            "name": self.name,
            "topic": self.topic,
            "payload": self.payload,
            "content_type": self.content_type,
            "kind": timing.kind,
            "start_at": timing.start_at,
            "every": timing.every,
            "cron": timing.cron,
            "timezone": timing.timezone,
            "misfire_policy": self.misfire_policy,
            "misfire_limit": self.misfire_limit,
            "next_run_at": next_run_at,
            "priority": policy.priority,
            "max_attempts": policy.max_attempts,
            "backoff_kind": policy.backoff_kind,
            "backoff_base": policy.backoff_base,
            "backoff_cap": policy.backoff_cap,
            "backoff_jitter": policy.backoff_jitter,
            "timeout": policy.timeout,
            "lease": policy.lease,
            "unique_key": policy.unique_key,
            "unique_period": policy.unique_period,
            "tags": policy.tags,
            "metadata": json.dumps(policy.metadata) if policy.metadata else None,
        }


def read_definition(field: str, definition: ScheduleDefinition | None, *, max_payload: int) -> Definition:
    """The definition in a request."""
    if definition is None:
        raise InvalidArgument(field, "is missing")
    content_type = check_content_type(f"{field}.content_type", definition.content_type)
    if definition.misfire_policy not in MISFIRE_POLICIES:
        raise InvalidArgument(f"{field}.misfire_policy", f"{int(definition.misfire_policy)} is not a known policy")
    return Definition(
        check_text(f"{field}.name", definition.name, longest=255, shortest=1),
        check_topic(f"{field}.topic", definition.topic),
        check_payload(f"{field}.payload", definition.payload, content_type, longest=max_payload),
        content_type,
        read_policy(f"{field}.options", definition.options),
        _read_timing(field, definition),
        MISFIRE_POLICIES[definition.misfire_policy],
        check_count(f"{field}.misfire_limit", definition.misfire_limit, most=1000, default=100),
    )


def _read_timing(field: str, definition: ScheduleDefinition) -> Timing:
    if definition.at is not None:
        return Timing(ScheduleKind.AT, check_moment(f"{field}.at", definition.at), None, None, None)
    if definition.every is not None:
        interval = check_duration(
            f"{field}.every.interval",
            definition.every.interval,
            longest=LONGEST,
            shortest=timedelta(seconds=1),
        )
        if interval is None:
            raise InvalidArgument(f"{field}.every.interval", "is missing")
        start = check_moment(f"{field}.every.start", definition.every.start)
        return Timing(ScheduleKind.EVERY, start, interval, None, None)
    if definition.cron is not None:
        zone = definition.cron.timezone or "UTC"
        check_text(f"{field}.cron.timezone", zone, longest=255)
        expression = check_text(f"{field}.cron.expression", definition.cron.expression, longest=255, shortest=1)
        _check_cron(field, expression, zone)
        return Timing(ScheduleKind.CRON, None, None, expression, zone)
    raise InvalidArgument(f"{field}.timing", "is missing: set at, every or cron")


def _check_cron(field: str, expression: str, zone: str) -> None:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidArgument(
            f"{field}.cron.timezone", f"{zone!r} is not a known time zone such as Europe/Berlin"
        ) from None
    try:
        # The calendar repeats itself after 28 years; the search ends after fifty.
        first = next(CronSim(expression, datetime(2000, 1, 1)), None)  # noqa: DTZ001
    except CronSimError as error:
        raise InvalidArgument(f"{field}.cron.expression", f"{expression!r} is not a cron expression: {error}") from None
    if first is None:
        raise InvalidArgument(f"{field}.cron.expression", f"{expression!r} never comes")


def job_of_schedule(schedule: Schedule, job_id: uuid.UUID, occurrence: datetime | None) -> NewJob:
    """The job that a schedule makes for an occurrence, or for somebody who wants one now."""
    policy = JobPolicy(
        schedule.priority,
        schedule.max_attempts,
        schedule.backoff_kind,
        schedule.backoff_base,
        schedule.backoff_cap,
        schedule.backoff_jitter,
        schedule.timeout,
        schedule.lease,
        schedule.unique_key,
        schedule.unique_period,
        schedule.tags,
        json.loads(schedule.metadata) if schedule.metadata else None,
    )
    more: dict[str, str | float] = {"schedule_id": str(schedule.id)}
    if occurrence is not None:
        more["scheduled_for"] = occurrence.timestamp()
    return NewJob(
        job_id,
        schedule.topic,
        schedule.payload,
        schedule.content_type,
        schedule.priority,
        schedule.max_attempts,
        None,
        None,
        write_extra(policy, **more),
        schedule.unique_key,
    )


class Schedules:
    """The schedules of the queue."""

    def __init__(self, database: Database, clock: Clock, dispatcher: Dispatcher, traffic: Traffic) -> None:
        self._database = database
        self._clock = clock
        self._dispatcher = dispatcher
        self._traffic = traffic

    async def create(self, schedule_id: uuid.UUID, definition: Definition) -> Schedule:
        """Stores a schedule; the same again answers with what is there."""
        async with self._database.operator.transaction() as connection:
            querier = AsyncQuerier(connection)
            begun, next_run_at = await self._first_run(connection, definition)
            columns = begun.columns(next_run_at)
            schedule = await querier.schedule_insert(id=schedule_id, now=self._clock.now(), **columns)
            if schedule is None:
                schedule = await querier.schedule_get(id=schedule_id)
                if schedule is None:
                    raise AlreadyExists(f"definition.name: {definition.name!r} is taken")
                if not _same(schedule, definition):
                    raise AlreadyExists(f"schedule_id: {schedule_id} names another schedule already")
        self._dispatcher.probe_soon()
        return schedule

    async def update(self, schedule_id: uuid.UUID, definition: Definition) -> Schedule:
        """Replaces the definition; the next occurrence is counted from now."""
        try:
            async with self._database.operator.transaction() as connection:
                begun, next_run_at = await self._first_run(connection, definition)
                if begun.timing.kind is ScheduleKind.AT:
                    # A moment that is over may have fired long ago; one that is just over has its job, or gets it now.
                    next_run_at = next_occurrence(begun.timing, await self._now(connection) - GRACE)
                columns = begun.columns(next_run_at)
                schedule = await AsyncQuerier(connection).schedule_update(
                    id=schedule_id, now=self._clock.now(), **columns
                )
        except asyncpg.UniqueViolationError:
            raise AlreadyExists(f"definition.name: {definition.name!r} is taken") from None
        self._dispatcher.probe_soon()
        return _found(schedule, schedule_id)

    async def get(self, schedule_id: uuid.UUID) -> Schedule:
        """One schedule."""
        async with self._database.operator.connection() as connection:
            return _found(await AsyncQuerier(connection).schedule_get(id=schedule_id), schedule_id)

    async def list(self, topic: str | None, after: str, limit: int) -> Sequence[Schedule]:
        """Schedules in the order of their names."""
        async with self._database.operator.connection() as connection:
            return await AsyncQuerier(connection).schedule_list(topic=topic, after=after, max_rows=limit)

    async def pause(self, schedule_id: uuid.UUID) -> None:
        """Stops it from firing."""
        async with self._database.operator.connection() as connection:
            changed = await AsyncQuerier(connection).schedule_pause(id=schedule_id, now=self._clock.now())
        _found(changed or None, schedule_id)

    async def resume(self, schedule_id: uuid.UUID) -> datetime | None:
        """Lets it fire again from its next occurrence after now, and says when that is."""
        async with self._database.operator.transaction() as connection:
            querier = AsyncQuerier(connection)
            schedule = _found(await querier.schedule_lock(id=schedule_id), schedule_id)
            now = await self._now(connection)
            cursor = schedule.next_run_at
            if schedule.paused or cursor is None:
                cursor = next_occurrence(timing_of(schedule), now)
            await querier.schedule_resume(id=schedule_id, next_run_at=cursor, now=self._clock.now())
        self._dispatcher.probe_soon()
        return cursor

    async def trigger(self, schedule_id: uuid.UUID, job_id: uuid.UUID) -> Submitted:
        """Makes one job now, beside the occurrences."""
        async with self._database.operator.transaction() as connection:
            querier = AsyncQuerier(connection)
            schedule = _found(await querier.schedule_lock(id=schedule_id), schedule_id)
            job = job_of_schedule(schedule, job_id, None)
            (result,) = await store_jobs(connection, [job], self._clock)
            if isinstance(result, AlreadyExists):
                raise result
        if not result.existing:
            self._traffic.submitted(schedule.topic, 1)
            self._dispatcher.ready([schedule.topic])
        return result

    async def delete(self, schedule_id: uuid.UUID) -> None:
        """Removes it; its jobs stay."""
        async with self._database.operator.connection() as connection:
            deleted = await AsyncQuerier(connection).schedule_delete(id=schedule_id)
        _found(deleted or None, schedule_id)

    async def fires(self, schedule_id: uuid.UUID, before: int, limit: int) -> Sequence[uuid.UUID]:
        """The ids of the jobs that it made, the latest first."""
        async with self._database.operator.connection() as connection:
            rows = await AsyncQuerier(connection).schedule_fires(schedule_id=schedule_id, before=before, max_rows=limit)
        return [row.id for row in rows]

    async def _first_run(self, connection: Connection, definition: Definition) -> tuple[Definition, datetime | None]:
        """The first occurrence of a new definition; a rhythm without a start begins one interval from now."""
        now = await self._now(connection)
        timing = definition.timing
        if timing.kind is ScheduleKind.AT:
            return definition, timing.start_at
        if timing.every is not None and timing.start_at is None:
            timing = timing._replace(start_at=now + timing.every)
        return definition._replace(timing=timing), next_occurrence(timing, now)

    async def _now(self, connection: Connection) -> datetime:
        now = await AsyncQuerier(connection).database_now(now=self._clock.now())
        assert now is not None
        return now


Found = TypeVar("Found")


def _found(value: Found | None, schedule_id: uuid.UUID) -> Found:
    if value is None:
        raise NotFound(f"there is no schedule {schedule_id}")
    return value


def _same(schedule: Schedule, definition: Definition) -> bool:
    """Whether a stored schedule has this definition. Its own start is kept where the definition named none."""
    stored = schedule._asdict()
    wanted: dict[str, object] = {**definition.columns(None)}
    wanted["metadata"] = definition.policy.metadata
    stored["metadata"] = json.loads(schedule.metadata) if schedule.metadata else None
    own_start = definition.timing.kind is ScheduleKind.EVERY and definition.timing.start_at is None
    ignored = {"next_run_at", "start_at"} if own_start else {"next_run_at"}
    return all(stored[name] == value for name, value in wanted.items() if name not in ignored)
