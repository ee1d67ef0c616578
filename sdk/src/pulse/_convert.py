"""From the messages of the wire to the models that callers see."""

from datetime import UTC, datetime

from pulse._enums import HoldReason, JobStatus, MisfirePolicy
from pulse._models import (
    DispatchStatus,
    DispatchSwitch,
    ErrorGroup,
    Explanation,
    FailedAttempt,
    JobInfo,
    Latency,
    ScheduleInfo,
    ServerInfo,
    Stats,
    StatusCount,
    TopicInfo,
    TopicStats,
    Traffic,
    WorkerInfo,
)
from pulse._options import read_options
from pulse._timing import read_timing
from pulse_gen.rpc.pulse import v1 as wire

STATUS_TO_WIRE = {status: wire.JobStatus[status.value] for status in JobStatus}
STATUS_FROM_WIRE = {value: key for key, value in STATUS_TO_WIRE.items()}
MISFIRE_TO_WIRE = {policy: wire.MisfirePolicy[policy.value] for policy in MisfirePolicy}
MISFIRE_FROM_WIRE = {value: key for key, value in MISFIRE_TO_WIRE.items()}
HOLD_FROM_WIRE = {wire.HoldReason[reason.value]: reason for reason in HoldReason if reason is not HoldReason.UNKNOWN}

# A message of the contract always carries these moments; one that does not is read as the beginning of time.
_NEVER = datetime.fromtimestamp(0, UTC)


def read_job(message: wire.Job | None) -> JobInfo:
    """A job."""
    message = message or wire.Job()
    return JobInfo(
        id=message.job_id,
        topic=message.topic,
        status=STATUS_FROM_WIRE.get(message.status, JobStatus.PENDING),
        payload=message.payload,
        payload_size=message.payload_size,
        content_type=message.content_type,
        options=read_options(message.options),
        attempts=message.attempts,
        attempts_spent=message.attempts_spent,
        submitted_at=message.submitted_at or _NEVER,
        next_run_at=message.next_run_at,
        started_at=message.started_at,
        finished_at=message.finished_at,
        worker_id=message.worker_id or None,
        lease_until=message.lease_until,
        cancel_requested_at=message.cancel_requested_at,
        last_error=message.last_error or None,
        failures=tuple(
            FailedAttempt(
                attempt=failure.attempt,
                worker_id=failure.worker_id,
                started_at=failure.started_at,
                failed_at=failure.failed_at,
                error=failure.error,
            )
            for failure in message.failures
        ),
        schedule_id=message.schedule_id or None,
        scheduled_for=message.scheduled_for,
    )


def read_explanation(message: wire.ExplainJobResponse) -> Explanation:
    """What holds a job."""
    return Explanation(
        reason=HOLD_FROM_WIRE.get(message.reason, HoldReason.UNKNOWN),
        text=message.explanation,
        suggested_command=message.suggested_command or None,
        job=read_job(message.job),
    )


def read_schedule(message: wire.Schedule | None) -> ScheduleInfo:
    """A schedule."""
    assert message is not None
    assert message.definition is not None
    definition = message.definition
    return ScheduleInfo(
        id=message.schedule_id,
        name=definition.name,
        topic=definition.topic,
        payload=definition.payload,
        content_type=definition.content_type,
        options=read_options(definition.options),
        timing=read_timing(definition),
        misfire_policy=MISFIRE_FROM_WIRE.get(definition.misfire_policy, MisfirePolicy.ONCE),
        misfire_limit=definition.misfire_limit,
        paused=message.paused,
        next_run_at=message.next_run_at,
        last_fired_at=message.last_fired_at,
        created_at=message.created_at or _NEVER,
        updated_at=message.updated_at,
        upcoming=tuple(message.upcoming),
    )


def read_switch(message: wire.DispatchSwitch | None) -> DispatchSwitch:
    """A pause switch."""
    message = message or wire.DispatchSwitch()
    return DispatchSwitch(
        topic=message.topic or None,
        paused=message.paused,
        reason=message.reason or None,
        paused_at=message.paused_at,
        paused_by=message.paused_by or None,
    )


def read_dispatch_status(message: wire.GetDispatchStatusResponse) -> DispatchStatus:
    """All switches."""
    return DispatchStatus(
        everything=read_switch(message.everything), topics=tuple(read_switch(switch) for switch in message.topics)
    )


def read_stats(message: wire.GetStatsResponse) -> Stats:
    """Counts, rates and latencies."""
    return Stats(
        total=_read_topic_stats(message.total or wire.TopicStats()),
        topics=tuple(_read_topic_stats(topic) for topic in message.topics),
        taken_at=message.taken_at,
    )


def _read_topic_stats(message: wire.TopicStats) -> TopicStats:
    return TopicStats(
        topic=message.topic or None,
        counts=tuple(
            StatusCount(status=STATUS_FROM_WIRE[each.status], count=each.count, estimated=each.estimated)
            for each in message.counts
            if each.status in STATUS_FROM_WIRE
        ),
        oldest_waiting=message.oldest_waiting,
        wait=_read_latency(message.wait),
        run=_read_latency(message.run),
        traffic=tuple(
            Traffic(
                start=each.start,
                length=each.length,
                submitted=each.submitted,
                completed=each.completed,
                failed=each.failed,
                dead_lettered=each.dead_lettered,
            )
            for each in message.traffic
            if each.start is not None and each.length is not None
        ),
    )


def _read_latency(message: wire.Latency | None) -> Latency:
    message = message or wire.Latency()
    return Latency(p50=message.p50, p95=message.p95, p99=message.p99, count=message.count)


def read_worker(message: wire.Worker) -> WorkerInfo:
    """A connected worker."""
    return WorkerInfo(
        id=message.worker_id,
        host=message.host,
        version=message.version,
        topics=tuple(message.topics),
        capacity=message.capacity,
        held=message.held,
        connected_at=message.connected_at,
        last_seen_at=message.last_seen_at,
        server_id=message.server_id,
    )


def read_topic(message: wire.Topic) -> TopicInfo:
    """A topic in short."""
    return TopicInfo(
        name=message.name,
        ready=message.ready,
        later=message.later,
        running=message.running,
        workers=message.workers,
        free_slots=message.free_slots,
        paused=message.paused,
        oldest_waiting=message.oldest_waiting,
    )


def read_error_group(message: wire.ErrorGroup) -> ErrorGroup:
    """Dead letters with alike errors."""
    return ErrorGroup(
        topic=message.topic,
        summary=message.summary,
        count=message.count,
        latest_at=message.latest_at,
        example_job_id=message.example_job_id,
    )


def read_server_info(message: wire.GetServerInfoResponse) -> ServerInfo:
    """What the server is."""
    return ServerInfo(
        version=message.version,
        server_id=message.server_id,
        started_at=message.started_at,
        postgres_version=message.postgres_version,
        schema_version=message.schema_version,
        oldest_transaction=message.oldest_transaction,
        default_lease=message.default_lease,
        user=message.user or None,
    )
