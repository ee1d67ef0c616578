"""When a schedule fires."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from pulse._durations import Seconds, to_timedelta
from pulse._errors import InvalidArgument
from pulse._options import check_moment
from pulse_gen.rpc.pulse import v1 as wire


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression of five fields, or six with seconds in front, read in an IANA time zone."""

    expression: str
    tz: str = "UTC"


@dataclass(frozen=True, slots=True)
class Every:
    """A rhythm: `start`, `start + interval` and so on; without a start, one interval after it is stored."""

    interval: Seconds
    start: datetime | None = None


@dataclass(frozen=True, slots=True)
class At:
    """Once, at a moment that has a time zone."""

    moment: datetime


Timing: TypeAlias = Cron | Every | At


def write_timing(definition: wire.ScheduleDefinition, timing: Timing) -> None:
    """Set the timing of a definition."""
    match timing:
        case Cron(expression, tz):
            definition.cron = wire.Cron(expression=expression, timezone=tz)
        case Every(interval, start):
            if start is not None:
                check_moment("start", start)
            definition.every = wire.Every(interval=to_timedelta("interval", interval), start=start)
        case At(moment):
            definition.at = check_moment("at", moment)
        case _:
            raise InvalidArgument(f"{timing!r} is not a timing: use pulse.Cron, pulse.Every or pulse.At")


def read_timing(definition: wire.ScheduleDefinition) -> Timing:
    """The timing in an answer."""
    if definition.cron is not None:
        return Cron(definition.cron.expression, definition.cron.timezone or "UTC")
    if definition.every is not None:
        assert definition.every.interval is not None
        return Every(definition.every.interval, definition.every.start)
    assert definition.at is not None
    return At(definition.at)
