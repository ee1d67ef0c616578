"""Dispatch: one loop a process that gives ready jobs to the workers connected to it.

The loop sleeps until somebody wakes it: a submit, a report that frees slots, a new worker, another server. Behind that
stands a probe twice a second, one statement however many workers are connected, which finds what a lost wake-up would
have left lying. A job that finds a worker waiting for it needs no claim: it is stored as running there.
"""

import asyncio
import json
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from typing import NamedTuple

from pulse_gen.db.dispatch import AsyncQuerier, JobClaimRow
from pulse_gen.db.reports import AsyncQuerier as ReportsQuerier
from pulsed.assignments import FIRST_ATTEMPT, first_claim
from pulsed.clock import Clock
from pulsed.database import Database
from pulsed.errors import PulsedError
from pulsed.loops import Failures
from pulsed.notifications import Notifier
from pulsed.pause import PauseGate
from pulsed.settings import Settings
from pulsed.submission import NewJob
from pulsed.traffic import Traffic
from pulsed.worker_stream import WorkerStream

logger = logging.getLogger(__name__)

PROMOTED_AT_ONCE = 1000
# How soon a probe may follow the last one when something was submitted for a moment from now.
EAGER_PROBE = 0.05
# How often a worker that looks full is checked against the database: its reports may go through another server.
FULL_CHECK = 5.0


class Place(NamedTuple):
    """A free slot that is kept for a job while it is stored."""

    worker_id: uuid.UUID
    lease: timedelta


