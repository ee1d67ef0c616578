"""The scheduler: turns occurrences that have come into jobs, each exactly once.

Everything about one step happens in one transaction: the due schedules are locked, their jobs are stored under ids
that follow from the occurrence, and the cursors move. A crash anywhere leaves nothing behind; a second server skips
what is locked.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime

from pulse_gen.db.models import Schedule
from pulse_gen.db.schedules import AsyncQuerier
from pulsed.clock import Clock
from pulsed.database import Connection, Database
from pulsed.dispatcher import Dispatcher
from pulsed.jobs import Submitted, store_jobs
from pulsed.loops import Failures
from pulsed.occurrences import occurrence_id, plan_firing, timing_of
from pulsed.schedules import job_of_schedule
from pulsed.submission import NewJob
from pulsed.traffic import Traffic

logger = logging.getLogger(__name__)

SCHEDULES_AT_ONCE = 100


class Scheduler:
    """Fires schedules."""

    def __init__(self, database: Database, clock: Clock, dispatcher: Dispatcher, traffic: Traffic) -> None:
        self._database = database
        self._clock = clock
        self._dispatcher = dispatcher
        self._traffic = traffic
        self._next_due = float("inf")
        self._changed = asyncio.Event()

    def due_in(self, seconds: float) -> None:
        """The next schedule falls due then, by the database's word."""
        self._next_due = asyncio.get_running_loop().time() + seconds
        self._changed.set()

    async def run(self) -> None:
        """Fires for ever: sleeps until the dispatcher's probe says that something is due."""
        failures = Failures("firing schedules")
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            if loop.time() < self._next_due:
                try:
                    async with asyncio.timeout_at(self._next_due):
                        await self._changed.wait()
                    continue
                except TimeoutError:
                    pass
            self._next_due = float("inf")
            try:
                while await self.run_once():
                    pass
                self._dispatcher.probe_soon()
                failures.succeeded()
            except Exception as error:
                await asyncio.sleep(failures.failed(error))
                self._next_due = loop.time()

    async def run_once(self) -> bool:
        """Fires what is due, a bounded number of schedules; True if there may be more."""
        fired: list[NewJob] = []
        async with self._database.work.transaction() as connection:
            querier = AsyncQuerier(connection)
            now = await querier.database_now(now=self._clock.now())
            assert now is not None
            due = await querier.schedule_due(batch_size=SCHEDULES_AT_ONCE, now=self._clock.now())
            for schedule in due:
                fired += await self._fire(connection, schedule, now)
        counts: dict[str, int] = {}
        for job in fired:
            counts[job.topic] = counts.get(job.topic, 0) + 1
        for topic, count in counts.items():
            self._traffic.submitted(topic, count)
        self._dispatcher.ready(counts)
        return len(due) == SCHEDULES_AT_ONCE

    async def _fire(self, connection: Connection, schedule: Schedule, now: datetime) -> Sequence[NewJob]:
        assert schedule.next_run_at is not None
        firing = plan_firing(
            timing_of(schedule),
            schedule.next_run_at,
            now,
            schedule.misfire_policy,
            schedule.misfire_limit,
        )
        stored: list[NewJob] = []
        # One by one: an occurrence that a unique key keeps out must not keep out the next one's look at the key.
        for occurrence in firing.occurrences:
            job = job_of_schedule(schedule, occurrence_id(schedule.id, occurrence), occurrence)
            (result,) = await store_jobs(connection, [job], self._clock)
            if isinstance(result, Submitted) and not result.existing:
                stored.append(job)
        await AsyncQuerier(connection).schedule_advance(
            id=schedule.id,
            seen_next_run_at=schedule.next_run_at,
            next_run_at=firing.next_run_at,
            last_fired_at=firing.occurrences[-1] if firing.occurrences else None,
        )
        return stored
