"""The scheduler: each occurrence makes exactly one job, whoever fires it and wherever that fails."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import asyncpg
import pytest
from asyncpg.transaction import Transaction

from pulse_gen.db.models import Schedule
from pulse_gen.rpc.pulse.v1 import (
    CreateScheduleRequest,
    Cron,
    Every,
    JobOptions,
    MisfirePolicy,
    PauseDispatchRequest,
    ResumeDispatchRequest,
    ScheduleDefinition,
    Unique,
    UniqueScope,
)
from pulsed.database import Connection, Database, Lane, open_database
from pulsed.dispatcher import Dispatcher
from pulsed.errors import Unavailable
from pulsed.identifiers import new_id
from pulsed.metrics import Metrics
from pulsed.notifications import Notifier
from pulsed.occurrences import occurrence_id
from pulsed.pause import PauseGate
from pulsed.scheduler import SCHEDULES_AT_ONCE, Scheduler
from pulsed.schedules import Schedules, read_definition
from pulsed.settings import load_settings
from pulsed.traffic import Traffic
from support.server import Server, VirtualClock, running_server

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Parts:
    """What fires schedules, without the loops of a server: nothing happens unless the test says so."""

    clock: VirtualClock
    database: Database
    dispatcher: Dispatcher
    traffic: Traffic
    scheduler: Scheduler
    schedules: Schedules
    watcher: "asyncpg.Connection[asyncpg.Record]"

    async def create(self, name: str = "report", **fields: Any) -> Schedule:
        if not fields.keys() & {"at", "every", "cron"}:
            fields["every"] = Every(interval=MINUTE)
        definition = ScheduleDefinition(name=name, **{"topic": "work", "payload": b"{}"} | fields)
        return await self.schedules.create(new_id(), read_definition("definition", definition, max_payload=1000))

    async def fire(self) -> None:
        while await self.scheduler.run_once():
            pass

    async def occurrences(self) -> list[datetime]:
        """The occurrences that have a job, in the order in which they were stored."""
        rows = await self.watcher.fetch("SELECT scheduled_for FROM jobs ORDER BY seq")
        return [row["scheduled_for"] for row in rows]

    async def stored(self, schedule: Schedule) -> asyncpg.Record:
        row = await self.watcher.fetchrow("SELECT * FROM schedules WHERE id = $1", schedule.id)
        assert row is not None
        return row


@asynccontextmanager
async def open_parts(dsn: str, clock: VirtualClock) -> AsyncIterator[Parts]:
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(
            open_database(dsn, pool_size=2, timeout=timedelta(seconds=20), prepared_statements=True)
        )
        watcher = await asyncpg.connect(dsn)
        stack.push_async_callback(watcher.close)
        traffic = Traffic(database, clock, Metrics())
        notifier = Notifier(database, new_id())
        gate = PauseGate(database, clock, notifier)
        dispatcher = Dispatcher(database, clock, gate, notifier, traffic, load_settings())
        scheduler = Scheduler(database, clock, dispatcher, traffic)
        schedules = Schedules(database, clock, dispatcher, traffic)
        yield Parts(clock, database, dispatcher, traffic, scheduler, schedules, watcher)


@pytest.fixture
async def parts(database_dsn: str) -> AsyncIterator[Parts]:
    async with open_parts(database_dsn, VirtualClock()) as parts:
        yield parts


async def test_each_occurrence_makes_one_job_that_names_it(parts: Parts) -> None:
    start = parts.clock.moment
    schedule = await parts.create(payload=b'{"a": 1}', options=JobOptions(priority=3, tags=["t"]))
    await parts.fire()
    assert await parts.occurrences() == []
    expected = []
    for minute in range(1, 4):
        parts.clock.advance(minutes=1)
        expected.append(start + minute * MINUTE)
        for _ in range(2):
            await parts.fire()
            assert await parts.occurrences() == expected
    rows = await parts.watcher.fetch("SELECT * FROM jobs ORDER BY seq")
    assert [row["id"] for row in rows] == [occurrence_id(schedule.id, occurrence) for occurrence in expected]
    assert {row["schedule_id"] for row in rows} == {schedule.id}
    assert {(row["topic"], row["payload"], row["priority"], *row["tags"]) for row in rows} == {
        ("work", b'{"a": 1}', 3, "t")
    }
    assert {(row["status"], row["ready"]) for row in rows} == {("PENDING", True)}
    stored = await parts.stored(schedule)
    assert (stored["last_fired_at"], stored["next_run_at"]) == (expected[-1], expected[-1] + MINUTE)


async def test_a_moment_fires_once_and_then_there_is_no_next(parts: Parts) -> None:
    at = parts.clock.moment + timedelta(seconds=0.123457)
    schedule = await parts.create(at=at)
    parts.clock.advance(minutes=1)
    await parts.fire()
    assert await parts.occurrences() == [at]
    assert (await parts.stored(schedule))["next_run_at"] is None
    parts.clock.advance(days=1)
    await parts.fire()
    assert await parts.occurrences() == [at]


async def test_cron_fires_through_a_clock_change(parts: Parts) -> None:
    parts.clock.moment = datetime(2026, 10, 24, 23, 30, tzinfo=UTC)
    await parts.create(cron=Cron(expression="30 2 * * *", timezone="Europe/Berlin"))
    for _ in range(30 * 6):  # ten minutes each, over the hour that comes twice
        parts.clock.advance(minutes=10)
        await parts.fire()
    assert await parts.occurrences() == [
        datetime(2026, 10, 25, 0, 30, tzinfo=UTC),
        datetime(2026, 10, 26, 1, 30, tzinfo=UTC),
    ]


@pytest.mark.parametrize(
    ("policy", "expected"), [(MisfirePolicy.SKIP, []), (MisfirePolicy.ONCE, [4]), (MisfirePolicy.ALL, [2, 3, 4])]
)
async def test_occurrences_missed_in_an_absence_follow_the_policy(
    parts: Parts, policy: MisfirePolicy, expected: list[int]
) -> None:
    start = parts.clock.moment
    hour = timedelta(hours=1)
    schedule = await parts.create(every=Every(interval=hour), misfire_policy=policy, misfire_limit=3)
    parts.clock.advance(hours=4, minutes=30)
    await parts.fire()
    fired = [start + hours * hour for hours in expected]
    assert await parts.occurrences() == fired
    stored = await parts.stored(schedule)
    assert stored["next_run_at"] == start + 5 * hour
    assert stored["last_fired_at"] == (fired[-1] if fired else None)


async def test_a_thousand_missed_occurrences_come_oldest_first(parts: Parts) -> None:
    await parts.create(every=Every(interval=timedelta(seconds=1)), misfire_policy=MisfirePolicy.ALL, misfire_limit=1000)
    parts.clock.advance(days=365)
    await parts.fire()
    now = parts.clock.moment
    assert await parts.occurrences() == [now - timedelta(seconds=ago) for ago in range(1060, -1, -1)]


async def test_more_schedules_than_one_step_takes_all_fire(parts: Parts) -> None:
    count = SCHEDULES_AT_ONCE + 20
    for number in range(count):
        await parts.create(f"schedule {number}")
    parts.clock.advance(minutes=1)
    assert await parts.scheduler.run_once()
    assert len(await parts.occurrences()) == SCHEDULES_AT_ONCE
    assert not await parts.scheduler.run_once()
    assert len(await parts.occurrences()) == count


async def test_a_unique_key_leaves_out_occurrences_while_it_is_taken(parts: Parts) -> None:
    schedule = await parts.create(
        options=JobOptions(unique=Unique(key="k")), misfire_policy=MisfirePolicy.ALL, misfire_limit=10
    )
    parts.clock.advance(minutes=3)
    first, _, third = (parts.clock.moment - ago * MINUTE for ago in (2, 1, 0))
    await parts.fire()
    assert await parts.occurrences() == [first]
    assert (await parts.stored(schedule))["last_fired_at"] == first
    assert (await parts.stored(schedule))["next_run_at"] == third + MINUTE
    await parts.watcher.execute("UPDATE jobs SET status = 'COMPLETED', finished_at = now(), ready = false,"
                                " unique_held = false")  # fmt: skip
    parts.clock.advance(minutes=1)
    await parts.fire()
    assert await parts.occurrences() == [first, third + MINUTE]


async def test_a_unique_key_for_a_period_leaves_out_occurrences_within_it(parts: Parts) -> None:
    unique = Unique(key="k", scope=UniqueScope.PERIOD, period=timedelta(minutes=2.5))
    await parts.create(options=JobOptions(unique=unique))
    start = parts.clock.moment
    for _ in range(6):
        parts.clock.advance(minutes=1)
        await parts.fire()
    assert await parts.occurrences() == [start + MINUTE, start + 4 * MINUTE]


async def test_many_schedulers_at_once_make_one_job_for_each_occurrence(database_dsn: str) -> None:
    clock = VirtualClock()
    async with AsyncExitStack() as stack:
        replicas = [await stack.enter_async_context(open_parts(database_dsn, clock)) for _ in range(4)]
        parts = replicas[0]
        schedules = [await parts.create(f"schedule {number}") for number in range(7)]
        start = clock.moment
        for _ in range(5):
            clock.advance(minutes=1)
            await asyncio.gather(*(replica.fire() for replica in replicas * 2))
        rows = await parts.watcher.fetch("SELECT schedule_id, scheduled_for FROM jobs")
        assert sorted((row["schedule_id"], row["scheduled_for"]) for row in rows) == sorted(
            (schedule.id, start + minute * MINUTE) for schedule in schedules for minute in range(1, 6)
        )


async def test_a_schedule_that_another_server_is_firing_is_skipped_not_waited_for(parts: Parts) -> None:
    taken = await parts.create("taken")
    await parts.create("free")
    parts.clock.advance(minutes=1)
    async with parts.watcher.transaction():
        await parts.watcher.execute("SELECT FROM schedules WHERE id = $1 FOR UPDATE", taken.id)
        await parts.fire()
        assert len(await parts.occurrences()) == 1
    await parts.fire()
    assert len(await parts.occurrences()) == 2


class CrashingLane(Lane):
    """A lane whose transaction loses its backend right before its n-th statement; the commit is the last one."""

    def __init__(self, lane: Lane, killer: "asyncpg.Connection[asyncpg.Record]", survives: int) -> None:
        self._lane = lane
        self._killer = killer
        self._left = survives

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        async with self._lane.transaction() as connection:
            yield cast(Connection, CrashingConnection(self, connection))
            await self.statement(connection)

    async def statement(self, connection: Connection) -> None:
        if self._left == 0:
            await self._killer.execute("SELECT pg_terminate_backend($1, 5000)", connection.get_server_pid())
        self._left -= 1


class CrashingConnection:
    """Passes statements on until the lane says that it is over."""

    def __init__(self, lane: CrashingLane, connection: Connection) -> None:
        self._lane = lane
        self._connection = connection

    def is_in_transaction(self) -> bool:
        return self._connection.is_in_transaction()

    def transaction(self) -> Transaction:
        return self._connection.transaction()

    async def fetch(self, query: str, *args: Any, timeout: float | None = None) -> list[Any]:
        await self._lane.statement(self._connection)
        return await self._connection.fetch(query, *args, timeout=timeout)

    async def fetchrow(self, query: str, *args: Any, timeout: float | None = None) -> Any:
        await self._lane.statement(self._connection)
        return await self._connection.fetchrow(query, *args, timeout=timeout)

    async def fetchval(self, query: str, *args: Any, timeout: float | None = None) -> Any:
        await self._lane.statement(self._connection)
        return await self._connection.fetchval(query, *args, timeout=timeout)

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        await self._lane.statement(self._connection)
        return await self._connection.execute(query, *args, timeout=timeout)


async def test_a_crash_before_any_statement_leaves_nothing_behind_and_the_next_run_fires_once(parts: Parts) -> None:
    plain = await parts.create("plain")
    await parts.create("keyed", options=JobOptions(unique=Unique(key="k")))
    parts.clock.advance(minutes=1)
    before = await parts.stored(plain)
    survived = 0
    while True:
        work = CrashingLane(parts.database.work, parts.watcher, survived)
        database = replace(parts.database, work=work)
        scheduler = Scheduler(database, parts.clock, parts.dispatcher, parts.traffic)
        try:
            await scheduler.run_once()
            break
        except Unavailable:
            assert await parts.occurrences() == []
            assert await parts.stored(plain) == before
        survived += 1
    # The clock, what is due, for each schedule its jobs and its cursor, and the commit; keys take two more.
    assert survived == 9
    assert len(await parts.occurrences()) == 2
    await parts.fire()
    assert len(await parts.occurrences()) == 2


async def test_a_schedule_that_cannot_be_read_does_not_stop_the_others(
    parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    lost = await parts.create("lost", cron=Cron(expression="* * * * *", timezone="Europe/Berlin"))
    await parts.watcher.execute("UPDATE schedules SET timezone = 'Europe/Atlantis' WHERE id = $1", lost.id)
    await parts.create("good")
    for minute in range(1, 4):
        parts.clock.advance(minutes=1)
        await parts.fire()
        assert len(await parts.occurrences()) == minute
    assert [record.schedule_id for record in caplog.records if hasattr(record, "schedule_id")] == [str(lost.id)]
    # Nothing is lost: a server that knows the zone fires what is due.
    await parts.watcher.execute("UPDATE schedules SET timezone = 'Europe/Berlin' WHERE id = $1", lost.id)
    await Scheduler(parts.database, parts.clock, parts.dispatcher, parts.traffic).run_once()
    assert len(await parts.occurrences()) > 3


async def test_paused_schedules_do_not_fire(parts: Parts) -> None:
    schedule = await parts.create()
    await parts.schedules.pause(schedule.id)
    parts.clock.advance(minutes=5)
    await parts.fire()
    assert await parts.occurrences() == []


# The whole server.


async def test_a_schedule_reaches_its_worker_by_itself(timed_server: Server) -> None:
    server = timed_server
    definition = ScheduleDefinition(name="n", topic="work", payload=b"{}", every=Every(interval=MINUTE))
    answer = await server.schedules.create_schedule(CreateScheduleRequest(definition=definition))
    assert answer.schedule is not None
    async with server.worker() as worker:
        for _ in range(3):
            server.advance(minutes=1)
            assignment = await worker.take_one()
            assert assignment.schedule_id == answer.schedule.schedule_id
            assert assignment.scheduled_for == server.clock.moment
            await worker.complete(assignment)


async def test_a_pause_of_dispatch_does_not_stop_schedules(timed_server: Server) -> None:
    server = timed_server
    await server.dispatch.pause_dispatch(PauseDispatchRequest())
    definition = ScheduleDefinition(
        name="n", topic="work", payload=b"{}", every=Every(interval=MINUTE), misfire_policy=MisfirePolicy.ALL
    )
    await server.schedules.create_schedule(CreateScheduleRequest(definition=definition))
    start = server.clock.moment
    async with server.worker() as worker:
        for _ in range(3):
            server.advance(minutes=1)
            await server.app.scheduler.run_once()
        assert worker.arrived.empty()
        await server.dispatch.resume_dispatch(ResumeDispatchRequest())
        fired = [assignment.scheduled_for for assignment in await worker.take(3)]
    assert fired == [start + minute * MINUTE for minute in (1, 2, 3)]


async def test_three_servers_with_their_own_loops_fire_each_occurrence_once(database_dsn: str) -> None:
    clock = VirtualClock()
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(running_server(database_dsn, clock=clock)) for _ in range(3)]
        server = servers[0]
        definition = ScheduleDefinition(name="n", topic="work", payload=b"{}", every=Every(interval=MINUTE))
        await server.schedules.create_schedule(CreateScheduleRequest(definition=definition))
        start = clock.moment
        async with server.worker() as worker:
            for minute in range(1, 6):
                clock.advance(minutes=1)
                for replica in servers:
                    replica.app.dispatcher.probe_soon()
                assignment = await worker.take_one()
                assert assignment.scheduled_for == start + minute * MINUTE
                await worker.complete(assignment)
        ids = await server.database.fetch("SELECT id FROM jobs")
        assert len(ids) == 5
        assert uuid.UUID(assignment.job_id) in {row["id"] for row in ids}
