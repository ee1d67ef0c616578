"""When a schedule fires, for people."""

from datetime import datetime
from typing import assert_never
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pulse
from pulse_ui.cron_words import describe_cron
from pulse_ui.formats import absolute, span


def expression(timing: pulse.Timing) -> str:
    """As it was written."""
    match timing:
        case pulse.Cron():
            return timing.expression
        case pulse.Every():
            return f"every {span(timing.interval)}"
        case pulse.At():
            return f"at {absolute(timing.moment)}"
        case _:
            assert_never(timing)


def words(timing: pulse.Timing) -> str | None:
    """A cron expression in plain words; None where there is nothing to add to the expression."""
    return describe_cron(timing.expression) if isinstance(timing, pulse.Cron) else None


def local(moment: datetime, timing: pulse.Timing) -> str:
    """A moment on the clock that the schedule goes by; in UTC where this machine does not know its zone."""
    name = zone(timing) or "UTC"
    try:
        return f"{moment.astimezone(ZoneInfo(name)):%Y-%m-%d %H:%M:%S} {name}"
    except (ZoneInfoNotFoundError, ValueError):
        return absolute(moment)


def zone(timing: pulse.Timing) -> str | None:
    """The time zone, where that matters."""
    return timing.tz if isinstance(timing, pulse.Cron) else None
