"""Durations as callers give them."""

from datetime import timedelta
from typing import TypeAlias

from pulse._errors import InvalidArgument

# A number is seconds.
Seconds: TypeAlias = timedelta | float


def to_timedelta(name: str, value: Seconds) -> timedelta:
    """The duration, or InvalidArgument that names it."""
    if isinstance(value, bool) or not isinstance(value, (timedelta, int, float)):
        raise InvalidArgument(f"{name}: {value!r} is not a duration; give seconds or a timedelta")
    try:
        duration = value if isinstance(value, timedelta) else timedelta(seconds=value)
    except (OverflowError, ValueError):
        raise InvalidArgument(f"{name}: {value!r} is out of range") from None
    if duration < timedelta(0):
        raise InvalidArgument(f"{name}: {value!r} is negative")
    return duration
