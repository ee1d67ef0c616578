"""Job filters: checked, and run against the table."""

import json
import re
import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from pulse_gen.db.jobs import AsyncQuerier, JobMatchRow, JobSummariesRow
from pulse_gen.db.models import JobStatus
from pulsed.database import Database
from pulsed.errors import InvalidArgument
from pulsed.validation import check_text

END = 2**62
# How many jobs of a status one search looks at, where no index leads to the ones that it wants.
SCANNED_AT_ONCE = 10_000
# A payload has to be read as JSON for that.
PAYLOADS_SCANNED_AT_ONCE = 2_000
# Postgres refuses what is nested deeper than its stack; this many brackets are safe.
LONGEST_JSON = 8 << 10
NUL_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class Filter(NamedTuple):
    """A checked filter; None matches everything."""

    statuses: Sequence[JobStatus]
    ids: Sequence[uuid.UUID] | None
    topics: Sequence[str] | None
    tags: Sequence[str] | None
    schedule_id: uuid.UUID | None
    worker_id: uuid.UUID | None
    error_contains: str | None
    submitted_after: datetime | None
    submitted_before: datetime | None
    min_priority: int | None
    max_priority: int | None
    payload_contains: str | None
    # Not of the contract: what a bulk step has already changed is left out, so that the next call goes on.
    other_priority_than: int | None = None
    cancel_requested: bool | None = None

    @property
    def is_indexed(self) -> bool:
        """Whether an index leads straight to what it matches; if not, every job has to be looked at."""
        searched = (self.topics, self.error_contains, self.submitted_after, self.submitted_before, self.min_priority)
        unaided = all(part is None for part in (*searched, self.max_priority, self.payload_contains))
        return unaided or any(part is not None for part in (self.ids, self.tags, self.schedule_id, self.worker_id))

    @property
    def is_empty(self) -> bool:
        """Whether it matches every job."""
        return set(self.statuses) == set(JobStatus) and all(part is None for part in self[1:])


def check_json(field: str, text: str) -> str:
    """JSON, as it will be compared in the database."""
    check_text(field, text, longest=LONGEST_JSON)
    try:
        # Python reads NaN, endless numbers and halves of surrogate pairs; the database does not.
        json.dumps(json.loads(text), ensure_ascii=False, allow_nan=False).encode()
    except RecursionError:
        raise InvalidArgument(field, "is nested too deep") from None
    except ValueError as error:
        raise InvalidArgument(field, f"is not JSON: {error}") from None
    if NUL_ESCAPE.search(text):
        raise InvalidArgument(field, "contains a NUL character")
    return text


class Found(NamedTuple):
    """Jobs that a search found, the latest submitted first."""

    ids: Sequence[uuid.UUID]
    # Where the next search goes on; None: there is nothing more.
    cursor: int | None


class JobFinder:
    """Finds jobs by filter."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def match(self, job_filter: Filter, *, limit: int, before: int = END) -> Sequence[JobMatchRow]:
        """What matches, the latest submitted first, from below a cursor on."""
        async with self._database.operator.connection() as connection:
            return await AsyncQuerier(connection).job_match(**job_filter._asdict(), before=before, max_rows=limit)

    async def search(self, job_filter: Filter, *, limit: int, before: int = END) -> Found:
        """What matches, from below a cursor on. The look is bounded: it may find nothing although there is more."""
        if job_filter.is_indexed:
            rows = await self.match(job_filter, limit=limit + 1, before=before)
            return Found([row.id for row in rows[:limit]], rows[limit - 1].seq if len(rows) > limit else None)
        async with self._database.operator.connection() as connection:
            scan = await AsyncQuerier(connection).job_scan(
                statuses=job_filter.statuses,
                topics=job_filter.topics,
                error_contains=job_filter.error_contains,
                submitted_after=job_filter.submitted_after,
                submitted_before=job_filter.submitted_before,
                min_priority=job_filter.min_priority,
                max_priority=job_filter.max_priority,
                payload_contains=job_filter.payload_contains,
                before=before,
                scanned=SCANNED_AT_ONCE if job_filter.payload_contains is None else PAYLOADS_SCANNED_AT_ONCE,
                max_rows=limit + 1,
            )
        assert scan is not None
        if len(scan.ids) > limit:
            return Found(scan.ids[:limit], scan.seqs[limit - 1])
        return Found(scan.ids, scan.floor)

    async def summaries(self, ids: Sequence[uuid.UUID]) -> Sequence[JobSummariesRow]:
        """Jobs for a list, the latest submitted first."""
        async with self._database.operator.connection() as connection:
            return await AsyncQuerier(connection).job_summaries(ids=ids)
