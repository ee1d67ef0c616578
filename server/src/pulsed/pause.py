"""The pause switch: durable in one table, in memory on the hot path.

At the start nothing is known, so the switch is read once or the server refuses to start. Later a value is known, so a
read that fails changes nothing. A pause is written first and takes effect here after the commit; other servers hear of
it by NOTIFY, and by their own refresh within a second.
"""

from collections.abc import Callable, Iterable

from pulse_gen.db.dispatch_control import AsyncQuerier
from pulse_gen.db.models import DispatchControl
from pulsed.clock import Clock
from pulsed.database import Database
from pulsed.errors import NotFound
from pulsed.notifications import Notifier

EVERYTHING = ""


class PauseGate:
    """Which topics may be given out, by the latest word from the database."""

    def __init__(self, database: Database, clock: Clock, notifier: Notifier) -> None:
        self._database = database
        self._clock = clock
        self._notifier = notifier
        self._paused: frozenset[str] = frozenset()
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Calls `listener` whenever the state changed."""
        self._listeners.append(listener)

    def open_topics(self, topics: Iterable[str]) -> list[str]:
        """Those of the topics that are not paused."""
        if EVERYTHING in self._paused:
            return []
        return [topic for topic in topics if topic not in self._paused]

    def is_open(self, topic: str) -> bool:
        """Whether jobs of a topic may be given out."""
        return bool(self.open_topics([topic]))

    async def refresh(self) -> None:
        """Reads the switch. At the start, an error here is a reason not to start."""
        await self.switches()

    async def switches(self) -> list[DispatchControl]:
        """Every switch, read now."""
        async with self._database.work.connection() as connection:
            rows = await AsyncQuerier(connection).dispatch_control_list()
        self._set(frozenset(row.scope for row in rows if row.paused))
        return rows

    async def pause(self, scope: str, reason: str, user: str) -> DispatchControl:
        """Stops a topic, or everything."""
        async with self._database.work.connection() as connection:
            row = await AsyncQuerier(connection).dispatch_control_pause(
                scope=scope, reason=reason, paused_by=user, now=self._clock.now()
            )
        assert row is not None
        self._set(self._paused | {scope})
        self._notifier.control_changed()
        return row

    async def resume(self, scope: str) -> DispatchControl:
        """Lets a topic, or everything, go on."""
        async with self._database.work.connection() as connection:
            row = await AsyncQuerier(connection).dispatch_control_resume(scope=scope)
        if row is None:
            raise NotFound(f"topic {scope!r} was never paused")
        self._set(self._paused - {scope})
        self._notifier.control_changed()
        return row

    def _set(self, paused: frozenset[str]) -> None:
        if paused != self._paused:
            self._paused = paused
            for listener in self._listeners:
                listener()
