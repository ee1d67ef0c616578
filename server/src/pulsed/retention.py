"""Retention: finished jobs go after a while, in small bites."""

import asyncio
from datetime import timedelta

from pulse_gen.db.jobs import AsyncQuerier
from pulse_gen.db.models import JobStatus
from pulse_gen.db.stats import AsyncQuerier as StatsQuerier
from pulsed.clock import Clock
from pulsed.database import Database
from pulsed.settings import Settings

PRUNED_AT_ONCE = 1000
# Between bites, so that pruning a backlog leaves the database to the others.
BREATH = 0.02
TRAFFIC_KEPT = timedelta(days=2)


class Pruner:
    """Removes jobs that finished long enough ago."""

    def __init__(self, database: Database, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._clock = clock
        self._keep = {
            JobStatus.COMPLETED: settings.retention_completed,
            JobStatus.CANCELED: settings.retention_canceled,
            JobStatus.DEAD_LETTERED: settings.retention_dead_lettered,
        }

    async def run_once(self) -> int:
        """Removes everything that is past its time; how much that was."""
        pruned = 0
        for status, keep in self._keep.items():
            while True:
                bite = await self._prune(status, keep)
                pruned += bite
                if bite < PRUNED_AT_ONCE:
                    break
                await asyncio.sleep(BREATH)
        async with self._database.operator.connection() as connection:
            await StatsQuerier(connection).topic_minutes_prune(keep=TRAFFIC_KEPT, now=self._clock.now())
        return pruned

    async def _prune(self, status: JobStatus, keep: timedelta) -> int:
        async with self._database.operator.connection() as connection:
            return await AsyncQuerier(connection).job_prune(
                status=status, keep=keep, batch_size=PRUNED_AT_ONCE, now=self._clock.now()
            )
