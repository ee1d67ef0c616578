"""When a schedule fires: pure functions of a definition and a moment.

A schedule's cursor is its next occurrence. Firing turns a cursor that has passed into the occurrences to make jobs
for, by the misfire policy, and the new cursor.
"""

import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim

from pulse_gen.db.models import MisfirePolicy, Schedule, ScheduleKind

# Up to here an occurrence is late, beyond it is missed.
GRACE = timedelta(minutes=1)
# Nothing fires more than once a second, so no more than these can be late.
MOST_ON_TIME = int(GRACE.total_seconds()) + 1
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
            with suppress(OverflowError):  # the calendar ends with the year 9999
                while True:
                    yield timing.start_at + passed * timing.every
                    passed += 1
        case ScheduleKind.CRON:
            yield from (occurrence for occurrence in _cron(timing, moment, back=False) if occurrence > moment)


def occurrences_until(timing: Timing, moment: datetime) -> Iterator[datetime]:
    """The occurrences not later than `moment`, the latest first, in UTC."""
    match timing.kind:
        case ScheduleKind.AT:
            assert timing.start_at is not None
            if timing.start_at <= moment:
                yield timing.start_at
        case ScheduleKind.EVERY:
            assert timing.start_at is not None
            assert timing.every is not None
            for passed in range((moment - timing.start_at) // timing.every, -1, -1):
                yield timing.start_at + passed * timing.every
        case ScheduleKind.CRON:
            yield from (occurrence for occurrence in _cron(timing, moment, back=True) if occurrence <= moment)


def next_occurrence(timing: Timing, moment: datetime) -> datetime | None:
    """The first occurrence later than `moment`, if there is one."""
    return next(occurrences_after(timing, moment), None)


def plan_firing(timing: Timing, cursor: datetime, now: datetime, policy: MisfirePolicy, limit: int) -> Firing:
    """Which occurrences from `cursor` up to `now` make jobs, and where the cursor goes.

    An occurrence that is late by no more than GRACE is simply fired. Of those beyond, SKIP fires none, ONCE the latest
    unless one that is on time makes up for it, ALL the latest `limit`.
    """
    # Back from now, and no further than a policy can use: after years of absence, nobody walks every second of them.
    latest = islice(occurrences_until(timing, now), limit + MOST_ON_TIME)
    passed = list(takewhile(lambda occurrence: occurrence >= cursor, latest))[::-1]
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


def _cron(timing: Timing, moment: datetime, *, back: bool) -> Iterator[datetime]:
    """The occurrences of a cron expression from about `moment` on, or back from it; the first may be on its wrong side.

    The expression is read on a clock without time zone; what the zone makes of that is settled here, so that it is the
    same wherever the search begins.
    """
    assert timing.cron is not None
    assert timing.timezone is not None
    zone = ZoneInfo(timing.timezone)
    local = moment.astimezone(zone).replace(tzinfo=None, microsecond=0, fold=0)
    # In an hour that the clock shows twice, both of its passes have to be looked at.
    slack = max(_shift(local, zone), timedelta(0))
    origin = local + slack + timedelta(seconds=1) if back else local - slack
    times = CronSim(timing.cron, origin, reverse=back)
    minute, hour = timing.cron.split()[-5:-3]
    if minute.startswith("*") or hour.startswith("*"):
        return _by_elapsed_time(times, zone, back=back)
    return _by_time_of_day(times, zone)


def _by_time_of_day(times: Iterable[datetime], zone: ZoneInfo) -> Iterator[datetime]:
    """Local times in UTC. What the clock skips comes right after the change, what it shows twice comes once."""
    last = None
    for local in times:
        shown = local
        while _shift(shown, zone) < timedelta(0):
            shown = shown.replace(second=0) + timedelta(minutes=1)
        occurrence = shown.replace(tzinfo=zone).astimezone(UTC)
        if occurrence != last:
            yield occurrence
        last = occurrence


def _by_elapsed_time(times: Iterable[datetime], zone: ZoneInfo, *, back: bool) -> Iterator[datetime]:
    """Local times in UTC. What the clock skips does not come, what it shows twice comes twice."""
    other_pass: list[datetime] = []
    for local in times:
        shift = _shift(local, zone)
        if shift < timedelta(0):
            continue
        if not shift:
            yield from other_pass
            other_pass.clear()
        yield local.replace(tzinfo=zone, fold=int(back)).astimezone(UTC)
        if shift:
            other_pass.append(local.replace(tzinfo=zone, fold=int(not back)).astimezone(UTC))
    yield from other_pass


def _shift(local: datetime, zone: ZoneInfo) -> timedelta:
    """How far the clock is set back over a local time that it shows twice; negative where it skips it; else zero."""
    first, second = (local.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    assert first is not None
    assert second is not None
    return first - second
