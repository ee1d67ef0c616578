"""Numbers, times and texts as people read them."""

from datetime import UTC, datetime, timedelta

import pulse

UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def number(value: int) -> str:
    """`12,345`."""
    return f"{value:,}"


def capped(count: pulse.JobCount) -> str:
    """`12,345`, or `10,000+` where counting stopped."""
    return f"{count.count:,}+" if count.capped else f"{count.count:,}"


def plural(count: int, noun: str) -> str:
    """`1 job`, `2,000 jobs`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def compact(value: float) -> str:
    """For axes: `950`, `1.2k`, `3.4M`."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:.1f}".removesuffix(".0") + unit
    return f"{value:g}"


def span(value: timedelta | float | None) -> str:
    """`850 ms`, `1.2 s`, `3m 5s`, `2h 10m`, `4d 3h`; a dash for what is not known."""
    if value is None:
        return "–"
    total = value.total_seconds() if isinstance(value, timedelta) else value
    if total < 1:
        return f"{max(total, 0) * 1000:.0f} ms"
    if total < 10:
        return f"{total:.1f}".removesuffix(".0") + " s"
    parts = []
    left = int(total)
    for size, unit in UNITS:
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
    return " ".join(parts[:2])


def relative(moment: datetime, now: datetime) -> str:
    """`12s ago`, `in 3m 5s`, `now`."""
    distance = (now - moment).total_seconds()
    if abs(distance) < 1:
        return "now"
    text = span(float(int(abs(distance)))).replace(" s", "s")
    return f"{text} ago" if distance > 0 else f"in {text}"


def absolute(moment: datetime) -> str:
    """`2026-01-31 09:00:05 UTC`."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def iso(moment: datetime) -> str:
    """For `<time datetime>` and for fields."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def size(count: int) -> str:
    """`12 bytes`, `3.4 KiB`, `1.2 MiB`."""
    if count < 1024:
        return plural(count, "byte")
    return f"{count / 1024:.1f} KiB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MiB"


def last_line(text: str | None) -> str:
    """The line of an error that says most: tracebacks end with it."""
    lines = (text or "").strip().splitlines()
    return lines[-1].strip() if lines else ""


def label(name: str) -> str:
    """A member of an enum in words: `Dead lettered`."""
    return name.replace("_", " ").capitalize()
