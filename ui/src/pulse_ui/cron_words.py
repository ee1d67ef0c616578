"""Cron expressions in plain words, where they can be said exactly; None where they can't."""

import re
from collections.abc import Callable

MINUTES = range(60)
HOURS = range(24)
DAYS = range(1, 32)
MONTHS = range(1, 13)
# Sunday is 0, and 7 as well.
WEEKDAYS = range(8)

MONTH_NAMES = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
               "November", "December")  # fmt: skip
WEEKDAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MOST_TIMES = 4


def describe_cron(expression: str) -> str | None:
    """`every day at 09:00`, `every 5 minutes`, `at 18:30 on Monday to Friday`."""
    fields = expression.upper().split()
    if len(fields) == 6:
        return _describe_seconds(fields)
    if len(fields) != 5:
        return None
    when = _describe_time(fields[0], fields[1])
    days = _describe_days(fields[2], fields[4])
    months = _describe_months(fields[3])
    if when is None or days is None or months is None:
        return None
    if not days and not months and when.startswith("at ") and "minute" not in when:
        return f"every day {when}"
    return "".join((when, days, months))


def _describe_seconds(fields: list[str]) -> str | None:
    """With seconds in front: their own rhythm, or the minute's where they are zero."""
    if fields[0] == "0":
        return describe_cron(" ".join(fields[1:]))
    if fields[1:] != ["*"] * 5:
        return None
    if fields[0] == "*":
        return "every second"
    step = _step(fields[0], 60)
    return f"every {step} seconds" if step else None


def _describe_time(minute: str, hour: str) -> str | None:
    minutes, hours = _values(minute, MINUTES), _values(hour, HOURS)
    if minutes is None or hours is None:
        return None
    if hour == "*":
        return _describe_minutes(minute, minutes)
    if len(minutes) == 1 and (step := _step(hour, 24)):
        return f"every {step} hours at minute {minutes[0]}" if minutes[0] else f"every {step} hours, on the hour"
    if len(minutes) * len(hours) <= MOST_TIMES:
        return f"at {_listed([f'{each:02}:{part:02}' for each in hours for part in minutes])}"
    if hours != list(range(hours[0], hours[-1] + 1)):
        return None
    rhythm = _describe_minutes(minute, minutes)
    return None if rhythm is None else f"{rhythm} from {hours[0]:02}:00 to {hours[-1]:02}:59"


def _describe_minutes(minute: str, minutes: list[int]) -> str | None:
    """Within every hour."""
    if minute == "*":
        return "every minute"
    if step := _step(minute, 60):
        return f"every {step} minutes"
    if minutes == [0]:
        return "every hour, on the hour"
    if len(minutes) <= MOST_TIMES:
        return f"at minute {_listed([str(each) for each in minutes])} of every hour"
    return None


def _describe_days(day: str, weekday: str) -> str | None:
    """Empty for every day. Days of both kinds at once mean either of them, which few expect: left unsaid."""
    if day == "*" and weekday == "*":
        return ""
    if weekday == "*":
        days = _values(day, DAYS)
        return None if days is None else f" on {_ranges(days, str, 'day', 'days')} of the month"
    weekdays = _values(weekday, WEEKDAYS, WEEKDAY_NAMES)
    if day != "*" or weekdays is None:
        return None
    # The week begins with Monday for people, and with Sunday for cron.
    ordered = sorted(weekdays, key=lambda each: (each - 1) % 7)
    return f" on {_ranges([(each - 1) % 7 for each in ordered], lambda each: WEEKDAY_NAMES[(each + 1) % 7])}"


def _describe_months(month: str) -> str | None:
    if month == "*":
        return ""
    months = _values(month, MONTHS, MONTH_NAMES)
    return None if months is None else f" in {_ranges(months, lambda each: MONTH_NAMES[each - 1])}"


def _step(field: str, size: int) -> int | None:
    """The n of `*/n` where it divides the whole evenly: `*/7` is not every seven minutes."""
    match = re.fullmatch(r"\*/(\d{1,2})", field)
    step = int(match[1]) if match else 0
    return step if step > 1 and size % step == 0 else None


def _values(field: str, bounds: range, names: tuple[str, ...] = ()) -> list[int] | None:
    """The values that a field stands for, in order; None if it says something that has no list."""
    found: set[int] = set()
    for part in field.split(","):
        body, _, step = part.partition("/")
        if step and not re.fullmatch(r"[1-9]\d?", step):
            return None
        first, dash, last = body.partition("-")
        if body == "*":
            low, high = bounds[0], bounds[-1]
        else:
            low_read = _value(first, bounds, names)
            high_read = _value(last, bounds, names) if dash else low_read
            if low_read is None or high_read is None or high_read < low_read:
                return None
            # With a step, one value goes on to the end: `5/10` is 5, 15, 25 and so on.
            low, high = low_read, bounds[-1] if step and high_read == low_read else high_read
        found.update(range(low, high + 1, int(step or 1)))
    return sorted({each % 7 for each in found} if bounds is WEEKDAYS else found)


def _value(text: str, bounds: range, names: tuple[str, ...]) -> int | None:
    for place, name in enumerate(names):
        if text == name[:3].upper():
            return bounds[0] + place
    if not re.fullmatch(r"\d{1,2}", text):
        return None
    value = int(text)
    return value if value in bounds else None


def _ranges(values: list[int], name: Callable[[int], str], one: str = "", many: str = "") -> str:
    """`Monday to Friday`, `days 1 and 15`."""
    groups: list[list[int]] = []
    for value in values:
        if groups and value == groups[-1][-1] + 1:
            groups[-1].append(value)
        else:
            groups.append([value])
    texts = []
    for group in groups:
        texts += [f"{name(group[0])} to {name(group[-1])}"] if len(group) > 2 else [name(each) for each in group]
    noun = one if len(values) == 1 else many
    return f"{noun} {_listed(texts)}".strip()


def _listed(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
