"""Cron in plain words: what is said is exactly what happens, judged by the library that the server fires by."""

import calendar
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from cronsim import CronSim
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pulse_ui.cron_words import describe_cron

START = datetime(2027, 1, 1, tzinfo=UTC)
COMPARED = 60
MONTHS = list(calendar.month_name)[1:]
WEEKDAYS = list(calendar.day_name)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("0 * * * *", "every hour, on the hour"),
        ("15,45 * * * *", "at minute 15 and 45 of every hour"),
        ("0 9 * * *", "every day at 09:00"),
        ("30 9,18 * * *", "every day at 09:30 and 18:30"),
        ("0 */6 * * *", "every 6 hours, on the hour"),
        ("30 9 * * 1-5", "at 09:30 on Monday to Friday"),
        ("30 9 * * MON,WED", "at 09:30 on Monday and Wednesday"),
        ("0 0 1 * *", "at 00:00 on day 1 of the month"),
        ("0 0 1,15 JAN-MAR *", "at 00:00 on days 1 and 15 of the month in January to March"),
        ("*/10 9-17 * * 1-5", "every 10 minutes from 09:00 to 17:59 on Monday to Friday"),
        ("*/20 * * * * *", "every 20 seconds"),
        ("0 0 3 * * *", "every day at 03:00"),
    ],
)
def test_common_ones_are_said(expression: str, words: str) -> None:
    assert describe_cron(expression) == words


@pytest.mark.parametrize(
    "expression",
    [
        "*/7 * * * *",  # the last step before the hour is shorter
        "0 9 1 * 1",  # either of both
        "0 9 L * *",
        "0 9 * * 5#3",
        "0 9 * * 5L",
        "0 9 LW * *",
        "@daily",
        "nonsense",
        "",
        "61 * * * *",
        "0 9 * *",
    ],
)
def test_what_cannot_be_said_exactly_is_left_unsaid(expression: str) -> None:
    assert describe_cron(expression) is None


def numbers(low: int, high: int, names: list[str]) -> st.SearchStrategy[str]:
    """One value, by number or by name."""
    values = st.integers(low, high).map(str)
    return values | st.sampled_from(names) if names else values


def parts(low: int, high: int, names: list[str]) -> st.SearchStrategy[str]:
    """What may stand between commas."""
    steps = st.integers(1, high).map(str)
    pairs = (
        st.tuples(st.integers(low, high), st.integers(low, high)).map(sorted).map(lambda pair: f"{pair[0]}-{pair[1]}")
    )
    return st.one_of(
        st.just("*"),
        numbers(low, high, names),
        pairs,
        st.builds("{}/{}".format, pairs | st.integers(low, high), steps),
        steps.map(lambda step: f"*/{step}"),
    )


def fields(low: int, high: int, names: list[str] | None = None) -> st.SearchStrategy[str]:
    """A whole field; mostly everything, as people write it."""
    several = st.lists(parts(low, high, names or []), min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), parts(low, high, names or []), several)


EXPRESSIONS = st.tuples(
    fields(0, 59),
    fields(0, 23),
    fields(1, 28),
    fields(1, 12, [name[:3].upper() for name in MONTHS]),
    fields(0, 7, [name[:3] for name in WEEKDAYS]),
).map(" ".join)


@given(EXPRESSIONS)
@settings(max_examples=400, deadline=None)
def test_words_say_when_it_fires(expression: str) -> None:
    words = describe_cron(expression)
    assume(words is not None)
    assert words is not None
    fires = islice(CronSim(expression, START), COMPARED)
    assert list(fires) == list(islice(said(words), COMPARED)), words


def said(words: str) -> Iterator[datetime]:
    """The moments that a reader of the words would expect after the start."""
    words, months = split(words, rf" in ((?:{'|'.join(MONTHS)}).*)$")
    words, days = split(words, r" on days? (.+) of the month$")
    words, weekdays = split(words, rf" on ((?:{'|'.join(WEEKDAYS)}).*)$")
    times = said_times(words.removeprefix("every day "))
    day = START
    while True:
        fits = (
            (months is None or MONTHS[day.month - 1] in listed(months, MONTHS))
            and (days is None or str(day.day) in listed(days, [str(each) for each in range(32)]))
            and (weekdays is None or WEEKDAYS[day.weekday()] in listed(weekdays, WEEKDAYS))
        )
        yield from (day + time for time in times if fits and day + time > START)
        day += timedelta(days=1)


def split(words: str, pattern: str) -> tuple[str, str | None]:
    """The words without their end, and what the end says."""
    found = re.search(pattern, words)
    return (words[: found.start()], found[1]) if found else (words, None)


def listed(text: str, order: list[str]) -> list[str]:
    """`1, 3 to 5 and 9`, taken apart."""
    found = []
    for part in re.split(r", | and ", text):
        first, _, last = part.partition(" to ")
        found += order[order.index(first) : order.index(last or first) + 1]
    return found


def said_times(words: str) -> list[timedelta]:
    """The times of a day."""
    words, hours = split(words, r" from (\d\d:00 to \d\d:59)$")
    first, last = (int(hour[:2]) for hour in hours.split(" to ")) if hours else (0, 23)
    if found := re.fullmatch(r"every (\d+) hours(?:, on the hour| at minute (\d+))", words):
        return [timedelta(hours=hour, minutes=int(found[2] or 0)) for hour in range(0, 24, int(found[1]))]
    if re.fullmatch(r"at \d\d:\d\d.*", words):
        return [timedelta(hours=int(time[:2]), minutes=int(time[3:])) for time in re.split(r", | and ", words[3:])]
    if found := re.fullmatch(r"at minute (.+) of every hour", words):
        minutes = [int(minute) for minute in re.split(r", | and ", found[1])]
    elif found := re.fullmatch(r"every (\d+) minutes", words):
        minutes = list(range(0, 60, int(found[1])))
    else:
        minutes = {"every minute": list(range(60)), "every hour, on the hour": [0]}[words]
    return [timedelta(hours=hour, minutes=minute) for hour in range(first, last + 1) for minute in minutes]