class Dispatcher:
    """Matches ready jobs with free slots."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        gate: PauseGate,
        notifier: Notifier,
        traffic: Traffic,
        settings: Settings,
    ) -> None:
        self._database = database
        self._clock = clock
        self._gate = gate
        self._notifier = notifier
        self._traffic = traffic
        self._interval = settings.dispatch_interval.total_seconds()
        self._batch = settings.dispatch_batch
        self._default_lease = settings.lease_ttl
        self._topic_leases = settings.topic_leases
        self._topic_leases_json = json.dumps(
            {topic: f"{lease.total_seconds()} s" for topic, lease in settings.topic_leases.items()}
        )
        self.workers: dict[uuid.UUID, WorkerStream] = {}
        self._serving: dict[str, set[WorkerStream]] = {}
        self._maybe_ready: set[str] = set()
        # A claim is under way, for all the slots that were free when it began.
        self._claiming = False
        # Jobs that slots are kept for.
        self._starting: set[uuid.UUID] = set()
        self._woken = asyncio.Event()
        self._last_probe = self._next_probe = 0.0
        self._next_promotion = float("inf")
        self._next_full_check = 0.0
        self._draining = False
        # Told in how many seconds the next schedule falls due.
        self.schedule_due: Callable[[float], None] = lambda seconds: None
        gate.on_change(self._woken.set)

    # What others tell the dispatcher.

    def ready(self, topics: Iterable[str]) -> None:
        """Jobs of these topics may be there to claim. If no worker here has room for them, other servers hear of it."""
        topics = set(topics)
        self.ready_elsewhere(topics)
        foreign = {topic for topic in topics if not any(worker.free > 0 for worker in self._serving.get(topic, ()))}
        if foreign:
            self._notifier.ready(foreign)

    def ready_elsewhere(self, topics: Iterable[str]) -> None:
        """The same from another server: nobody else needs to hear."""
        if served := self._serving.keys() & topics:
            self._maybe_ready |= served
            self._woken.set()

    def probe_soon(self) -> None:
        """Something falls due soon: look when, instead of at the next tick."""
        self._next_probe = min(self._next_probe, self._last_probe + EAGER_PROBE)
        self._woken.set()

    def released(self, attempts: Iterable[tuple[uuid.UUID, uuid.UUID, int]]) -> None:
        """These jobs are no longer held by these workers, in these attempts."""
        for job_id, worker_id, attempt in attempts:
            if worker := self.workers.get(worker_id):
                worker.release(job_id, attempt)
        if self._maybe_ready:
            self._woken.set()

    def cancel(self, job_id: uuid.UUID, attempt: int) -> bool:
        """Asks the worker that runs a job to stop it; False if it is not connected here."""
        for worker in self.workers.values():
            if job_id in worker.held:
                worker.cancel(job_id, attempt)
                return True
        return False

    def count_held(self) -> int:
        """How many jobs the workers connected here hold."""
        return sum(len(worker.held) for worker in self.workers.values())

    # Jobs that start as they are submitted.

    @contextmanager
    def keeping_slots(self, jobs: Sequence[NewJob]) -> Iterator[dict[uuid.UUID, Place]]:
        """Keeps free slots for jobs while the context is open, in which they are stored and started."""
        places = self._keep_slots(jobs)
        try:
            yield places
        finally:
            for job_id in self._starting & places.keys():
                self._starting.discard(job_id)
                self.released([(job_id, places[job_id].worker_id, FIRST_ATTEMPT)])

    def _keep_slots(self, jobs: Sequence[NewJob]) -> dict[uuid.UUID, Place]:
        places: dict[uuid.UUID, Place] = {}
        if self._claiming or self._draining:
            return places
        for job in sorted(jobs, key=lambda job: -job.priority):
            if job.run_at is None and job.delay is None and (worker := self._waiting_worker(job)):
                worker.held[job.id] = FIRST_ATTEMPT
                self._starting.add(job.id)
                places[job.id] = Place(worker.worker_id, self._lease_of(job))
                self._served(worker)
        return places

    def _waiting_worker(self, job: NewJob) -> WorkerStream | None:
        """A worker that would run this job next, by all that is known here."""
        if job.topic not in self._serving or not self._gate.is_open(job.topic):
            return None
        ahead = self._gate.open_topics(self._maybe_ready)
        for worker in self.workers.values():
            if worker.free > 0 and job.topic in worker.topics and job.id not in worker.held:
                return worker if worker.topics.isdisjoint(ahead) else None
        return None

    def _lease_of(self, job: NewJob) -> timedelta:
        own = json.loads(job.extra).get("lease") if job.extra else None
        return timedelta(seconds=own) if own else self._topic_leases.get(job.topic, self._default_lease)

    async def start(self, jobs: Sequence[tuple[NewJob, datetime]], places: dict[uuid.UUID, Place]) -> None:
        """Sends jobs that were stored as running in the places kept for them."""
        await self._deliver([first_claim(job, started_at, *places[job.id]) for job, started_at in jobs])

    # Workers.

    @asynccontextmanager
    async def connect(self, worker: WorkerStream) -> AsyncIterator[WorkerStream]:
        """Gives jobs to a worker while the context is open. What could not be sent goes back at once."""
        async with self._database.work.connection() as connection:
            held = await AsyncQuerier(connection).jobs_held(worker_ids=[worker.worker_id])
        worker.held = {row.id: row.attempts for row in held}
        if before := self.workers.get(worker.worker_id):
            # While we asked, the old stream may have been given more.
            worker.held |= before.held
            before.replace()
            self._forget(before)
        self.workers[worker.worker_id] = worker
        for topic in worker.topics:
            self._serving.setdefault(topic, set()).add(worker)
        if self._draining:
            worker.shut_down()
        self.ready_elsewhere(worker.topics)
        try:
            yield worker
        finally:
            self._forget(worker)
            await self._hand_back(worker.worker_id, worker.take_unsent())

    def _forget(self, worker: WorkerStream) -> None:
        if self.workers.get(worker.worker_id) is not worker:
            return
        del self.workers[worker.worker_id]
        for topic in worker.topics:
            self._serving[topic].discard(worker)
            if not self._serving[topic]:
                del self._serving[topic]
                self._maybe_ready.discard(topic)

    def shut_down(self) -> None:
        """Stops giving out jobs and asks every worker to look for another server."""
        self._draining = True
        for worker in self.workers.values():
            worker.shut_down()

    async def _hand_back(self, worker_id: uuid.UUID, unsent: Sequence[JobClaimRow]) -> None:
        if not unsent:
            return
        try:
            async with self._database.work.connection() as connection:
                await ReportsQuerier(connection).job_snooze(
                    ids=[job.id for job in unsent],
                    worker_ids=[worker_id] * len(unsent),
                    attempts=[job.attempts for job in unsent],
                    untils=[None] * len(unsent),
                    delays=[None] * len(unsent),
                    now=self._clock.now(),
                )
        except PulsedError as error:
            logger.info("jobs that were not sent come back by lease", extra={"error": str(error)})
        self.ready({job.topic for job in unsent})

    # The loop.

    async def run(self) -> None:
        """Dispatches for ever. A database that is away delays it and does not touch the streams."""
        failures = Failures("dispatch")
        loop = asyncio.get_running_loop()
        while True:
            due = min(self._next_probe, self._next_promotion)
            try:
                async with asyncio.timeout_at(max(due, loop.time())):
                    await self._woken.wait()
            except TimeoutError:
                pass
            try:
                await self.run_once()
                failures.succeeded()
            except Exception as error:
                await asyncio.sleep(failures.failed(error))

    async def run_once(self) -> None:
        """Probes if it is time, promotes what is due, and claims until nothing is left to claim or no slot is free."""
        self._woken.clear()
        now = asyncio.get_running_loop().time()
        if now >= self._next_probe:
            await self._probe(now)
        if now >= self._next_promotion:
            await self._promote()
        if now >= self._next_full_check:
            await self._check_full(now)
        while not self._draining and (group := self._next_group()):
            await self._claim(*group)

    async def _probe(self, now: float) -> None:
        topics = set[str]().union(*(w.topics for w in self.workers.values() if w.free > 0))
        self._last_probe, self._next_probe = now, now + self._interval
        async with self._database.work.connection() as connection:
            found = await AsyncQuerier(connection).dispatch_probe(
                topics=self._gate.open_topics(topics), now=self._clock.now()
            )
        assert found is not None
        self._maybe_ready.update(found.ready_topics)
        self._next_promotion = float("inf") if found.next_job_in is None else now + found.next_job_in
        if found.next_schedule_in is not None:
            self.schedule_due(found.next_schedule_in)

    async def _promote(self) -> None:
        async with self._database.work.connection() as connection:
            promoted = await AsyncQuerier(connection).job_promote_due(
                batch_size=PROMOTED_AT_ONCE, now=self._clock.now()
            )
        self.ready({row.topic for row in promoted})
        if sum(row.jobs for row in promoted) < PROMOTED_AT_ONCE:
            self._next_promotion = float("inf")
            self.probe_soon()
        else:
            self._woken.set()

    async def _check_full(self, now: float) -> None:
        """Takes the database's word for what full workers hold."""
        self._next_full_check = now + FULL_CHECK
        full = [worker for worker in self.workers.values() if worker.free <= 0]
        if not full:
            return
        known = {worker.worker_id: worker.held.keys() - self._starting for worker in full}
        async with self._database.work.connection() as connection:
            rows = await AsyncQuerier(connection).jobs_held(worker_ids=[worker.worker_id for worker in full])
        for worker in full:
            since = {job: attempt for job, attempt in worker.held.items() if job not in known[worker.worker_id]}
            worker.held = since | {row.id: row.attempts for row in rows if row.worker_id == worker.worker_id}

    def _next_group(self) -> tuple[frozenset[str], list[WorkerStream]] | None:
        """Workers with free slots that can share one claim, because the same topics may have jobs for them."""
        topics = frozenset(self._gate.open_topics(self._maybe_ready))
        if not topics:
            return None
        groups: dict[frozenset[str], list[WorkerStream]] = {}
        for worker in self.workers.values():
            if worker.free > 0 and (common := worker.topics & topics):
                groups.setdefault(common, []).append(worker)
        return next(iter(groups.items()), None)

    async def _claim(self, topics: frozenset[str], workers: list[WorkerStream]) -> None:
        slots = fair_slots(workers, self._batch)
        # Whatever becomes ready from here on marks its topic anew.
        self._maybe_ready -= topics
        self._claiming = True
        try:
            async with self._database.work.connection() as connection:
                claimed = await AsyncQuerier(connection).job_claim(
                    topics=sorted(topics),
                    slots=slots,
                    topic_leases=self._topic_leases_json,
                    default_lease=self._default_lease,
                    now=self._clock.now(),
                )
        except BaseException:
            self._maybe_ready |= topics
            raise
        finally:
            self._claiming = False
        if len(claimed) == len(slots):
            self._maybe_ready |= topics
        for worker in workers:
            self._served(worker)
        claimed.sort(key=lambda row: (-row.priority, row.seq))
        await self._deliver(claimed)

    def _served(self, worker: WorkerStream) -> None:
        """Each worker's turn comes round: the one that was served first is last next time."""
        if self.workers.get(worker.worker_id) is worker:
            self.workers[worker.worker_id] = self.workers.pop(worker.worker_id)

    async def _deliver(self, jobs: Sequence[JobClaimRow]) -> None:
        """Sends each job to its worker, or hands it back if that went away meanwhile."""
        gone: dict[uuid.UUID, list[JobClaimRow]] = {}
        for job in jobs:
            assert job.worker_id is not None
            self._traffic.started(job.topic, job.waited)
            self._starting.discard(job.id)
            if worker := self.workers.get(job.worker_id):
                worker.assign(job)
            else:
                gone.setdefault(job.worker_id, []).append(job)
        for worker_id, unsent in gone.items():
            await self._hand_back(worker_id, unsent)


def fair_slots(workers: Sequence[WorkerStream], most: int) -> list[uuid.UUID]:
    """The free slots of workers, one each in turn, so that few jobs spread over all of them."""
    slots: list[uuid.UUID] = []
    free = {worker.worker_id: worker.free for worker in workers}
    while free and len(slots) < most:
        # So many slots has each of them; more than enough is too many.
        turns = min(*free.values(), 1 + most // len(free))
        slots += list(free) * turns
        free = {worker_id: left - turns for worker_id, left in free.items() if left > turns}
    return slots[:most]
