"""Jobs as they travel to their workers."""

import json
import uuid
from datetime import datetime, timedelta

from pulse_gen.db.dispatch import JobClaimRow
from pulse_gen.rpc.pulse.v1 import JobAssignment
from pulsed.submission import NewJob

FIRST_ATTEMPT = 1


def write_assignment(row: JobClaimRow) -> JobAssignment:
    """A job that was claimed."""
    return JobAssignment(
        job_id=str(row.id),
        attempt=row.attempts,
        topic=row.topic,
        payload=row.payload,
        content_type=row.content_type,
        priority=row.priority,
        max_attempts=row.max_attempts,
        attempts_spent=row.attempts - row.attempts_forgiven,
        timeout=row.timeout,
        lease=row.granted_lease,
        tags=row.tags or [],
        metadata=json.loads(row.metadata) if row.metadata else {},
        submitted_at=row.submitted_at,
        schedule_id=str(row.schedule_id) if row.schedule_id else "",
        scheduled_for=row.scheduled_for,
    )


def first_claim(job: NewJob, started_at: datetime, worker_id: uuid.UUID, lease: timedelta) -> JobClaimRow:
    """What a claim would have said of a job that was stored as running."""
    extra = json.loads(job.extra) if job.extra else {}
    return JobClaimRow(
        id=job.id,
        worker_id=worker_id,
        attempts=FIRST_ATTEMPT,
        attempts_forgiven=0,
        topic=job.topic,
        payload=job.payload,
        content_type=job.content_type,
        priority=job.priority,
        max_attempts=job.max_attempts,
        timeout=timedelta(seconds=extra["timeout"]) if "timeout" in extra else None,
        tags=extra.get("tags"),
        metadata=json.dumps(extra["metadata"]) if "metadata" in extra else None,
        submitted_at=started_at,
        schedule_id=None,
        scheduled_for=None,
        seq=0,
        granted_lease=lease,
        waited=timedelta(0),
    )
