"""The end of an attempt: results from workers, heartbeats, and the watchdog for workers that fell silent."""

import json
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from pulse_gen.db.models import JobStatus
from pulse_gen.db.reports import AsyncQuerier, JobHeartbeatRow
from pulsed.batcher import Batcher
from pulsed.clock import Clock
from pulsed.database import Connection, Database
from pulsed.dispatcher import Dispatcher
from pulsed.settings import Settings
from pulsed.traffic import Traffic
from pulsed.worker_stream import Held

GROUPED_REPORTS = 2000
REAPED_AT_ONCE = 1000


class Attempt(NamedTuple):
    """One attempt of one job by one worker: the fence."""

    job_id: uuid.UUID
    worker_id: uuid.UUID
    attempt: int


class Completion(NamedTuple):
    """It did its work."""

    attempt: Attempt


class Failure(NamedTuple):
    """It did not."""

    attempt: Attempt
    error: str
    discard: bool
    retry_after: timedelta | None


class Snooze(NamedTuple):
    """It wants another time."""

    attempt: Attempt
    until: datetime | None
    delay: timedelta | None


Report = Completion | Failure | Snooze


class Reports:
    """Takes reports. Those that arrive while a statement is under way share the next one."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        dispatcher: Dispatcher,
        traffic: Traffic,
        settings: Settings,
    ) -> None:
        self._database = database
        self._clock = clock
        self._dispatcher = dispatcher
        self._traffic = traffic
        self._default_lease = settings.lease_ttl
        self._topic_leases = json.dumps(
            {topic: f"{lease.total_seconds()} s" for topic, lease in settings.topic_leases.items()}
        )
        self.batcher = Batcher(self._store, max_items=GROUPED_REPORTS)

    async def report(self, reports: Sequence[Report]) -> Sequence[bool]:
        """For each report whether it was taken; False: the attempt was no longer that worker's."""
        return await self.batcher.add(reports)

    async def heartbeat(self, worker_id: uuid.UUID, held: Sequence[Held]) -> dict[Held, JobHeartbeatRow]:
        """Renews leases; what is missing from the answer is lost."""
        async with self._database.heartbeat.connection() as connection:
            rows = await AsyncQuerier(connection).job_heartbeat(
                worker_id=worker_id,
                ids=[job_id for job_id, _ in held],
                attempts=[attempt for _, attempt in held],
                topic_leases=self._topic_leases,
                default_lease=self._default_lease,
                now=self._clock.now(),
            )
        return {(row.id, row.attempts): row for row in rows}

    async def reap_expired(self) -> int:
        """Takes jobs from workers that fell silent, a bounded number at a time; how many it were."""
        reaped = 0
        while True:
            async with self._database.work.connection() as connection:
                rows = await AsyncQuerier(connection).job_reap_expired(batch_size=REAPED_AT_ONCE, now=self._clock.now())
            for row in rows:
                assert row.worker_id is not None
                self._traffic.failed(row.topic, dead=row.status is JobStatus.DEAD_LETTERED)
                self._dispatcher.released([(row.id, row.worker_id, row.attempts)])
            reaped += len(rows)
            if len(rows) < REAPED_AT_ONCE:
                break
        if reaped:
            self._dispatcher.probe_soon()
        return reaped

    async def _store(self, reports: Sequence[Report]) -> Sequence[bool]:
        completions = [report for report in reports if isinstance(report, Completion)]
        if len(completions) == len(reports):
            async with self._database.work.connection() as connection:
                taken = await self._complete(connection, completions)
        else:
            failures = [report for report in reports if isinstance(report, Failure)]
            snoozes = [report for report in reports if isinstance(report, Snooze)]
            async with self._database.work.transaction() as connection:
                taken = await self._complete(connection, completions)
                taken |= await self._fail(connection, failures)
                taken |= await self._snooze(connection, snoozes)
        attempts = [report.attempt for report in reports]
        # Taken or stale, the worker has let go of these jobs: its slots are free.
        self._dispatcher.released(attempts)
        return [(job_id, attempt) in taken for job_id, _, attempt in attempts]

    async def _complete(self, connection: Connection, reports: Sequence[Completion]) -> set[Held]:
        if not reports:
            return set()
        job_ids, worker_ids, attempts = zip(*(report.attempt for report in reports), strict=True)
        rows = await AsyncQuerier(connection).job_complete(
            ids=job_ids, worker_ids=worker_ids, attempts=attempts, now=self._clock.now()
        )
        taken: set[Held] = set()
        for row in rows:
            self._traffic.completed(row.topic, row.ran)
            taken.update(zip(row.ids, row.attempts, strict=True))
        return taken

    async def _fail(self, connection: Connection, reports: Sequence[Failure]) -> set[Held]:
        if not reports:
            return set()
        job_ids, worker_ids, attempts = zip(*(report.attempt for report in reports), strict=True)
        rows = await AsyncQuerier(connection).job_fail(
            ids=job_ids,
            worker_ids=worker_ids,
            attempts=attempts,
            errors=[report.error for report in reports],
            discards=[report.discard for report in reports],
            retry_afters=[report.retry_after for report in reports],
            now=self._clock.now(),
        )
        for row in rows:
            dead = row.status is JobStatus.DEAD_LETTERED
            self._traffic.failed(row.topic, dead=dead, ran=row.ran)
        if rows:
            self._dispatcher.probe_soon()
        return {(row.id, row.attempts) for row in rows}

    async def _snooze(self, connection: Connection, reports: Sequence[Snooze]) -> set[Held]:
        if not reports:
            return set()
        job_ids, worker_ids, attempts = zip(*(report.attempt for report in reports), strict=True)
        rows = await AsyncQuerier(connection).job_snooze(
            ids=job_ids,
            worker_ids=worker_ids,
            attempts=attempts,
            untils=[report.until for report in reports],
            delays=[report.delay for report in reports],
            now=self._clock.now(),
        )
        self._dispatcher.ready({row.topic for row in rows if row.ready})
        if any(not row.ready for row in rows):
            self._dispatcher.probe_soon()
        return {(row.id, row.attempts) for row in rows}
