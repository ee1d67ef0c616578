"""When schedules fire, as tables: rhythms, cron, clock changes, misfires."""

import uuid
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulse_gen.db.models import MisfirePolicy, ScheduleKind
from pulsed.occurrences import (
    Firing,
    Timing,
    next_occurrence,
    occurrence_id,
    occurrences_after,
    occurrences_until,
    plan_firing,
)

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
SKIP, ONCE, ALL = MisfirePolicy.SKIP, MisfirePolicy.ONCE, MisfirePolicy.ALL


def at(moment: datetime) -> Timing:
    return Timing(ScheduleKind.AT, moment, None, None, None)


def every(interval: timedelta, start: datetime = NOON) -> Timing:
    return Timing(ScheduleKind.EVERY, start, interval, None, None)


def cron(expression: str, zone: str = "UTC") -> Timing:
    return Timing(ScheduleKind.CRON, None, None, expression, zone)


def utc(text: str) -> datetime:
    """A moment such as `2026-03-29 01:30` in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def local_times(timing: Timing, after: datetime, before: datetime) -> list[str]:
    """The occurrences between two moments as the zone's clock shows them, with its offset."""
    zone = ZoneInfo(timing.timezone or "UTC")
    found = takewhile(lambda occurrence: occurrence < before, occurrences_after(timing, after))
    return [f"{occurrence.astimezone(zone):%d %H:%M:%S %z}" for occurrence in found]


# Rhythms.


def test_a_moment_occurs_once() -> None:
    assert next_occurrence(at(NOON), NOON - timedelta(microseconds=1)) == NOON
    assert next_occurrence(at(NOON), NOON) is None
    assert list(occurrences_until(at(NOON), NOON)) == [NOON]
    assert list(occurrences_until(at(NOON), NOON - SECOND)) == []


@pytest.mark.parametrize(
    ("interval", "after", "expected"),
    [
        (MINUTE, NOON - timedelta(days=2), NOON),
        (MINUTE, NOON - SECOND, NOON),
        (MINUTE, NOON, NOON + MINUTE),
        (MINUTE, NOON + 59 * SECOND, NOON + MINUTE),
        (timedelta(seconds=1.5), NOON + SECOND, NOON + timedelta(seconds=1.5)),
        (timedelta(days=366), NOON + timedelta(days=3660), NOON + timedelta(days=366 * 11)),
        (SECOND, NOON + timedelta(days=36500, microseconds=1), NOON + timedelta(days=36500, seconds=1)),
    ],
)
def test_a_rhythm_goes_on_from_its_start_through_any_gap(
    interval: timedelta, after: datetime, expected: datetime
) -> None:
    assert next_occurrence(every(interval), after) == expected


def test_a_rhythm_does_not_reach_back_before_its_start() -> None:
    assert list(occurrences_until(every(MINUTE), NOON + 2 * MINUTE)) == [NOON + 2 * MINUTE, NOON + MINUTE, NOON]
    assert list(occurrences_until(every(MINUTE), NOON - SECOND)) == []


def test_a_rhythm_ends_with_the_calendar() -> None:
    last = datetime(9999, 12, 31, tzinfo=UTC)
    assert list(occurrences_after(every(timedelta(days=366), last), NOON)) == [last]


