"""Times and spans as people read them and as programs read them."""

from datetime import UTC, datetime, timedelta


def iso(moment: datetime | None) -> str | None:
    """For programs: UTC, always with the same letters."""
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def seconds(span: timedelta | float | None) -> float | None:
    """For programs: seconds."""
    return span.total_seconds() if isinstance(span, timedelta) else span


def span(value: timedelta | float | None) -> str:
    """For people: `850ms`, `12s`, `3m 5s`, `2h 10m`, `4d 3h`."""
    if value is None:
        return "-"
    total = value.total_seconds() if isinstance(value, timedelta) else value
    if total < 1:
        return f"{total * 1000:.0f}ms"
    if total < 10:
        return f"{total:.1f}s".replace(".0s", "s")
    parts = []
    left = int(total)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
    return " ".join(parts[:2])


def ago(moment: datetime | None, now: datetime) -> str:
    """For people: how far a moment is from now."""
    if moment is None:
        return "-"
    distance = (now - moment).total_seconds()
    if abs(distance) < 1:
        return "now"
    return f"{span(float(int(distance)))} ago" if distance > 0 else f"in {span(float(int(-distance)))}"


def full(moment: datetime | None, now: datetime) -> str:
    """For people: the moment itself and how far it is."""
    if moment is None:
        return "-"
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC ({ago(moment, now)})"
