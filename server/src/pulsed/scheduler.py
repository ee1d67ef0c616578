"""The scheduler: turns occurrences that have come into jobs, each exactly once.

Everything about one step happens in one transaction: the due schedules are locked, their jobs are stored under ids
that follow from the occurrence, and the cursors move. A crash anywhere leaves nothing behind; a second server skips
what is locked.
"""

import asyncio
import logging
import uuid
from collections.abc import Sequence
from datetime import datetime

from pulse_gen.db.models import Schedule
from pulse_gen.db.schedules import AsyncQuerier
from pulsed.clock import Clock
from pulsed.database import Connection, Database
from pulsed.dispatcher import Dispatcher
from pulsed.loops import Failures
from pulsed.occurrences import Firing, occurrence_id, plan_firing, timing_of
from pulsed.schedules import job_of_schedule
from pulsed.storing import Submitted, store_jobs
from pulsed.submission import NewJob
from pulsed.traffic import Traffic

logger = logging.getLogger(__name__)

SCHEDULES_AT_ONCE = 100
# Jobs in one statement: they all carry the schedule's payload.
JOBS_AT_ONCE = 100
# How long, in seconds, a schedule that can't be read is left alone.
SET_ASIDE = 60.0


class Scheduler:
    """Fires schedules."""

    def __init__(self, database: Database, clock: Clock, dispatcher: Dispatcher, traffic: Traffic) -> None:
        self._database = database
        self._clock = clock
        self._dispatcher = dispatcher
        self._traffic = traffic
        self._next_due = float("inf")
        self._changed = asyncio.Event()
        # Schedules that can't be read here, and until when: they must not stop the others.
        self._set_aside: dict[uuid.UUID, float] = {}

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
                # What is set aside stays due: then the next tick is soon enough.
                if not self._set_aside:
                    self._dispatcher.probe_soon()
                failures.succeeded()
            except Exception as error:
                await asyncio.sleep(failures.failed(error))
                self._next_due = loop.time()

    async def run_once(self) -> bool:
        """Fires what is due, a bounded number of schedules; True if there may be more."""
        fired: list[NewJob] = []
        loop_now = asyncio.get_running_loop().time()
        self._set_aside = {id_: until for id_, until in self._set_aside.items() if until > loop_now}
        async with self._database.work.transaction() as connection:
            querier = AsyncQuerier(connection)
            now = await querier.database_now(now=self._clock.now())
            assert now is not None
            due = await querier.schedule_due(
                batch_size=SCHEDULES_AT_ONCE, set_aside=list(self._set_aside), now=self._clock.now()
            )
            for schedule in due:
                if firing := self._plan(schedule, now):
                    fired += await self._fire(connection, schedule, firing)
        counts: dict[str, int] = {}
        for job in fired:
            counts[job.topic] = counts.get(job.topic, 0) + 1
        for topic, count in counts.items():
            self._traffic.submitted(topic, count)
        self._dispatcher.ready(counts)
        return len(due) == SCHEDULES_AT_ONCE

    def _plan(self, schedule: Schedule, now: datetime) -> Firing | None:
        """What to fire; None if the schedule can't be read, such as a time zone that this server does not know."""
        assert schedule.next_run_at is not None
        policy, limit = schedule.misfire_policy, schedule.misfire_limit
        try:
            return plan_firing(timing_of(schedule), schedule.next_run_at, now, policy, limit)
        except Exception as error:
            logger.error(
                "a schedule can't be read, the others go on",
                extra={"schedule_id": str(schedule.id), "error": f"{type(error).__name__}: {error}"},
            )
            self._set_aside[schedule.id] = asyncio.get_running_loop().time() + SET_ASIDE
            return None

    async def _fire(self, connection: Connection, schedule: Schedule, firing: Firing) -> Sequence[NewJob]:
        stored: list[NewJob] = []
        last_fired_at = None
        for start in range(0, len(firing.occurrences), JOBS_AT_ONCE):
            occurrences = firing.occurrences[start : start + JOBS_AT_ONCE]
            jobs = [
                job_of_schedule(schedule, occurrence_id(schedule.id, occurrence), occurrence)
                for occurrence in occurrences
            ]
            results = await store_jobs(connection, jobs, self._clock)
            for occurrence, job, result in zip(occurrences, jobs, results, strict=True):
                # An occurrence that a unique key keeps out did not fire.
                if isinstance(result, Submitted) and result.id == job.id:
                    last_fired_at = occurrence
                    if not result.existing:
                        stored.append(job)
        assert schedule.next_run_at is not None
        await AsyncQuerier(connection).schedule_advance(
            id=schedule.id,
            seen_next_run_at=schedule.next_run_at,
            next_run_at=firing.next_run_at,
            last_fired_at=last_fired_at,
        )
        return stored
