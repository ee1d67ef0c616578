"""Figures for people: right on small tables, bounded on large ones."""

import asyncio
import json
import math
import random
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from pulse_gen.db import stats as stats_queries
from pulse_gen.rpc.pulse.v1 import (
    CancelJobRequest,
    CreateScheduleRequest,
    Cron,
    GetServerInfoRequest,
    GetStatsRequest,
    GetStatsResponse,
    JobStatus,
    ListErrorsRequest,
    ListTopicsRequest,
    PauseDispatchRequest,
    ScheduleDefinition,
    TopicStats,
)
from pulsed.database import Database, open_database
from pulsed.history import QUARTERS_KEPT, History
from pulsed.metrics import Metrics
from pulsed.stats import Snapshot, Stats, summarize_error
from pulsed.traffic import STEPS, Traffic, percentile, step_of
from support.server import Server, VirtualClock, running_server

MINUTE = timedelta(minutes=1)


@pytest.fixture
async def server(database_dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """A server with a virtual clock that writes its traffic only when the test says so."""
    monkeypatch.setattr("pulsed.app.TRAFFIC_FLUSH", timedelta(days=1))
    async with running_server(database_dsn, clock=VirtualClock()) as server:
        yield server


@pytest.fixture
async def database(database_dsn: str) -> AsyncIterator[Database]:
    async with open_database(
        database_dsn, pool_size=2, timeout=timedelta(seconds=20), prepared_statements=True
    ) as database:
        yield database


async def get_stats(server: Server, **fields: Any) -> GetStatsResponse:
    return await server.stats.get_stats(GetStatsRequest(**fields))


def counts(stats: TopicStats | None) -> dict[JobStatus, int]:
    assert stats is not None
    return {count.status: count.count for count in stats.counts}


# Counts.


async def test_an_empty_queue_has_empty_figures(server: Server) -> None:
    stats = await get_stats(server)
    assert stats.total is not None
    assert (stats.total.counts, stats.total.oldest_waiting, stats.topics) == ([], None, [])
    assert stats.total.wait is not None
    assert (stats.total.wait.count, stats.total.wait.p99) == (0, timedelta(0))
    assert len(stats.total.traffic) == 60
    assert stats.taken_at == server.clock.moment
    assert (await server.stats.list_topics(ListTopicsRequest())).topics == []
    assert (await server.stats.list_errors(ListErrorsRequest())).groups == []


async def test_jobs_are_counted_by_status_and_topic(server: Server) -> None:
    await server.submit_many(3, "mail", delay=timedelta(hours=1))
    async with server.worker("mail", capacity=4) as worker:
        await server.submit_many(4, "mail")
        running, failing, dying, completing = await worker.take(4)
        await worker.fail(failing)
        await worker.fail(dying, discard=True)
        await worker.complete(completing)
    await server.submit_many(2, "video")
    canceled = await server.submit("video")
    await server.jobs.cancel_job(CancelJobRequest(job_id=canceled))
    stats = await get_stats(server)
    assert [topic.topic for topic in stats.topics] == ["mail", "video"]
    mail, video = (counts(topic) for topic in stats.topics)
    assert mail == {JobStatus.PENDING: 3, JobStatus.RUNNING: 1, JobStatus.RETRYING: 1, JobStatus.DEAD_LETTERED: 1}
    assert video == {JobStatus.PENDING: 2, JobStatus.CANCELED: 1}
    assert counts(stats.total) == {
        JobStatus.PENDING: 5, JobStatus.RUNNING: 1, JobStatus.RETRYING: 1, JobStatus.DEAD_LETTERED: 1,
        JobStatus.CANCELED: 1,
    }  # fmt: skip
    assert stats.total is not None
    assert not any(count.estimated for count in stats.total.counts)
    assert running.topic == "mail"


async def test_the_job_that_is_ready_longest_is_told_by_its_wait(server: Server) -> None:
    await server.submit("mail", run_at=server.clock.moment + timedelta(days=9))
    await server.submit("mail")
    server.clock.advance(seconds=90)
    await server.submit("mail")
    await server.submit("video")
    server.clock.advance(seconds=10)
    stats = await get_stats(server)
    waits = {topic.topic: topic.oldest_waiting for topic in stats.topics}
    assert waits == {"mail": timedelta(seconds=100), "video": timedelta(seconds=10)}
    assert stats.total is not None
    assert stats.total.oldest_waiting == timedelta(seconds=100)


async def test_only_the_topics_that_were_asked_for_are_told_besides_the_whole(server: Server) -> None:
    for topic in ("a", "b", "c"):
        await server.submit(topic)
    stats = await get_stats(server, topics=["c", "nothing"])
    assert [(topic.topic, counts(topic)) for topic in stats.topics] == [("c", {JobStatus.PENDING: 1}), ("nothing", {})]
    assert counts(stats.total) == {JobStatus.PENDING: 3}


async def test_completed_jobs_are_estimated_from_the_last_analyze(server: Server) -> None:
    await server.database.execute(
        "INSERT INTO jobs (id, topic, payload, content_type, priority, max_attempts, status, submitted_at, next_run_at,"
        " ready, finished_at) SELECT gen_random_uuid(), 'work', '', 'x', 0, 5,"
        " CASE WHEN n % 4 > 0 THEN 'COMPLETED' ELSE 'CANCELED' END::job_status, now(), now(), false, now()"
        " FROM generate_series(1, 4000) AS n"
    )
    await server.database.execute("ANALYZE jobs")
    stats = await get_stats(server)
    assert stats.total is not None
    (completed,) = (count for count in stats.total.counts if count.status is JobStatus.COMPLETED)
    assert completed.estimated
    assert completed.count == pytest.approx(3000, rel=0.05)
    (canceled,) = (count for count in stats.total.counts if count.status is JobStatus.CANCELED)
    assert (canceled.count, canceled.estimated) == (1000, False)


@pytest.mark.parametrize("window", [timedelta(seconds=59), timedelta(hours=25), timedelta(seconds=-1)])
async def test_a_window_out_of_bounds_is_refused_by_its_field(server: Server, window: timedelta) -> None:
    with pytest.raises(GRPCError) as refused:
        await get_stats(server, window=window)
    assert refused.value.status is Status.INVALID_ARGUMENT
    assert (refused.value.message or "").startswith("window: ")


# The shared snapshot.


class CountedStats(Stats):
    """Stats that let the test hold up a count."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, VirtualClock())
        self.taken = 0
        self.go_on = asyncio.Event()

    async def _count(self) -> Snapshot:
        self.taken += 1
        await self.go_on.wait()
        return await super()._count()


async def test_callers_that_come_together_share_one_count(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsed.stats.LEAST_AGE", 3600)
    stats = CountedStats(database)
    callers = [asyncio.create_task(stats.snapshot()) for _ in range(10)]
    await asyncio.sleep(0)
    stats.go_on.set()
    snapshots = await asyncio.gather(*callers)
    assert len({id(snapshot) for snapshot in snapshots}) == 1
    assert await stats.snapshot() is snapshots[0]
    assert stats.taken == 1


async def test_a_count_that_is_too_old_is_taken_again(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsed.stats.LEAST_AGE", 0)
    monkeypatch.setattr("pulsed.stats.AGE_FACTOR", 0)
    stats = CountedStats(database)
    stats.go_on.set()
    await stats.snapshot()
    await stats.snapshot()
    assert stats.taken == 2


async def test_where_counting_takes_long_nobody_waits_for_the_next_count(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulsed.stats.LEAST_AGE", 0)
    monkeypatch.setattr("pulsed.stats.AGE_FACTOR", 1e6)
    stats = CountedStats(database)
    stats.go_on.set()
    old = await stats.snapshot()
    stats.go_on.clear()
    stats._fresh_until = 0.0
    assert [await stats.snapshot() for _ in range(3)] == [old] * 3
    assert stats._counting is not None
    stats.go_on.set()
    new = await stats._counting
    assert new is not old
    assert await stats.snapshot() is new
    assert stats.taken == 2


async def test_a_count_that_failed_is_made_again(database: Database) -> None:
    stats = CountedStats(database)
    stats.go_on.set()
    async with database.work.connection() as connection:
        await connection.execute("ALTER TABLE topic_minutes RENAME TO away")
        with pytest.raises(asyncpg.UndefinedTableError):
            await stats.snapshot()
        await connection.execute("ALTER TABLE away RENAME TO topic_minutes")
    assert (await stats.snapshot()).topics == {}


# Traffic.


async def test_traffic_is_told_by_minute(server: Server) -> None:
    async with server.worker(capacity=10) as worker:
        await server.submit_many(3)
        assignments = await worker.take(3)
        await server.app.traffic.flush()
        server.clock.advance(minutes=1)
        await worker.complete(assignments[0])
        await worker.fail(assignments[1])
        await worker.fail(assignments[2], discard=True)
        await server.app.traffic.flush()
        await server.submit()
        await server.app.traffic.flush()
    stats = await get_stats(server, window=timedelta(minutes=5))
    assert stats.total is not None
    traffic = stats.total.traffic
    assert [span.start for span in traffic] == [server.clock.moment - ago * MINUTE for ago in (4, 3, 2, 1, 0)]
    assert {span.length for span in traffic} == {MINUTE}
    told = [(span.submitted, span.completed, span.failed, span.dead_lettered) for span in traffic]
    assert told == [(0, 0, 0, 0)] * 3 + [(3, 0, 0, 0), (1, 1, 2, 1)]
    assert stats.topics[0].traffic == traffic
    assert stats.total.run is not None
    assert stats.total.run.count == 3
    assert stats.total.run.p50 == pytest.approx(MINUTE, rel=0.2)


async def test_an_expired_lease_is_a_failure_in_the_traffic(server: Server) -> None:
    await server.submit(max_attempts=1)
    async with server.worker() as worker:
        await worker.take_one()
        server.clock.advance(seconds=31)
        await server.app.reports.reap_expired()
    await server.app.traffic.flush()
    (topic,) = (await get_stats(server)).topics
    assert (topic.traffic[-1].failed, topic.traffic[-1].dead_lettered) == (1, 1)


async def test_a_long_window_comes_in_longer_spans(server: Server) -> None:
    await server.submit_many(2)
    await server.app.traffic.flush()
    server.clock.advance(hours=23)
    await server.submit()
    await server.app.traffic.flush()
    stats = await get_stats(server, window=timedelta(days=1))
    assert stats.total is not None
    spans = stats.total.traffic
    assert len(spans) == 60
    assert {span.length for span in spans} == {timedelta(minutes=24)}
    assert spans[-1].start == server.clock.moment + MINUTE - timedelta(minutes=24)
    assert sum(span.submitted for span in spans) == 3
    assert spans[-1].submitted == 1
    assert (await get_stats(server)).topics[0].traffic[-1].submitted == 1


async def test_the_counts_of_two_servers_add_up(database: Database, database_dsn: str) -> None:
    clock = VirtualClock()
    for number in (1, 2):
        traffic = Traffic(database, clock, Metrics())
        traffic.submitted("work", number)
        traffic.submitted("mail", 1)
        traffic.completed("work", [0.01] * number)
        await traffic.flush()
        await traffic.flush()  # nothing is counted twice
    until = clock.moment + MINUTE
    rows = {row.topic: row for row in await History(database).traffic(until, MINUTE, 1)}
    assert (rows["work"].submitted, rows["mail"].submitted) == (3, 2)
    runs = (await History(database).times(clock.moment, until))["work"].runs
    assert runs[step_of(0.01)] == rows["work"].completed == sum(runs) == 3


async def test_counts_that_could_not_be_written_are_kept_for_the_next_time(database: Database) -> None:
    clock = VirtualClock()
    traffic = Traffic(database, clock, Metrics())
    traffic.submitted("work", 2)
    traffic.completed("work", [1.0])
    async with database.work.connection() as connection:
        await connection.execute("ALTER TABLE topic_minutes RENAME TO away")
        with pytest.raises(asyncpg.UndefinedTableError):
            await traffic.flush()
        await connection.execute("ALTER TABLE away RENAME TO topic_minutes")
    traffic.submitted("work", 1)
    await traffic.flush()
    until = clock.moment + MINUTE
    (minute,) = await History(database).traffic(until, MINUTE, 1)
    times = await History(database).times(clock.moment, until)
    assert (minute.submitted, minute.completed, times["work"].runs[step_of(1.0)]) == (3, 1, 1)


async def test_a_day_is_the_sum_of_its_minutes_whatever_was_kept(database: Database) -> None:
    clock = VirtualClock()
    history = History(database)
    for number in range(40):
        traffic = Traffic(database, clock, Metrics())
        traffic.completed("work", [0.01] * (number + 1))
        traffic.started("work", timedelta(seconds=1))
        await traffic.flush()
        end = clock.moment + MINUTE
        for span in (timedelta(hours=1), timedelta(hours=6), timedelta(days=1)):
            since = end - span
            times = (await history.times(since, end))["work"]
            assert times == (await History(database).times(since, end))["work"]
            wanted = [n + 1 for n in range(number + 1) if (number - n) * timedelta(minutes=41) < span]
            assert (sum(times.runs), sum(times.waits)) == (sum(wanted), len(wanted))
        clock.advance(minutes=41)
    assert len(history._quarters) == QUARTERS_KEPT


@pytest.mark.parametrize(
    ("seconds", "step"), [(-1.0, 0), (0.0, 0), (0.0001, 0), (0.00011, 1), (0.0002, 2), (1e9, STEPS - 1)]
)
def test_times_fall_into_steps(seconds: float, step: int) -> None:
    assert step_of(seconds) == step


@pytest.mark.parametrize("share", [0.5, 0.95, 0.99])
def test_percentiles_are_within_a_step_of_the_truth(share: float) -> None:
    chance = random.Random(7)
    times = sorted(math.exp(chance.gauss(-3, 1.5)) for _ in range(5000))
    histogram = [0] * STEPS
    for seconds in times:
        histogram[step_of(seconds)] += 1
    truth = times[math.ceil(share * len(times)) - 1]
    assert truth / math.sqrt(2) < percentile(histogram, share) < truth * math.sqrt(2)


def test_percentiles_of_nothing_and_of_one() -> None:
    assert percentile([0] * STEPS, 0.99) == 0
    lone = [0] * STEPS
    lone[step_of(2.0)] = 1
    assert percentile(lone, 0.5) == percentile(lone, 0.99) == pytest.approx(2.0, rel=0.2)


# Topics, errors, the server.


async def test_topics_are_listed_for_jobs_workers_schedules_and_recent_traffic(server: Server) -> None:
    await server.submit_many(2, "jobs", delay=MINUTE)
    await server.submit("jobs")
    await server.schedules.create_schedule(
        CreateScheduleRequest(
            definition=ScheduleDefinition(name="n", topic="schedules", cron=Cron(expression="0 0 * * *"))
        )
    )
    async with server.worker("traffic", "workers", capacity=3) as worker:
        await server.submit("traffic")
        await worker.complete(await worker.take_one())
        await server.app.traffic.flush()
        await server.app.presence.run_once()
        await server.dispatch.pause_dispatch(PauseDispatchRequest(topic="jobs"))
        server.clock.advance(seconds=5)
        topics = {topic.name: topic for topic in (await server.stats.list_topics(ListTopicsRequest())).topics}
    assert list(topics) == ["jobs", "schedules", "traffic", "workers"]
    jobs = topics["jobs"]
    assert (jobs.ready, jobs.later, jobs.running, jobs.paused) == (1, 2, 0, True)
    assert jobs.oldest_waiting == timedelta(seconds=5)
    workers = topics["workers"]
    assert (workers.workers, workers.free_slots, workers.paused, workers.oldest_waiting) == (1, 3, False, None)


async def test_traffic_alone_keeps_a_topic_listed_for_an_hour(server: Server) -> None:
    async with server.worker() as worker:
        await server.submit()
        await worker.complete(await worker.take_one())
    await server.app.traffic.flush()
    server.clock.advance(hours=1, minutes=1)
    assert (await server.stats.list_topics(ListTopicsRequest())).topics == []


async def test_errors_that_are_alike_are_grouped_the_most_frequent_first(server: Server) -> None:
    errors = [
        ("mail", "Traceback\n  line 3\nTimeoutError: no answer in 30 s"),
        ("mail", "Traceback\n  line 9\nTimeoutError: no answer in 31 s\n"),
        ("mail", f"KeyError: {uuid.uuid4()}"),
        ("mail", f"KeyError: {uuid.uuid4()}"),
        ("mail", f"KeyError: {uuid.uuid4()}"),
        ("video", f"KeyError: {uuid.uuid4()}"),
    ]
    ids = []
    async with server.worker("mail", "video") as worker:
        for topic, error in errors:
            ids.append(await server.submit(topic))
            server.clock.advance(seconds=1)
            await worker.fail(await worker.take_one(), error, discard=True)
    groups = (await server.stats.list_errors(ListErrorsRequest())).groups
    told = [(group.topic, group.summary, group.count, group.example_job_id) for group in groups]
    assert told == [
        ("mail", "KeyError: #", 3, ids[4]),
        ("mail", "TimeoutError: no answer in # s", 2, ids[1]),
        ("video", "KeyError: #", 1, ids[5]),
    ]
    assert groups[0].latest_at == server.clock.moment - timedelta(seconds=1)
    only = (await server.stats.list_errors(ListErrorsRequest(topic="video"))).groups
    assert [group.topic for group in only] == ["video"]


@pytest.mark.parametrize(
    ("error", "summary"),
    [
        ("", ""),
        ("\n \n", ""),
        ("boom", "boom"),
        ("object at 0x7fe6588 has 12 parts", "object at # has # parts"),
        ("first\nsecond 1\n", "second #"),
        ("x" * 500, "x" * 200),
    ],
)
def test_an_error_is_summed_up_by_its_last_line(error: str, summary: str) -> None:
    assert summarize_error(error) == summary


async def test_the_server_tells_what_it_is(server: Server) -> None:
    info = await server.stats.get_server_info(GetServerInfoRequest())
    assert str(uuid.UUID(info.server_id)) == info.server_id
    assert info.postgres_version.split(".")[0].isdigit()
    assert info.schema_version == await server.database.fetchval("SELECT max(version) FROM schema_migrations")
    assert info.default_lease == timedelta(seconds=30)
    assert info.started_at is not None
    assert info.started_at <= datetime.now(UTC)


# Large tables.


async def test_counting_reads_indexes_and_no_table(database: Database, database_dsn: str) -> None:
    connection = await asyncpg.connect(database_dsn)
    try:
        # VACUUM takes no page for visible to all before its commits are on disk, and the tests' Postgres can wait.
        await connection.execute("SET synchronous_commit = on")
        await connection.execute(
            "INSERT INTO jobs (id, topic, payload, content_type, priority, max_attempts, status, submitted_at,"
            " next_run_at, ready, finished_at) SELECT gen_random_uuid(), 'topic ' || n % 20, repeat('x', 100)::bytea,"
            " 'x', 0, 5, CASE WHEN n % 2 > 0 THEN 'COMPLETED' ELSE 'PENDING' END::job_status, now(), now(), n % 4 = 0,"
            " CASE WHEN n % 2 > 0 THEN now() END FROM generate_series(1, 200000) AS n"
        )
        await connection.execute("VACUUM ANALYZE jobs")
        nodes = await plan(connection, stats_queries.STATS_WAITING, None)
        scans = {node["Index Name"]: node for node in nodes if "Index Name" in node}
        assert set(scans) == {"jobs_ready", "jobs_later"}
        assert {node["Node Type"] for node in scans.values()} == {"Index Only Scan"}
        assert sum(node["Heap Fetches"] for node in scans.values()) == 0
        others = [
            (stats_queries.STATS_RUNNING,),
            (stats_queries.STATS_FINISHED, 10_000),
            (stats_queries.STATS_COMPLETED_ESTIMATE,),
            (stats_queries.DEAD_LETTER_ERRORS, None),
        ]
        for query, *arguments in others:
            nodes += await plan(connection, str(query), *arguments)
        assert [node for node in nodes if node["Node Type"] == "Seq Scan" and node["Relation Name"] == "jobs"] == []
        snapshot = await Stats(database, VirtualClock()).snapshot()
        assert sum(topic.ready + topic.later for topic in snapshot.topics.values()) == 100_000
    finally:
        await connection.close()


async def plan(connection: "asyncpg.Connection[asyncpg.Record]", query: str, *arguments: Any) -> list[dict[str, Any]]:
    """Every node of a statement's plan."""
    answer = await connection.fetchval(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {query}", *arguments)
    assert isinstance(answer, str)
    waiting, nodes = [json.loads(answer)[0]["Plan"]], []
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        waiting += node.get("Plans", [])
    return nodes
