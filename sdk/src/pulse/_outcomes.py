"""How a handler says what should become of its job, other than by returning or failing."""

from datetime import datetime, timedelta
from functools import partial
from typing import Any

from pulse._durations import Seconds, to_timedelta


class Outcome(Exception):
    """Raised by a handler to end its attempt in a particular way. Not an error of pulse's."""


class Retry(Outcome):
    """The attempt failed; try again after this wait in place of the job's backoff.

    It spends an attempt like any failure: when none is left, the job goes to the dead letters.
    """

    def __init__(self, reason: str = "", *, after: Seconds) -> None:
        self.reason = reason
        self.after = to_timedelta("after", after)
        super().__init__(reason or f"retry after {self.after.total_seconds():g} s")

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Retry, self.reason, after=self.after), ()


class Snooze(Outcome):
    """Not now: run again later. It spends no attempt. Without a time: at once."""

    def __init__(self, delay: Seconds | None = None, *, until: datetime | None = None) -> None:
        if delay is not None and until is not None:
            raise ValueError("Snooze takes a delay or until=, not both")
        if until is not None and until.tzinfo is None:
            raise ValueError("until= needs a time zone: datetime.now(UTC) + timedelta(...), for instance")
        self.delay: timedelta | None = None if delay is None else to_timedelta("delay", delay)
        self.until = until
        super().__init__("snoozed")

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Snooze, self.delay, until=self.until), ()


class Discard(Outcome):
    """Another try is useless: the job goes to the dead letters at once, with this reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)