# Cron.


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        ("* * * * *", "2026-01-05 12:00", ["2026-01-05 12:01", "2026-01-05 12:02"]),
        ("* * * * *", "2026-01-05 12:00:00.5", ["2026-01-05 12:01", "2026-01-05 12:02"]),
        ("*/20 8-9 * * *", "2026-01-05 08:30", ["2026-01-05 08:40", "2026-01-05 09:00", "2026-01-05 09:20"]),
        ("0 9 * * MON-FRI", "2026-01-09 09:00", ["2026-01-12 09:00"]),
        ("0 9 * * 7", "2026-01-05 00:00", ["2026-01-11 09:00"]),
        ("0 0 13 * FRI", "2026-02-12 12:00", ["2026-02-13 00:00", "2026-02-20 00:00"]),
        ("0 0 L * *", "2026-02-01 00:00", ["2026-02-28 00:00", "2026-03-31 00:00"]),
        ("0 0 29 2 *", "2026-01-05 00:00", ["2028-02-29 00:00", "2032-02-29 00:00"]),
        ("0 0 * 2 MON#5", "2026-01-05 00:00", ["2044-02-29 00:00"]),
        ("*/30 * * * * *", "2026-01-05 12:00", ["2026-01-05 12:00:30", "2026-01-05 12:01:00"]),
        ("15 30 9 * * *", "2026-01-05 12:00", ["2026-01-06 09:30:15"]),
    ],
)
def test_cron_expressions(expression: str, after: str, expected: list[str]) -> None:
    found = islice(occurrences_after(cron(expression), utc(after)), len(expected))
    assert list(found) == [utc(moment) for moment in expected]


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("Europe/Berlin", "2026-01-06 08:00"),
        ("America/New_York", "2026-01-05 14:00"),
        ("Asia/Kolkata", "2026-01-06 03:30"),
        ("Australia/Lord_Howe", "2026-01-05 22:00"),
    ],
)
def test_cron_is_read_in_its_zone(zone: str, expected: str) -> None:
    assert next_occurrence(cron("0 9 * * *", zone), NOON) == utc(expected)


