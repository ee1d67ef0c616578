"""New jobs into the table: one statement if all is new, and a look at what is there if not."""

import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import asyncpg

from pulse_gen.db.jobs import AsyncQuerier
from pulsed.clock import Clock
from pulsed.database import Connection
from pulsed.dispatcher import Place
from pulsed.errors import AlreadyExists, Unavailable
from pulsed.submission import DEFAULT_MAX_ATTEMPTS, NewJob
from pulsed.validation import JSON

TRIES = 3
NO_PLACES: Mapping[uuid.UUID, Place] = MappingProxyType({})

Value = TypeVar("Value")


class Submitted(NamedTuple):
    """What became of one submission."""

    id: uuid.UUID
    existing: bool
    # It runs already, on the worker that had a place for it.
    started_at: datetime | None = None


async def store_jobs(
    connection: Connection,
    jobs: Sequence[NewJob],
    clock: Clock,
    *,
    places: Mapping[uuid.UUID, Place] = NO_PLACES,
    whole: bool = False,
) -> list[Submitted | AlreadyExists]:
    """Stores jobs. What is there already is found and named.

    An id that names another job is an error for that one, or for all if they are to be stored whole. Jobs with a place
    are started there unless others wait. The caller opens a transaction if any job has a unique key.
    """
    storing = Storing(connection, jobs, clock, places, whole=whole)
    # A key's holder can finish between the refusal and the look at it: then there is room at the next try.
    for _ in range(TRIES):
        if await storing.advance():
            return [storing.result(job) for job in jobs]
    raise Unavailable("what keeps a job out changes too fast; try again")


class Storing:
    """Jobs on their way into the table."""

    def __init__(
        self,
        connection: Connection,
        jobs: Sequence[NewJob],
        clock: Clock,
        places: Mapping[uuid.UUID, Place],
        *,
        whole: bool,
    ) -> None:
        self._connection = connection
        self._querier = AsyncQuerier(connection)
        self._clock = clock
        self._places = places
        self._whole = whole
        # Neither stored nor found.
        self._missing = list(jobs)
        self._taken: dict[uuid.UUID, uuid.UUID | AlreadyExists] = {}
        self._started: dict[uuid.UUID, datetime] = {}

    def result(self, job: NewJob) -> Submitted | AlreadyExists:
        """What became of one."""
        holder = self._taken.get(job.id)
        if holder is None:
            return Submitted(job.id, existing=False, started_at=self._started.get(job.id))
        return holder if isinstance(holder, AlreadyExists) else Submitted(holder, existing=True)

    async def advance(self) -> bool:
        """Stores what can be stored; whether nothing is left."""
        if any(job.unique_key for job in self._missing):
            # A key is often taken, that is what it is for: nothing that the database should complain about.
            await self._free_keys()
            await self._look()
        chosen = first_of_each_key(self._missing)
        if chosen:
            try:
                async with undone_alone(self._connection):
                    self._started |= await self._insert(chosen)
            except asyncpg.UniqueViolationError:
                await self._look()
            else:
                stored = {job.id for job in chosen}
                self._missing = [job for job in self._missing if job.id not in stored]
        return not self._missing

    async def _free_keys(self) -> None:
        """Frees keys whose period is over."""
        keyed = [(job.topic, job.unique_key) for job in self._missing if job.unique_key]
        await self._querier.job_release_keys(
            topics=[topic for topic, _ in keyed], unique_keys=[key for _, key in keyed], now=self._clock.now()
        )

    async def _look(self) -> None:
        """Finds those that are there already."""
        found = await find_taken(self._querier, self._missing)
        if self._whole:
            for holder in found.values():
                if isinstance(holder, AlreadyExists):
                    raise holder
        self._taken |= found
        self._missing = [job for job in self._missing if job.id not in found]

    async def _insert(self, jobs: Sequence[NewJob]) -> dict[uuid.UUID, datetime]:
        """All of the jobs, or an error; when those began that were started."""
        if self._places or not all(job.is_plain for job in jobs):
            return await self._insert_any(jobs)
        if len(jobs) == 1:
            await self._insert_one(jobs[0])
        else:
            await self._insert_plain(jobs)
        return {}

    async def _insert_one(self, job: NewJob) -> None:
        await self._querier.job_insert_one(
            id=job.id,
            topic=job.topic,
            payload=job.payload,
            content_type=job.content_type,
            priority=job.priority,
            max_attempts=job.max_attempts,
            now=self._clock.now(),
        )

    async def _insert_plain(self, jobs: Sequence[NewJob]) -> None:
        ids, topics, payloads, types, priorities, attempts, *_ = zip(*jobs, strict=True)
        await self._querier.job_insert_plain(
            ids=ids,
            topics=topics,
            payloads=payloads,
            content_types=_unless_all(JSON, types),
            priorities=_unless_all(0, priorities),
            max_attempts=_unless_all(DEFAULT_MAX_ATTEMPTS, attempts),
            now=self._clock.now(),
        )

    async def _insert_any(self, jobs: Sequence[NewJob]) -> dict[uuid.UUID, datetime]:
        places = self._places
        given = [places.get(job.id) for job in jobs] if places else []
        ids, topics, payloads, types, priorities, attempts, run_ats, delays, extras, _ = zip(*jobs, strict=True)
        rows = await self._querier.job_insert(
            ids=ids,
            topics=topics,
            payloads=payloads,
            content_types=_unless_all(JSON, types),
            priorities=_unless_all(0, priorities),
            max_attempts=_unless_all(DEFAULT_MAX_ATTEMPTS, attempts),
            run_ats=_unless_all(None, run_ats),
            delays=_unless_all(None, delays),
            extras=_unless_all(None, extras),
            worker_ids=[place and place.worker_id for place in given],
            granted_leases=[place and place.lease for place in given],
            topics_ahead=list({job.topic for job in jobs}) if places else [],
            now=self._clock.now(),
        )
        return {row.id: row.started_at for row in rows}


