"""pulse: a job queue for Python teams that already trust Postgres.

import pulse

p = pulse.Pulse("localhost:50051", concurrency=50)

@p.task("send-email", max_attempts=8, timeout=30)
async def send_email(args: EmailArgs, job: pulse.Job) -> None: ...

await send_email.enqueue(EmailArgs(to="a@b.c"))
await p.run()
"""

from pulse._client import Pulse, TaskDecorator
from pulse._durations import Seconds
from pulse._enums import BackoffKind, HoldReason, JobStatus, MisfirePolicy
from pulse._errors import (
    AlreadyExists,
    AuthError,
    ConfigurationError,
    Conflict,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    InvalidPayload,
    LimitReached,
    NotFound,
    PermissionDenied,
    PulseError,
    ServerError,
    TaskError,
    Unauthenticated,
    Unavailable,
)
from pulse._filters import JobFilter
from pulse._job import Job, JobLogFilter, current_job
from pulse._middleware import CallNext, Middleware
from pulse._models import (
    BulkResult,
    DispatchStatus,
    DispatchSwitch,
    ErrorGroup,
    Explanation,
    FailedAttempt,
    JobCount,
    JobInfo,
    Latency,
    Page,
    ScheduleInfo,
    ServerInfo,
    Stats,
    StatusCount,
    Submitted,
    TopicInfo,
    TopicStats,
    Traffic,
    WorkerInfo,
)
from pulse._options import Backoff, EnqueueOptions, JobOptions, SubmitOptions, TaskOptions, Unique
from pulse._outcomes import Discard, Outcome, Retry, Snooze
from pulse._task import Task
from pulse._timing import At, Cron, Every, Timing
from pulse._version import __version__

__all__ = [
    "AlreadyExists",
    "At",
    "AuthError",
    "Backoff",
    "BackoffKind",
    "BulkResult",
    "CallNext",
    "ConfigurationError",
    "Conflict",
    "Cron",
    "DeadlineExceeded",
    "Discard",
    "DispatchStatus",
    "DispatchSwitch",
    "EnqueueOptions",
    "ErrorGroup",
    "Every",
    "Explanation",
    "FailedAttempt",
    "FailedPrecondition",
    "HoldReason",
    "InvalidArgument",
    "InvalidPayload",
    "Job",
    "JobCount",
    "JobFilter",
    "JobInfo",
    "JobLogFilter",
    "JobOptions",
    "JobStatus",
    "Latency",
    "LimitReached",
    "Middleware",
    "MisfirePolicy",
    "NotFound",
    "Outcome",
    "Page",
    "PermissionDenied",
    "Pulse",
    "PulseError",
    "Retry",
    "ScheduleInfo",
    "Seconds",
    "ServerError",
    "ServerInfo",
    "Snooze",
    "Stats",
    "StatusCount",
    "SubmitOptions",
    "Submitted",
    "Task",
    "TaskDecorator",
    "TaskError",
    "TaskOptions",
    "Timing",
    "TopicInfo",
    "TopicStats",
    "Traffic",
    "Unauthenticated",
    "Unavailable",
    "Unique",
    "WorkerInfo",
    "__version__",
    "current_job",
]
