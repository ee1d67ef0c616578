"""When a schedule fires: pure functions of a definition and a moment.

A schedule's cursor is its next occurrence. Firing turns a cursor that has passed into the occurrences to make jobs
for, by the misfire policy, and the new cursor.
"""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim

from pulse_gen.db.models import MisfirePolicy, Schedule, ScheduleKind

# Up to here an occurrence is late, beyond it is missed.
GRACE = timedelta(minutes=1)
# Missed occurrences up to here are walked one by one.
MOST_STEPS = 5_000
# The ids of occurrences: uuid5 of this namespace over schedule and moment. If it changed, occurrences would fire twice.
NAMESPACE = uuid.UUID("5f0f6f0e-8f5b-5c1e-9f43-70756c736500")


class Timing(NamedTuple):
    """When a schedule has occurrences."""

    kind: ScheduleKind
    start_at: datetime | None
    every: timedelta | None
    cron: str | None
    timezone: str | None


class Firing(NamedTuple):
    """What to do about a cursor that has passed."""

    occurrences: list[datetime]
    next_run_at: datetime | None


def timing_of(schedule: Schedule) -> Timing:
    """The timing part of a stored schedule."""
    return Timing(schedule.kind, schedule.start_at, schedule.every, schedule.cron, schedule.timezone)


def occurrences_after(timing: Timing, moment: datetime) -> Iterator[datetime]:
    """The occurrences later than `moment`, in order, in UTC."""
    match timing.kind:
        case ScheduleKind.AT:
            assert timing.start_at is not None
            if timing.start_at > moment:
                yield timing.start_at
        case ScheduleKind.EVERY:
            assert timing.start_at is not None
            assert timing.every is not None
            passed = (moment - timing.start_at) // timing.every + 1 if moment >= timing.start_at else 0
            while True:
                yield timing.start_at + passed * timing.every
                passed += 1
        case ScheduleKind.CRON:
            assert timing.cron is not None
            assert timing.timezone is not None
            for local in CronSim(timing.cron, moment.astimezone(ZoneInfo(timing.timezone))):
                yield local.astimezone(UTC)


def next_occurrence(timing: Timing, moment: datetime) -> datetime | None:
    """The first occurrence later than `moment`, if there is one."""
    return next(occurrences_after(timing, moment), None)


def plan_firing(timing: Timing, cursor: datetime, now: datetime, policy: MisfirePolicy, limit: int) -> Firing:
    """Which occurrences from `cursor` up to `now` make jobs, and where the cursor goes.

    An occurrence that is late by no more than GRACE is simply fired. Of those beyond, SKIP fires none, ONCE the latest
    unless one that is on time makes up for it, ALL the latest `limit`.
    """
    passed = _passed(timing, cursor, now, limit)
    missed = [occurrence for occurrence in passed if now - occurrence > GRACE]
    on_time = passed[len(missed) :]
    match policy:
        case MisfirePolicy.SKIP:
            occurrences = on_time
        case MisfirePolicy.ONCE:
            occurrences = on_time or missed[-1:]
        case MisfirePolicy.ALL:
            occurrences = missed[-limit:] + on_time
    return Firing(occurrences, next_occurrence(timing, now))


def occurrence_id(schedule_id: uuid.UUID, occurrence: datetime) -> uuid.UUID:
    """The id of an occurrence's job: the same whoever fires it, so that it can be stored once only."""
    return uuid.uuid5(NAMESPACE, f"{schedule_id}|{occurrence.astimezone(UTC).isoformat()}")


def _passed(timing: Timing, cursor: datetime, now: datetime, limit: int) -> list[datetime]:
    """The occurrences from `cursor` to `now`, oldest first; of very many, the latest that a policy can use.

    After years of absence, nobody walks every second of them: then the way is back from now.
    """
    from_cursor = occurrences_after(timing, cursor - timedelta(microseconds=1))
    forward = list(islice(takewhile(lambda moment: moment <= now, from_cursor), MOST_STEPS))
    if len(forward) < MOST_STEPS:
        return forward
    back = islice(_occurrences_back_from(timing, now), limit + int(GRACE.total_seconds()) + 1)
    return list(takewhile(lambda moment: moment >= cursor, back))[::-1]


def _occurrences_back_from(timing: Timing, moment: datetime) -> Iterator[datetime]:
    """The occurrences not later than `moment`, the latest first; of recurring timings only."""
    if timing.every is not None:
        assert timing.start_at is not None
        latest = timing.start_at + (moment - timing.start_at) // timing.every * timing.every
        while True:
            yield latest
            latest -= timing.every
    assert timing.cron is not None
    assert timing.timezone is not None
    # The search begins below the moment it is given.
    origin = moment.astimezone(ZoneInfo(timing.timezone)).replace(microsecond=0)
    for local in CronSim(timing.cron, origin + timedelta(seconds=1), reverse=True):
        yield local.astimezone(UTC)