def first_of_each_key(jobs: list[NewJob]) -> list[NewJob]:
    """Those that can be stored together; the others will find their key taken."""
    if not any(job.unique_key for job in jobs):
        return jobs
    first: dict[object, NewJob] = {}
    for job in jobs:
        first.setdefault((job.topic, job.unique_key) if job.unique_key else job.id, job)
    return list(first.values())


def undone_alone(connection: Connection) -> AbstractAsyncContextManager[object]:
    """Where there is a transaction, it survives an error in here."""
    return connection.transaction() if connection.is_in_transaction() else nullcontext()


def _unless_all(default: Value, column: tuple[Value, ...]) -> tuple[Value, ...]:
    """The column, or nothing where JobInsert fills in the default by itself: to write an array takes time."""
    return () if column.count(default) == len(column) else column


async def find_taken(querier: AsyncQuerier, jobs: Sequence[NewJob]) -> dict[uuid.UUID, uuid.UUID | AlreadyExists]:
    """For each refused job the one that kept it out, if that is still there."""
    keyed = [(job.topic, job.unique_key) for job in jobs if job.unique_key]
    rows = await querier.job_find_taken(
        ids=[job.id for job in jobs],
        topics=[topic for topic, _ in keyed],
        unique_keys=[key for _, key in keyed],
    )
    by_id = {row.id: row for row in rows}
    by_key = {(row.topic, row.unique_key): row for row in rows if row.unique_held}
    taken: dict[uuid.UUID, uuid.UUID | AlreadyExists] = {}
    for job in jobs:
        same_id = by_id.get(job.id)
        if same_id is not None and (same_id.topic, same_id.payload) != (job.topic, job.payload):
            taken[job.id] = AlreadyExists(f"job_id: {job.id} names another job already")
        elif same_id is not None:
            taken[job.id] = job.id
        elif holder := by_key.get((job.topic, job.unique_key)):
            taken[job.id] = holder.id
    return taken
