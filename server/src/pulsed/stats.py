"""Figures for people: counts, rates, latencies, topics, errors. Quick on any table, because what is dear is shared.

Counting millions of waiting jobs takes a fraction of a second. The result is kept and given to everybody for
a second, or for ten times as long as it took to count. Where that is long, nobody waits for the next count either: for
once more that time, the old one is given while the new one is made.
"""

import asyncio
import re
import uuid
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pulse_gen.db.models import JobStatus
from pulse_gen.db.schedules import AsyncQuerier as SchedulesQuerier
from pulse_gen.db.stats import AsyncQuerier, DatabaseInfoRow
from pulse_gen.db.workers import AsyncQuerier as WorkersQuerier
from pulse_gen.db.workers import WorkersListRow
from pulsed.clock import Clock
from pulsed.database import Database

FINISHED_COUNTED = 10_000
# How recent traffic has to be for its topic to be listed.
RECENT = timedelta(hours=1)
LEAST_AGE = 1.0
AGE_FACTOR = 10


@dataclass
class TopicSnapshot:
    """One topic at one moment."""

    statuses: Counter[JobStatus] = field(default_factory=Counter)
    ready: int = 0
    later: int = 0
    oldest_seconds: float | None = None


@dataclass(frozen=True)
class Snapshot:
    """The queue at one moment."""

    taken_at: datetime
    topics: dict[str, TopicSnapshot]
    completed_estimate: int
    # Statuses of which there are more than were counted.
    capped: frozenset[JobStatus]


@dataclass(frozen=True)
class ErrorGroup:
    """Dead letters of a topic with alike errors."""

    topic: str
    summary: str
    count: int
    latest_at: datetime
    example: uuid.UUID


class Stats:
    """Answers for dashboards and command lines."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._snapshot: Snapshot | None = None
        self._fresh_until = self._usable_until = 0.0
        self._counting: asyncio.Task[Snapshot] | None = None

    async def snapshot(self) -> Snapshot:
        """The counts, at most a moment old; callers that come together share one count."""
        now = asyncio.get_running_loop().time()
        if self._snapshot is not None and now < self._fresh_until:
            return self._snapshot
        if self._counting is None:
            self._counting = asyncio.create_task(self._count_anew())
            self._counting.add_done_callback(self._counted)
        if self._snapshot is not None and now < self._usable_until:
            return self._snapshot
        return await asyncio.shield(self._counting)

    async def _count_anew(self) -> Snapshot:
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._snapshot = await self._count()
        ended = loop.time()
        age = max(LEAST_AGE, AGE_FACTOR * (ended - began))
        self._fresh_until = ended + age
        self._usable_until = ended + (2 * age if age > LEAST_AGE else age)
        return self._snapshot

    def _counted(self, counting: "asyncio.Task[Snapshot]") -> None:
        """Whoever waited has the error; if nobody did, the next caller counts again."""
        self._counting = None
        if not counting.cancelled():
            counting.exception()

    async def _count(self) -> Snapshot:
        topics: dict[str, TopicSnapshot] = defaultdict(TopicSnapshot)
        async with self._database.operator.connection() as connection:
            querier = AsyncQuerier(connection)
            now = await SchedulesQuerier(connection).database_now(now=self._clock.now())
            waiting = await querier.stats_waiting(now=self._clock.now())
            running = await querier.stats_running()
            finished = await querier.stats_finished(max_rows=FINISHED_COUNTED)
            completed = await querier.stats_completed_estimate()
            known = await querier.stats_known_topics(span=RECENT, now=self._clock.now())
        for name in known:
            topics[name] = TopicSnapshot()
        for row in waiting:
            topic = topics[row.topic]
            topic.statuses[row.status] += row.jobs
            if row.ready:
                topic.ready += row.jobs
                topic.oldest_seconds = max(row.oldest_seconds, topic.oldest_seconds or 0.0, 0.0)
            else:
                topic.later += row.jobs
        for running_row in running:
            topics[running_row.topic].statuses[JobStatus.RUNNING] += running_row.jobs
        counted: Counter[JobStatus] = Counter()
        for finished_row in finished:
            topics[finished_row.topic].statuses[finished_row.status] += finished_row.jobs
            counted[finished_row.status] += finished_row.jobs
        capped = frozenset(status for status, count in counted.items() if count >= FINISHED_COUNTED)
        assert now is not None
        return Snapshot(now, dict(topics), completed or 0, capped)

    async def now(self) -> datetime:
        """The database's clock."""
        async with self._database.operator.connection() as connection:
            now = await SchedulesQuerier(connection).database_now(now=self._clock.now())
        assert now is not None
        return now

    async def workers(self, topic: str | None = None) -> Sequence[WorkersListRow]:
        """Connected workers, of one topic or all."""
        async with self._database.operator.connection() as connection:
            return await WorkersQuerier(connection).workers_list(topic=topic)

    async def errors(self, topic: str | None) -> list[ErrorGroup]:
        """The latest dead letters, grouped by what their errors have in common, the most frequent first."""
        async with self._database.operator.connection() as connection:
            rows = await AsyncQuerier(connection).dead_letter_errors(topic=topic)
        groups: dict[tuple[str, str], ErrorGroup] = {}
        for row in rows:
            key = (row.topic, summarize_error(row.last_error or ""))
            seen = groups.get(key)
            assert row.finished_at is not None
            groups[key] = ErrorGroup(
                *key,
                count=seen.count + 1 if seen else 1,
                latest_at=seen.latest_at if seen else row.finished_at,
                example=seen.example if seen else row.id,
            )
        return sorted(groups.values(), key=lambda group: -group.count)[:100]

    async def database_info(self) -> DatabaseInfoRow:
        """What the database is."""
        async with self._database.operator.connection() as connection:
            info = await AsyncQuerier(connection).database_info()
        assert info is not None
        return info


VARIABLE = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
    r"|0x[0-9a-fA-F]+|\d+"
)


def summarize_error(error: str) -> str:
    """The last line of an error, ids and numbers made equal, so that alike errors read alike."""
    lines = error.strip().splitlines() or [""]
    return VARIABLE.sub("#", lines[-1])[:200]
