"""StatsService."""

import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import pulsed
from pulse_gen.db.models import JobStatus, TopicMinute
from pulse_gen.rpc.pulse.v1 import (
    ErrorGroup,
    GetServerInfoRequest,
    GetServerInfoResponse,
    GetStatsRequest,
    GetStatsResponse,
    Latency,
    ListErrorsRequest,
    ListErrorsResponse,
    ListTopicsRequest,
    ListTopicsResponse,
    ListWorkersRequest,
    ListWorkersResponse,
    StatsServiceBase,
    StatusCount,
    Topic,
    TopicStats,
    Traffic,
    Worker,
)
from pulsed.auth import current_user
from pulsed.migrations import load_migrations
from pulsed.pause import PauseGate
from pulsed.rpc.convert import STATUS_TO_WIRE
from pulsed.settings import Settings
from pulsed.stats import Snapshot, Stats, TopicSnapshot, add_histograms
from pulsed.traffic import STEPS, percentile
from pulsed.validation import check_duration, check_text, check_topic

MOST_TOPICS = 1000
SPANS = 60


class StatsService(StatsServiceBase):
    """Answers for dashboards, command lines and autoscalers."""

    def __init__(self, stats: Stats, gate: PauseGate, server_id: uuid.UUID, settings: Settings) -> None:
        self._stats = stats
        self._gate = gate
        self._server_id = server_id
        self._default_lease = settings.lease_ttl
        self._started_at = datetime.now(UTC)

    async def get_stats(self, message: GetStatsRequest) -> GetStatsResponse:
        window = check_duration(
            "window",
            message.window or timedelta(hours=1),
            shortest=timedelta(minutes=1),
            longest=timedelta(days=1),
        )
        assert window is not None
        wanted = [check_topic("topics", topic) for topic in message.topics]
        snapshot = await self._stats.snapshot()
        minutes = await self._stats.minutes(window)
        names = wanted or sorted(snapshot.topics.keys() | {minute.topic for minute in minutes})
        by_topic: dict[str, list[TopicMinute]] = {name: [] for name in names}
        for minute in minutes:
            by_topic.get(minute.topic, []).append(minute)
        return GetStatsResponse(
            total=_write_total(snapshot, minutes, window),
            topics=[
                _write_topic_stats(name, snapshot.topics.get(name, TopicSnapshot()), by_topic[name], snapshot, window)
                for name in names[:MOST_TOPICS]
            ],
            taken_at=snapshot.taken_at,
        )

    async def list_workers(self, message: ListWorkersRequest) -> ListWorkersResponse:
        topic = check_text("topic", message.topic, longest=255) or None
        return ListWorkersResponse(
            workers=[
                Worker(
                    worker_id=str(row.id),
                    host=row.host,
                    version=row.version,
                    topics=row.topics,
                    capacity=row.capacity,
                    held=row.held,
                    connected_at=row.connected_at,
                    last_seen_at=row.last_seen_at,
                    server_id=str(row.server_id),
                )
                for row in await self._stats.workers(topic)
            ]
        )

    async def list_topics(self, message: ListTopicsRequest) -> ListTopicsResponse:
        snapshot = await self._stats.snapshot()
        workers = await self._stats.workers()
        names = set(snapshot.topics).union(*(worker.topics for worker in workers))
        topics = []
        for name in sorted(names)[:MOST_TOPICS]:
            counts = snapshot.topics.get(name, TopicSnapshot())
            serving = [worker for worker in workers if name in worker.topics]
            topics.append(
                Topic(
                    name=name,
                    ready=counts.ready,
                    later=counts.later,
                    running=counts.statuses[JobStatus.RUNNING],
                    workers=len(serving),
                    free_slots=sum(max(0, worker.capacity - worker.held) for worker in serving),
                    paused=not self._gate.is_open(name),
                    oldest_waiting=_seconds(counts.oldest_seconds),
                )
            )
        return ListTopicsResponse(topics=topics)

    async def list_errors(self, message: ListErrorsRequest) -> ListErrorsResponse:
        topic = check_text("topic", message.topic, longest=255) or None
        return ListErrorsResponse(
            groups=[
                ErrorGroup(
                    topic=group.topic,
                    summary=group.summary,
                    count=group.count,
                    latest_at=group.latest_at,
                    example_job_id=str(group.example),
                )
                for group in await self._stats.errors(topic)
            ]
        )

    async def get_server_info(self, message: GetServerInfoRequest) -> GetServerInfoResponse:
        info = await self._stats.database_info()
        return GetServerInfoResponse(
            version=pulsed.__version__,
            server_id=str(self._server_id),
            started_at=self._started_at,
            postgres_version=info.version.split()[0],
            schema_version=load_migrations()[-1].version,
            oldest_transaction=timedelta(seconds=info.oldest_transaction),
            default_lease=self._default_lease,
            user=current_user.get(),
        )


def _write_total(snapshot: Snapshot, minutes: Sequence[TopicMinute], window: timedelta) -> TopicStats:
    total = TopicSnapshot()
    for counts in snapshot.topics.values():
        total.statuses.update(counts.statuses)
        if counts.oldest_seconds is not None:
            total.oldest_seconds = max(counts.oldest_seconds, total.oldest_seconds or 0.0)
    stats = _write_topic_stats("", total, minutes, snapshot, window)
    if snapshot.completed_estimate:
        stats.counts.append(
            StatusCount(
                status=STATUS_TO_WIRE[JobStatus.COMPLETED],
                count=snapshot.completed_estimate,
                estimated=True,
            )
        )
    return stats


def _write_topic_stats(
    name: str,
    counts: TopicSnapshot,
    minutes: Sequence[TopicMinute],
    snapshot: Snapshot,
    window: timedelta,
) -> TopicStats:
    return TopicStats(
        topic=name,
        counts=[
            StatusCount(status=STATUS_TO_WIRE[status], count=count, estimated=status in snapshot.capped)
            for status, count in sorted(counts.statuses.items())
        ],
        oldest_waiting=_seconds(counts.oldest_seconds),
        wait=_write_latency(minute.wait_histogram for minute in minutes),
        run=_write_latency(minute.run_histogram for minute in minutes),
        traffic=_write_traffic(minutes, snapshot.taken_at, window),
    )


def _write_latency(histograms: Iterable[Sequence[int]]) -> Latency:
    added = add_histograms(histograms) or [0] * STEPS
    return Latency(
        p50=timedelta(seconds=percentile(added, 0.50)),
        p95=timedelta(seconds=percentile(added, 0.95)),
        p99=timedelta(seconds=percentile(added, 0.99)),
        count=sum(added),
    )


def _write_traffic(minutes: Sequence[TopicMinute], taken_at: datetime, window: timedelta) -> list[Traffic]:
    """The window in equal spans of whole minutes, oldest first, empty ones included."""
    total = max(1, round(window / timedelta(minutes=1)))
    length = timedelta(minutes=-(-total // SPANS))
    end = taken_at.replace(second=0, microsecond=0) + timedelta(minutes=1)
    count = -(-total // (length // timedelta(minutes=1)))
    spans = [Traffic(start=end - (count - index) * length, length=length) for index in range(count)]
    for minute in minutes:
        index = count - 1 - (end - timedelta(minutes=1) - minute.minute) // length
        if 0 <= index < count:
            span = spans[index]
            span.submitted += minute.submitted
            span.completed += minute.completed
            span.failed += minute.failed
            span.dead_lettered += minute.dead_lettered
    return spans


def _seconds(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
