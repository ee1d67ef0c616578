"""Word between servers over LISTEN and NOTIFY. It only makes things quicker: whatever gets lost is found by a poll.

Messages are sent in a transaction of their own, never in a submit's, and what piles up meanwhile goes out as one.
"""

import asyncio
import json
import logging
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import asyncpg

from pulse_gen.db.notifications import AsyncQuerier
from pulse_gen.db.schedules import AsyncQuerier as ScheduleQuerier
from pulsed.database import SESSION, Database
from pulsed.loops import Failures

logger = logging.getLogger(__name__)

CHANNEL = "pulse"
# A NOTIFY holds 8,000 bytes.
TOPICS_A_MESSAGE = 25
CANCELS_A_MESSAGE = 100
SHORTEST_GAP = 0.01
PROBE_INTERVAL = timedelta(seconds=10)
PROBE_TIMEOUT = timedelta(seconds=5)


class Notifier:
    """Tells the other servers what happened here."""

    def __init__(self, database: Database, server_id: uuid.UUID) -> None:
        self._database = database
        self._server_id = str(server_id)
        self._topics: set[str] = set()
        self._cancels: set[tuple[str, int]] = set()
        self._control = False
        self._pending = asyncio.Event()

    def ready(self, topics: Iterable[str]) -> None:
        """Jobs of these topics wait, and nobody here has room for them."""
        self._topics.update(topics)
        self._pending.set()

    def cancel(self, attempts: Iterable[tuple[uuid.UUID, int]]) -> None:
        """These attempts should stop, and their workers are not here."""
        self._cancels.update((str(job_id), attempt) for job_id, attempt in attempts)
        self._pending.set()

    def control_changed(self) -> None:
        """The pause switch was moved."""
        self._control = True
        self._pending.set()

    async def run(self) -> None:
        """Sends for ever."""
        failures = Failures("notifying other servers")
        while True:
            await self._pending.wait()
            try:
                await self.run_once()
                failures.succeeded()
                await asyncio.sleep(SHORTEST_GAP)
            except Exception as error:
                await asyncio.sleep(failures.failed(error))

    async def run_once(self) -> None:
        """Sends what is pending. What can't be sent is dropped: the others' polls will find it."""
        self._pending.clear()
        messages: list[dict[str, Any]] = [{"topics": topics} for topics in _chunks(self._topics, TOPICS_A_MESSAGE)]
        messages += [{"cancel": attempts} for attempts in _chunks(self._cancels, CANCELS_A_MESSAGE)]
        if self._control:
            messages.append({"control": True})
        self._topics, self._cancels, self._control = set(), set(), False
        for message in messages:
            text = json.dumps({"from": self._server_id, **message}, ensure_ascii=False)
            async with self._database.work.connection() as connection:
                await AsyncQuerier(connection).notify_send(channel=CHANNEL, message=text)


@dataclass(frozen=True)
class Hearing:
    """What to do about each kind of message."""

    ready: Callable[[list[str]], None]
    cancel: Callable[[uuid.UUID, int], object]
    control_changed: Callable[[], None]
    # After a gap anything may have been missed.
    reconnected: Callable[[], None]


class Listener:
    """Hears the other servers, on a connection of its own that it probes and replaces."""

    def __init__(
        self, dsn: str, server_id: uuid.UUID, hearing: Hearing, probe_interval: timedelta = PROBE_INTERVAL
    ) -> None:
        self._dsn = dsn
        self._probe_interval = probe_interval.total_seconds()
        self._server_id = str(server_id)
        self._hearing = hearing
        self.connected = asyncio.Event()

    async def run(self) -> None:
        """Listens for ever."""
        failures = Failures("listening to other servers")
        while True:
            try:
                await self._listen(failures)
            except Exception as error:
                await asyncio.sleep(failures.failed(error))
            finally:
                self.connected.clear()

    async def _listen(self, failures: Failures) -> None:
        timeout = PROBE_TIMEOUT.total_seconds()
        session = SESSION | {"application_name": "pulsed listener"}
        connection = await asyncpg.connect(self._dsn, timeout=timeout, command_timeout=timeout, server_settings=session)
        closed = asyncio.Event()
        connection.add_termination_listener(lambda _: closed.set())
        try:
            await connection.add_listener(CHANNEL, self._hear)
            failures.succeeded()
            self.connected.set()
            self._hearing.reconnected()
            while True:
                # A connection can be dead for hours without a word: ask it. One that is closed says so here at once.
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._probe_interval):
                        await closed.wait()
                await ScheduleQuerier(connection).database_now(now=None)
        finally:
            connection.terminate()

    def _hear(self, connection: object, pid: int, channel: str, text: object) -> None:
        try:
            message = json.loads(str(text))
            if message["from"] == self._server_id:
                return
            if topics := message.get("topics"):
                self._hearing.ready(topics)
            for job_id, attempt in message.get("cancel", ()):
                self._hearing.cancel(uuid.UUID(job_id), attempt)
            if message.get("control"):
                self._hearing.control_changed()
        except (AttributeError, KeyError, TypeError, ValueError):
            logger.warning("a notification that no server of ours sent was ignored", extra={"channel": channel})


def _chunks(items: Iterable[Any], size: int) -> list[list[Any]]:
    ordered = sorted(items)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]
