"""StatsService."""

import uuid
from collections.abc import Container, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Self

import pulsed
from pulse_gen.db.models import JobStatus
from pulse_gen.db.stats import TopicTrafficRow
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
from pulsed.history import History, Times, add_times
from pulsed.migrations import load_migrations
from pulsed.pause import PauseGate
from pulsed.rpc.convert import STATUS_TO_WIRE
from pulsed.settings import Settings
from pulsed.stats import Snapshot, Stats, TopicSnapshot
from pulsed.traffic import percentile
from pulsed.validation import check_duration, check_text, check_topic

MOST_TOPICS = 1000
MOST_SPANS = 60
MINUTE = timedelta(minutes=1)


class StatsService(StatsServiceBase):
    """Answers for dashboards, command lines and autoscalers."""

    def __init__(
        self, stats: Stats, history: History, gate: PauseGate, server_id: uuid.UUID, settings: Settings
    ) -> None:
        self._stats = stats
        self._history = history
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
        spans = Spans.of(window, snapshot.taken_at)
        times = await self._history.times(spans.end - MINUTE - window, spans.end)
        traffic: dict[str, list[TopicTrafficRow]] = {}
        for row in await self._history.traffic(spans.end, spans.length, spans.number):
            traffic.setdefault(row.topic, []).append(row)
        names = wanted or sorted(snapshot.topics.keys() | traffic.keys())
        return GetStatsResponse(
            total=_write_total(
                snapshot,
                add_times(times.values()),
                spans.write(row for rows in traffic.values() for row in rows),
            ),
            topics=[
                _write_topic_stats(
                    name,
                    snapshot.topics.get(name, TopicSnapshot()),
                    times.get(name) or add_times(()),
                    spans.write(traffic.get(name, ())),
                    snapshot.capped,
                )
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


class Spans(NamedTuple):
    """A window in equal spans of whole minutes."""

    end: datetime
    length: timedelta
    number: int

    @classmethod
    def of(cls, window: timedelta, now: datetime) -> Self:
        """The spans of a window that ends with this minute."""
        minutes = max(1, round(window / MINUTE))
        length = -(-minutes // MOST_SPANS)
        return cls(now.replace(second=0, microsecond=0) + MINUTE, length * MINUTE, -(-minutes // length))

    def write(self, rows: Iterable[TopicTrafficRow]) -> list[Traffic]:
        """The spans, oldest first, empty ones included."""
        spans = [
            Traffic(start=self.end - (self.number - index) * self.length, length=self.length)
            for index in range(self.number)
        ]
        for row in rows:
            span = spans[-1 - row.spans_ago]
            span.submitted += row.submitted
            span.completed += row.completed
            span.failed += row.failed
            span.dead_lettered += row.dead_lettered
        return spans


def _write_total(snapshot: Snapshot, times: Times, traffic: list[Traffic]) -> TopicStats:
    total = TopicSnapshot()
    for counts in snapshot.topics.values():
        total.statuses.update(counts.statuses)
        if counts.oldest_seconds is not None:
            total.oldest_seconds = max(counts.oldest_seconds, total.oldest_seconds or 0.0)
    stats = _write_topic_stats("", total, times, traffic, snapshot.capped)
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
    name: str, counts: TopicSnapshot, times: Times, traffic: list[Traffic], capped: Container[JobStatus]
) -> TopicStats:
    return TopicStats(
        topic=name,
        counts=[
            StatusCount(status=STATUS_TO_WIRE[status], count=count, estimated=status in capped)
            for status, count in sorted(counts.statuses.items())
        ],
        oldest_waiting=_seconds(counts.oldest_seconds),
        wait=_write_latency(times.waits),
        run=_write_latency(times.runs),
        traffic=traffic,
    )


def _write_latency(histogram: Sequence[int]) -> Latency:
    return Latency(
        p50=timedelta(seconds=percentile(histogram, 0.50)),
        p95=timedelta(seconds=percentile(histogram, 0.95)),
        p99=timedelta(seconds=percentile(histogram, 0.99)),
        count=sum(histogram),
    )


def _seconds(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
