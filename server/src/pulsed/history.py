"""What the minutes of traffic say about a stretch of time.

Histograms are long rows: a day of twenty topics is thirty megabytes of them. So quarters of an hour that are over are
added up once and kept, and only the minutes at either end are read each time.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from pulse_gen.db.stats import AsyncQuerier, TopicTrafficRow
from pulsed.database import Database
from pulsed.traffic import STEPS

QUARTER = timedelta(minutes=15)
# Servers add to the present minute only; one that is just over may still be on its way.
SETTLED = timedelta(minutes=2)
QUARTERS_KEPT = 100


class Times(NamedTuple):
    """How long the jobs of a topic waited and ran, as histograms."""

    waits: Sequence[int]
    runs: Sequence[int]


class History:
    """Answers about the past."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._quarters: dict[datetime, dict[str, Times]] = {}

    async def traffic(self, until: datetime, length: timedelta, spans: int) -> Sequence[TopicTrafficRow]:
        """What happened in so many spans of a length, by topic and span."""
        async with self._database.operator.connection() as connection:
            return await AsyncQuerier(connection).topic_traffic(
                since=until - spans * length, until=until, length=length
            )

    async def times(self, since: datetime, until: datetime) -> dict[str, Times]:
        """How long jobs waited and ran, by topic."""
        parts = []
        while since < until:
            begin = since.replace(minute=since.minute // 15 * 15, second=0, microsecond=0)
            end = begin + QUARTER
            if since == begin and end <= until - SETTLED:
                parts.append(await self._quarter(begin))
            else:
                parts.append(await self._read(since, min(end, until)))
            since = end
        return add_topics((topic, times) for part in parts for topic, times in part.items())

    async def _quarter(self, begin: datetime) -> dict[str, Times]:
        kept = self._quarters.get(begin)
        if kept is None:
            kept = self._quarters[begin] = await self._read(begin, begin + QUARTER)
            for old in sorted(self._quarters)[:-QUARTERS_KEPT]:
                del self._quarters[old]
        return kept

    async def _read(self, since: datetime, until: datetime) -> dict[str, Times]:
        async with self._database.operator.connection() as connection:
            rows = await AsyncQuerier(connection).topic_times(since=since, until=until)
        return add_topics((row.topic, Times(row.wait_histogram, row.run_histogram)) for row in rows)


def add_topics(times: Iterable[tuple[str, Times]]) -> dict[str, Times]:
    """The times of each topic added up."""
    by_topic: dict[str, list[Times]] = {}
    for topic, each in times:
        by_topic.setdefault(topic, []).append(each)
    return {topic: add_times(each) for topic, each in by_topic.items()}


def add_times(times: Iterable[Times]) -> Times:
    """Times added up."""
    waits, runs = zip(*times, strict=True) if (times := list(times)) else ((), ())
    return Times(add_histograms(waits), add_histograms(runs))


def add_histograms(histograms: Iterable[Sequence[int]]) -> list[int]:
    """Histograms added up step by step."""
    return [sum(step) for step in zip(*histograms, strict=True)] or [0] * STEPS
