"""The one clock is the database's. Tests can put a virtual one in its place."""

from datetime import datetime


class Clock:
    """What queries get as `now`: nothing, so that the database's own clock rules."""

    def now(self) -> datetime | None:
        """None in production; a moment in tests that own the time."""
        return None
