"""What happened, counted in memory and added to the database's minutes now and then.

Nobody waits for it and no guarantee rests on it: what a killed server had not written yet is missing from the charts.
"""

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from datetime import timedelta

from pulse_gen.db.stats import AsyncQuerier
from pulsed.clock import Clock
from pulsed.database import Database
from pulsed.metrics import Metrics

STEPS = 64
FIRST_STEP = 0.0001


# Where each step ends, in seconds; they grow by the square root of two. The last one has no end.
ENDS = [FIRST_STEP * 2 ** (step / 2) for step in range(STEPS - 1)]


def step_of(seconds: float) -> int:
    """Where a time falls."""
    return bisect_left(ENDS, seconds)


def percentile(histogram: Sequence[int], share: float) -> float:
    """The time in seconds that `share` of those counted stay below: the middle of its step."""
    left = share * sum(histogram)
    for step, count in enumerate(histogram):
        left -= count
        if left <= 0 and count:
            return float(FIRST_STEP * 2 ** ((step - 0.5) / 2)) if step else FIRST_STEP / 2
    return 0.0


class TopicCounts:
    """One topic since the last flush."""

    def __init__(self) -> None:
        self.submitted = self.completed = self.failed = self.dead_lettered = 0
        self.waits = [0] * STEPS
        self.runs = [0] * STEPS


class Traffic:
    """Counts by topic."""

    def __init__(self, database: Database, clock: Clock, metrics: Metrics) -> None:
        self._database = database
        self._clock = clock
        self._metrics = metrics
        self._topics: dict[str, TopicCounts] = {}

    def _of(self, topic: str) -> TopicCounts:
        counts = self._topics.get(topic)
        if counts is None:
            counts = self._topics[topic] = TopicCounts()
        return counts

    def submitted(self, topic: str, count: int) -> None:
        """Jobs were stored."""
        self._of(topic).submitted += count

    def started(self, topic: str, waited: timedelta) -> None:
        """A job was given to a worker."""
        self._of(topic).waits[step_of(waited.total_seconds())] += 1

    def completed(self, topic: str, ran: Iterable[float]) -> None:
        """Jobs were completed."""
        counts = self._of(topic)
        for seconds in ran:
            counts.completed += 1
            counts.runs[step_of(seconds)] += 1

    def failed(self, topic: str, *, dead: bool, ran: float | None = None) -> None:
        """An attempt failed, by report or by silence."""
        counts = self._of(topic)
        counts.failed += 1
        counts.dead_lettered += dead
        if ran is not None:
            counts.runs[step_of(ran)] += 1

    async def flush(self) -> None:
        """Adds what was counted to the present minute. On an error it is kept for the next time."""
        if not self._topics:
            return
        flushed = self._topics
        self._topics = {}
        try:
            async with self._database.work.connection() as connection:
                await AsyncQuerier(connection).topic_minutes_add(
                    topics=list(flushed),
                    submitted=[counts.submitted for counts in flushed.values()],
                    completed=[counts.completed for counts in flushed.values()],
                    failed=[counts.failed for counts in flushed.values()],
                    dead_lettered=[counts.dead_lettered for counts in flushed.values()],
                    waits=[json.dumps(counts.waits) for counts in flushed.values()],
                    runs=[json.dumps(counts.runs) for counts in flushed.values()],
                    now=self._clock.now(),
                )
        except Exception:
            for topic, counts in flushed.items():
                self._merge(topic, counts)
            raise
        self._tell_metrics(flushed)

    def _tell_metrics(self, flushed: dict[str, TopicCounts]) -> None:
        for topic, counts in flushed.items():
            self._metrics.happened(topic, "submitted", counts.submitted)
            self._metrics.happened(topic, "started", sum(counts.waits))
            self._metrics.happened(topic, "completed", counts.completed)
            self._metrics.happened(topic, "failed", counts.failed)
            self._metrics.happened(topic, "dead_lettered", counts.dead_lettered)

    def _merge(self, topic: str, counts: TopicCounts) -> None:
        present = self._of(topic)
        present.submitted += counts.submitted
        present.completed += counts.completed
        present.failed += counts.failed
        present.dead_lettered += counts.dead_lettered
        present.waits = [a + b for a, b in zip(present.waits, counts.waits, strict=True)]
        present.runs = [a + b for a, b in zip(present.runs, counts.runs, strict=True)]
