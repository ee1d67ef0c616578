"""Submitting jobs, and the hand of the operator on them: cancel, retry, delete, re-prioritise."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from pulse_gen.db.jobs import AsyncQuerier, JobCancelRow
from pulse_gen.db.models import Job, JobStatus
from pulsed.batcher import Batcher
from pulsed.clock import Clock
from pulsed.database import Connection, Database
from pulsed.dispatcher import Dispatcher
from pulsed.errors import AlreadyExists, FailedPrecondition, NotFound, Unavailable
from pulsed.notifications import Notifier
from pulsed.storing import Submitted, store_jobs
from pulsed.submission import NewJob
from pulsed.traffic import Traffic

GROUPED_SUBMITS = 1000
TRIES_FOR_A_LOCK = 15
LOCK_PAUSE = 0.02

# From which states a step may be taken; the guards in queries/jobs.sql say the same.
CANCELABLE = frozenset({JobStatus.PENDING, JobStatus.RETRYING, JobStatus.RUNNING})
RETRYABLE = frozenset({JobStatus.DEAD_LETTERED, JobStatus.CANCELED, JobStatus.RETRYING})
DELETABLE = frozenset(JobStatus) - {JobStatus.RUNNING}
MOVABLE = frozenset({JobStatus.PENDING, JobStatus.RETRYING})

Changed = TypeVar("Changed", int, Sequence[JobCancelRow])


class Jobs:
    """The jobs of the queue."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        dispatcher: Dispatcher,
        notifier: Notifier,
        traffic: Traffic,
    ) -> None:
        self._database = database
        self._clock = clock
        self._dispatcher = dispatcher
        self._notifier = notifier
        self._traffic = traffic
        self.lone_submits = Batcher(self._store, max_items=GROUPED_SUBMITS)

    async def submit_each(self, jobs: Sequence[NewJob]) -> Sequence[Submitted | AlreadyExists]:
        """Stores jobs that stand alone, in one statement with all others that arrive meanwhile."""
        return await self.lone_submits.add(jobs)

    async def submit_many(self, jobs: Sequence[NewJob]) -> Sequence[Submitted]:
        """Stores all of the jobs, or none."""
        async with self._opened(jobs) as connection:
            results = await store_jobs(connection, jobs, self._clock, whole=True)
        self._announce(jobs, results)
        return [result for result in results if isinstance(result, Submitted)]

    async def _store(self, jobs: Sequence[NewJob]) -> Sequence[Submitted | AlreadyExists]:
        """Stores a group of lone submits. Of equal ids the later ones look at what the first stored."""
        first: dict[uuid.UUID, int] = {}
        for index, job in enumerate(jobs):
            first.setdefault(job.id, index)
        if len(first) == len(jobs):
            return await self._store_distinct(jobs)
        results: dict[int, Submitted | AlreadyExists] = {}
        again = [index for index, job in enumerate(jobs) if first[job.id] != index]
        for group in (list(first.values()), *([index] for index in again)):
            stored = await self._store_distinct([jobs[index] for index in group])
            results |= dict(zip(group, stored, strict=True))
        return [results[index] for index in range(len(jobs))]

    async def _store_distinct(self, jobs: Sequence[NewJob]) -> Sequence[Submitted | AlreadyExists]:
        with self._dispatcher.keeping_slots(jobs) as places:
            async with self._opened(jobs) as connection:
                results = await store_jobs(connection, jobs, self._clock, places=places)
            if places:
                await self._dispatcher.start(
                    [
                        (job, result.started_at)
                        for job, result in zip(jobs, results, strict=True)
                        if isinstance(result, Submitted) and result.started_at is not None
                    ],
                    places,
                )
        self._announce(jobs, results)
        return results

    def _opened(self, jobs: Sequence[NewJob]) -> AbstractAsyncContextManager[Connection]:
        """What store_jobs wants: without unique keys, one statement does it all."""
        work = self._database.work
        return work.transaction() if any(job.unique_key for job in jobs) else work.connection()

    def _announce(self, jobs: Sequence[NewJob], results: Sequence[Submitted | AlreadyExists]) -> None:
        """Counts what was stored, and wakes whoever can run what waits."""
        topics: dict[str, int] = {}
        ready: set[str] = set()
        later = False
        for job, result in zip(jobs, results, strict=True):
            if isinstance(result, Submitted) and not result.existing:
                topics[job.topic] = topics.get(job.topic, 0) + 1
                if result.started_at is None:
                    ready.add(job.topic)
                later = later or job.run_at is not None or job.delay is not None
        for topic, count in topics.items():
            self._traffic.submitted(topic, count)
        self._dispatcher.ready(ready)
        if later:
            self._dispatcher.probe_soon()

    async def get(self, job_id: uuid.UUID) -> Job:
        """One job, whole."""
        async with self._database.operator.connection() as connection:
            job = await AsyncQuerier(connection).job_get(id=job_id)
        if job is None:
            raise NotFound(f"there is no job {job_id}; finished jobs are pruned after a while")
        return job

    async def cancel(self, ids: Sequence[uuid.UUID]) -> Sequence[JobCancelRow]:
        """Cancels what waits, asks the workers of what runs to stop, and says which those were."""
        async with self._database.operator.connection() as connection:
            canceled = await AsyncQuerier(connection).job_cancel(ids=ids, now=self._clock.now())
        running = [row for row in canceled if row.status is JobStatus.RUNNING]
        elsewhere = [row for row in running if not self._dispatcher.cancel(row.id, row.attempts)]
        if elsewhere:
            self._notifier.cancel((row.id, row.attempts) for row in elsewhere)
        return canceled

    async def retry(self, ids: Sequence[uuid.UUID]) -> int:
        """Lets jobs run again, with fresh attempts."""
        async with self._database.operator.connection() as connection:
            revived = await AsyncQuerier(connection).job_retry(ids=ids, now=self._clock.now())
        self._dispatcher.ready({row.topic for row in revived})
        return len(revived)

    async def delete(self, ids: Sequence[uuid.UUID]) -> int:
        """Removes jobs that do not run."""
        async with self._database.operator.connection() as connection:
            return len(await AsyncQuerier(connection).job_delete(ids=ids))

    async def set_priority(self, ids: Sequence[uuid.UUID], priority: int) -> int:
        """Changes the order of jobs that wait."""
        async with self._database.operator.connection() as connection:
            changed = await AsyncQuerier(connection).job_set_priority(ids=ids, priority=priority)
        return len(changed)

    async def change_one(
        self,
        job_id: uuid.UUID,
        step: Callable[[Sequence[uuid.UUID]], Awaitable[Changed]],
        allowed: frozenset[JobStatus],
        verb: str,
    ) -> Changed:
        """Takes one guarded step on one job, or says why it is not allowed.

        Steps skip rows that somebody else has locked, so that those on many jobs never wait in a circle. A single job
        is worth another try: its lock is held for a moment only.
        """
        for attempt in range(TRIES_FOR_A_LOCK):
            if changed := await step([job_id]):
                return changed
            job = await self.get(job_id)
            if job.status not in allowed:
                raise FailedPrecondition(f"job {job_id} is {job.status} and can't be {verb}")
            await asyncio.sleep(attempt * LOCK_PAUSE)
        raise Unavailable(f"job {job_id} is being changed by somebody else; try again")