# Europe/Berlin: 2026-03-29 02:00 becomes 03:00, 2026-10-25 03:00 becomes 02:00.
# America/New_York: 2026-03-08 02:00 becomes 03:00, 2026-11-01 02:00 becomes 01:00.
# Australia/Lord_Howe: 2026-10-04 02:00 becomes 02:30, 2026-04-05 02:00 becomes 01:30.
@pytest.mark.parametrize(
    ("expression", "zone", "day", "expected"),
    [
        # Spring, at a time of day: what is skipped comes right after the change, once.
        ("30 2 * * *", "Europe/Berlin", "2026-03-29", ["29 03:00:00 +0200"]),
        ("0 30 2 * * *", "Europe/Berlin", "2026-03-29", ["29 03:00:00 +0200"]),
        ("15 0,30 2 * * *", "Europe/Berlin", "2026-03-29", ["29 03:00:00 +0200"]),
        ("0,15,30 2,3 * * *", "Europe/Berlin", "2026-03-29", [f"29 03:{m}:00 +0200" for m in ("00", "15", "30")]),
        ("30 2 * * *", "America/New_York", "2026-03-08", ["08 03:00:00 -0400"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-04", ["04 02:30:00 +1100"]),
        ("45 2 * * *", "Australia/Lord_Howe", "2026-10-04", ["04 02:45:00 +1100"]),
        # Spring, by elapsed time: what is skipped does not come.
        ("*/30 1-3 * * *", "Europe/Berlin", "2026-03-29",
         ["29 01:00:00 +0100", "29 01:30:00 +0100", "29 03:00:00 +0200", "29 03:30:00 +0200"]),
        ("30 */2 * * *", "America/New_York", "2026-03-08",
         ["08 00:30:00 -0500", *(f"08 {hour:02}:30:00 -0400" for hour in range(4, 24, 2))]),
        ("*/15 3 * * *", "Australia/Lord_Howe", "2026-10-04",
         [f"04 03:{m}:00 +1100" for m in ("00", "15", "30", "45")]),
        # Autumn, at a time of day: what is shown twice comes the first time.
        ("30 2 * * *", "Europe/Berlin", "2026-10-25", ["25 02:30:00 +0200"]),
        ("0 30 2 * * *", "Europe/Berlin", "2026-10-25", ["25 02:30:00 +0200"]),
        ("30 1-3 * * *", "Europe/Berlin", "2026-10-25",
         ["25 01:30:00 +0200", "25 02:30:00 +0200", "25 03:30:00 +0100"]),
        ("30 1 * * *", "America/New_York", "2026-11-01", ["01 01:30:00 -0400"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-05", ["05 01:45:00 +1100"]),
        # Autumn, by elapsed time: what is shown twice comes twice.
        ("*/30 2 * * *", "Europe/Berlin", "2026-10-25",
         ["25 02:00:00 +0200", "25 02:30:00 +0200", "25 02:00:00 +0100", "25 02:30:00 +0100"]),
        ("*/15 1 * * *", "Australia/Lord_Howe", "2026-04-05",
         [*(f"05 01:{m}:00 +1100" for m in ("00", "15", "30", "45")), "05 01:30:00 +1030", "05 01:45:00 +1030"]),
        ("*/15 2 * * *", "Australia/Lord_Howe", "2026-04-05",
         [f"05 02:{m}:00 +1030" for m in ("00", "15", "30", "45")]),
    ],
)  # fmt: skip
def test_clock_changes(expression: str, zone: str, day: str, expected: list[str]) -> None:
    start = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone))
    end = (start + timedelta(days=1)).astimezone(UTC)
    assert local_times(cron(expression, zone), start.astimezone(UTC) - SECOND, end) == expected


def test_an_hourly_job_runs_every_hour_of_the_year_in_any_zone() -> None:
    for zone in ("Europe/Berlin", "America/New_York", "Asia/Kolkata"):
        found = islice(occurrences_after(cron("30 * * * *", zone), utc("2026-01-01 00:00")), 365 * 24)
        assert all(later - earlier == timedelta(hours=1) for earlier, later in pairwise(found))


def test_what_came_in_the_first_pass_of_a_repeated_hour_is_not_seen_again_in_the_second() -> None:
    second_pass = utc("2026-10-25 01:15")  # 02:15 for the second time
    assert next_occurrence(cron("30 2 * * *", "Europe/Berlin"), second_pass) == utc("2026-10-26 01:30")
    assert next(occurrences_until(cron("30 2 * * *", "Europe/Berlin"), second_pass)) == utc("2026-10-25 00:30")


ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"])
FIELDS = st.tuples(
    st.sampled_from(["*", "*/7", "0", "15,45", "30", "10-20/5"]),
    st.sampled_from(["*", "*/2", "1-3", "2", "1", "0", "3,22"]),
    st.sampled_from(["*", "1", "L", "29", "*/5", "LW"]),
    st.sampled_from(["*", "3,10", "4,10,11", "2"]),
    st.sampled_from(["*", "0", "MON-FRI", "SUN#1", "5L"]),
)
CRONS = st.builds(
    lambda fields, seconds, zone: cron(seconds + " ".join(fields), zone),
    FIELDS,
    st.sampled_from(["", "", "0 ", "20 ", "*/25 "]),
    ZONES,
)
# Around the clock changes of 2026, and anywhere else.
CHANGES = ["2026-03-08 07:00", "2026-03-29 01:00", "2026-04-04 15:00", "2026-10-03 15:30", "2026-10-25 01:00",
           "2026-11-01 06:00"]  # fmt: skip
MOMENTS = st.builds(
    lambda change, offset: utc(change) + timedelta(seconds=offset),
    st.sampled_from(CHANGES),
    st.integers(-10_000, 10_000) | st.integers(-10_000_000, 10_000_000),
)


@settings(derandomize=True, deadline=None, max_examples=400)
@given(timing=CRONS, moment=MOMENTS, step=st.integers(0, 20_000))
def test_cron_is_the_same_wherever_the_search_begins(timing: Timing, moment: datetime, step: int) -> None:
    later = moment + timedelta(seconds=step)
    forward = list(takewhile(lambda found: found <= later, occurrences_after(timing, moment)))
    assert forward == sorted(set(forward))
    back = list(takewhile(lambda found: found > moment, occurrences_until(timing, later)))
    assert back[::-1] == forward
    for start in (*forward, moment + timedelta(seconds=step / 2)):
        expected = next((found for found in occurrences_after(timing, moment) if found > start), None)
        assert next_occurrence(timing, start) == expected


def test_an_expression_that_never_comes_ends_the_search() -> None:
    never = cron("0 0 */31 2 SUN#5", "Europe/Berlin")
    assert next_occurrence(never, NOON) is None
    assert list(occurrences_until(never, NOON)) == []
    assert plan_firing(never, NOON, NOON, ALL, 100) == Firing([], None)


# Firing.


@pytest.mark.parametrize("policy", list(MisfirePolicy))
@pytest.mark.parametrize("late", [timedelta(0), SECOND, MINUTE])
def test_an_occurrence_up_to_a_minute_late_is_simply_fired(policy: MisfirePolicy, late: timedelta) -> None:
    rhythm = every(timedelta(minutes=10))
    expected = Firing([NOON], NOON + timedelta(minutes=10))
    assert plan_firing(rhythm, NOON, NOON + late, policy, 100) == expected


HOURS = [NOON + timedelta(hours=hour) for hour in range(6)]


@pytest.mark.parametrize(
    ("policy", "limit", "late", "expected"),
    [
        (SKIP, 100, timedelta(0), HOURS[5:]),
        (SKIP, 100, timedelta(minutes=2), []),
        (ONCE, 100, timedelta(0), HOURS[5:]),
        (ONCE, 100, timedelta(minutes=2), HOURS[5:]),
        (ALL, 100, timedelta(0), HOURS),
        (ALL, 100, timedelta(minutes=2), HOURS),
        (ALL, 2, timedelta(minutes=2), HOURS[4:]),
        (ALL, 1, timedelta(minutes=2), HOURS[5:]),
        (ALL, 2, timedelta(0), HOURS[3:]),  # the limit is for those that were missed
    ],
)
def test_occurrences_missed_in_an_absence_follow_the_policy(
    policy: MisfirePolicy, limit: int, late: timedelta, expected: list[datetime]
) -> None:
    firing = plan_firing(every(timedelta(hours=1)), NOON, HOURS[5] + late, policy, limit)
    assert firing == Firing(expected, HOURS[5] + timedelta(hours=1))


@pytest.mark.parametrize(("policy", "jobs"), [(SKIP, 0), (ONCE, 1), (ALL, 1)])
def test_a_single_moment_that_was_missed_follows_the_policy(policy: MisfirePolicy, jobs: int) -> None:
    for moment in (NOON, datetime.min.replace(tzinfo=UTC)):
        assert plan_firing(at(moment), moment, NOON + timedelta(days=9), policy, 100) == Firing([moment] * jobs, None)


def test_what_passed_before_the_cursor_is_not_fired() -> None:
    firing = plan_firing(every(MINUTE, NOON - timedelta(days=1)), NOON, NOON + 5 * MINUTE, ALL, 100)
    assert firing.occurrences == [NOON + minutes * MINUTE for minutes in range(6)]


@pytest.mark.parametrize("timing", [every(SECOND), cron("* * * * * *"), cron("* * * * * *", "Europe/Berlin")])
@pytest.mark.parametrize(("policy", "jobs"), [(SKIP, 61), (ONCE, 61), (ALL, 1061)])
def test_after_years_of_absence_the_work_is_bounded(timing: Timing, policy: MisfirePolicy, jobs: int) -> None:
    now = NOON + timedelta(days=3650)  # one by one, three hundred million steps
    firing = plan_firing(timing, NOON, now, policy, 1000)
    assert firing == Firing([now - seconds * SECOND for seconds in range(jobs)][::-1], now + SECOND)


TIMINGS = CRONS | st.builds(every, st.timedeltas(SECOND, timedelta(hours=2)), MOMENTS)


@settings(derandomize=True, deadline=None, max_examples=400)
@given(timing=TIMINGS, began=MOMENTS, steps=st.lists(st.integers(1, 60), min_size=1, max_size=8), data=st.data())
def test_firing_in_any_steps_without_a_miss_fires_each_occurrence_once(
    timing: Timing, began: datetime, steps: list[int], data: st.DataObject
) -> None:
    policy = data.draw(st.sampled_from(list(MisfirePolicy)))
    fired: list[datetime] = []
    now, cursor = began, next_occurrence(timing, began)
    for step in steps:
        now += step * SECOND
        if cursor is not None and cursor <= now:
            firing = plan_firing(timing, cursor, now, policy, 100)
            fired += firing.occurrences
            cursor = firing.next_run_at
    assert fired == list(takewhile(lambda found: found <= now, occurrences_after(timing, began)))


# Ids.


def test_the_id_of_an_occurrence_follows_from_schedule_and_moment_alone() -> None:
    schedule = uuid.UUID("018f0000-0000-7000-8000-000000000001")
    # A changed id would fire again what an older server fired: this one is written down.
    assert occurrence_id(schedule, NOON) == uuid.UUID("0cb3e3a6-7d1b-597f-a0ab-530186386e71")
    assert occurrence_id(schedule, NOON.astimezone(ZoneInfo("Asia/Kolkata"))) == occurrence_id(schedule, NOON)
    others = {occurrence_id(schedule, NOON + SECOND), occurrence_id(uuid.uuid4(), NOON), occurrence_id(schedule, NOON)}
    assert len(others) == 3
