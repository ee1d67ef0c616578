"""Schedules as people keep them: create, change, pause, trigger, delete, look at."""

import uuid
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from pulse_gen.rpc.pulse.v1 import (
    Backoff,
    BackoffKind,
    CreateScheduleRequest,
    Cron,
    DeleteScheduleRequest,
    Every,
    GetScheduleRequest,
    JobOptions,
    JobStatus,
    ListScheduleFiresRequest,
    ListSchedulesRequest,
    MisfirePolicy,
    PauseScheduleRequest,
    ResumeScheduleRequest,
    Schedule,
    ScheduleDefinition,
    TriggerScheduleRequest,
    Unique,
    UniqueScope,
    UpdateScheduleRequest,
)
from support.server import Server

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
NOBODY = "00000000-0000-7000-8000-000000000000"


def definition(**fields: Any) -> ScheduleDefinition:
    """Once an hour, unless the fields say otherwise."""
    if not fields.keys() & {"at", "every", "cron"}:
        fields["every"] = Every(interval=HOUR)
    return ScheduleDefinition(**{"name": "report", "topic": "work", "payload": b"{}"} | fields)


async def create(server: Server, schedule_id: str = "", **fields: Any) -> Schedule:
    request = CreateScheduleRequest(schedule_id=schedule_id, definition=definition(**fields))
    schedule = (await server.schedules.create_schedule(request)).schedule
    assert schedule is not None
    return schedule


async def get(server: Server, schedule: Schedule) -> Schedule:
    answer = await server.schedules.get_schedule(GetScheduleRequest(schedule_id=schedule.schedule_id))
    assert answer.schedule is not None
    return answer.schedule


async def update(server: Server, schedule: Schedule, **fields: Any) -> Schedule:
    request = UpdateScheduleRequest(schedule_id=schedule.schedule_id, definition=definition(**fields))
    updated = (await server.schedules.update_schedule(request)).schedule
    assert updated is not None
    return updated


async def trigger(server: Server, schedule: Schedule, job_id: str = "") -> tuple[str, bool]:
    answer = await server.schedules.trigger_schedule(
        TriggerScheduleRequest(schedule_id=schedule.schedule_id, job_id=job_id)
    )
    return answer.job_id, answer.existing


async def refusal(call: Coroutine[Any, Any, object]) -> tuple[Status, str]:
    with pytest.raises(GRPCError) as error:
        await call
    return error.value.status, error.value.message or ""


async def count(server: Server, table: str) -> int:
    number = await server.database.fetchval(f"SELECT count(*) FROM {table}")
    assert isinstance(number, int)
    return number


# Create and get.


async def test_a_schedule_is_stored_as_it_was_defined(timed_server: Server) -> None:
    server = timed_server
    options = JobOptions(
        priority=-4,
        max_attempts=2,
        backoff=Backoff(kind=BackoffKind.LINEAR, base=timedelta(seconds=3), cap=MINUTE, jitter=0.5),
        timeout=timedelta(seconds=9),
        lease=timedelta(seconds=20),
        unique=Unique(key="k", scope=UniqueScope.PERIOD, period=HOUR),
        tags=["a", "b"],
        metadata={"trace": "1"},
    )
    wanted = definition(
        payload=b"\x00\x01",
        content_type="application/octet-stream",
        options=options,
        cron=Cron(expression="0 9 * * *", timezone="Europe/Berlin"),
        misfire_policy=MisfirePolicy.ALL,
        misfire_limit=7,
    )
    answer = await server.schedules.create_schedule(CreateScheduleRequest(definition=wanted))
    schedule = answer.schedule
    assert schedule is not None
    assert schedule.definition == wanted
    assert (schedule.paused, schedule.last_fired_at) == (False, None)
    assert schedule.created_at == schedule.updated_at == server.clock.moment
    assert schedule.next_run_at == datetime(2026, 1, 6, 8, tzinfo=UTC)
    assert schedule.upcoming == [datetime(2026, 1, day, 8, tzinfo=UTC) for day in range(6, 11)]
    assert await get(server, schedule) == schedule


async def test_defaults_are_filled_in_and_shown(timed_server: Server) -> None:
    schedule = await create(timed_server, cron=Cron(expression="0 9 * * *"))
    stored = schedule.definition
    assert stored is not None
    assert stored.cron == Cron(expression="0 9 * * *", timezone="UTC")
    assert (stored.misfire_policy, stored.misfire_limit) == (MisfirePolicy.ONCE, 100)
    assert stored.content_type == "application/json"
    assert stored.options is not None
    assert stored.options.max_attempts == 5


@pytest.mark.parametrize(
    ("fields", "hours"),
    [
        ({"at": datetime(2026, 1, 5, 15, tzinfo=UTC)}, [3]),
        ({"every": Every(interval=HOUR)}, [1, 2, 3, 4, 5]),
        ({"every": Every(interval=2 * HOUR, start=datetime(2026, 1, 5, 15, tzinfo=UTC))}, [3, 5, 7, 9, 11]),
        ({"every": Every(interval=2 * HOUR, start=datetime(2020, 1, 1, 1, tzinfo=UTC))}, [1, 3, 5, 7, 9]),
        ({"cron": Cron(expression="0 */6 * * *")}, [6, 12, 18, 24, 30]),
    ],
)
async def test_the_next_five_occurrences_are_told(
    timed_server: Server, fields: dict[str, Any], hours: list[int]
) -> None:
    schedule = await create(timed_server, **fields)
    assert schedule.upcoming == [timed_server.clock.moment + hour * HOUR for hour in hours]
    assert schedule.next_run_at == schedule.upcoming[0]


@pytest.mark.parametrize(
    "timing",
    [
        {"at": datetime(2030, 1, 1, tzinfo=UTC)},
        {"every": Every(interval=HOUR)},
        {"every": Every(interval=HOUR, start=datetime(2026, 2, 1, tzinfo=UTC))},
        {"cron": Cron(expression="0 9 * * *", timezone="Asia/Kolkata")},
    ],
)
async def test_the_same_create_again_answers_with_what_is_there(timed_server: Server, timing: dict[str, Any]) -> None:
    schedule_id = str(uuid.uuid4())
    options = JobOptions(tags=["a"], metadata={"b": "c", "a": "d"}, timeout=timedelta(seconds=1.5))
    first = await create(timed_server, schedule_id, options=options, **timing)
    timed_server.advance(minutes=5)
    assert await create(timed_server, schedule_id, options=options, **timing) == first
    assert await count(timed_server, "schedules") == 1


@pytest.mark.parametrize(
    "other",
    [
        {"name": "another"},
        {"topic": "another"},
        {"payload": b"[]"},
        {"options": JobOptions(priority=1)},
        {"options": JobOptions(metadata={"a": "b"})},
        {"every": Every(interval=MINUTE)},
        {"every": Every(interval=HOUR, start=datetime(2026, 1, 6, tzinfo=UTC))},
        {"cron": Cron(expression="0 * * * *")},
        {"misfire_policy": MisfirePolicy.ALL},
        {"misfire_limit": 1},
    ],
)
async def test_an_id_that_names_another_schedule_is_refused(timed_server: Server, other: dict[str, Any]) -> None:
    schedule_id = str(uuid.uuid4())
    first = await create(timed_server, schedule_id)
    status, message = await refusal(create(timed_server, schedule_id, **other))
    assert status is Status.ALREADY_EXISTS
    assert message.startswith("schedule_id: ")
    assert await get(timed_server, first) == first


async def test_a_name_belongs_to_one_schedule(server: Server) -> None:
    await create(server)
    other = await create(server, name="other")
    for call in (create(server), create(server, str(uuid.uuid4())), update(server, other)):
        status, message = await refusal(call)
        assert status is Status.ALREADY_EXISTS
        assert message.startswith("definition.name: ")
    assert await count(server, "schedules") == 2


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": ""}, "definition.name"),
        ({"name": "n" * 256}, "definition.name"),
        ({"name": "a\0b"}, "definition.name"),
        ({"topic": ""}, "definition.topic"),
        ({"topic": "t\0"}, "definition.topic"),
        ({"payload": b"\xff"}, "definition.payload"),
        ({"payload": b"x" * (1 << 20 | 1)}, "definition.payload"),
        ({"content_type": "a\0b"}, "definition.content_type"),
        ({"options": JobOptions(max_attempts=-1)}, "definition.options.max_attempts"),
        ({"options": JobOptions(unique=Unique())}, "definition.options.unique.key"),
        ({"every": Every()}, "definition.every.interval"),
        ({"every": Every(interval=timedelta(seconds=0.5))}, "definition.every.interval"),
        ({"every": Every(interval=-HOUR)}, "definition.every.interval"),
        ({"every": Every(interval=timedelta(days=367))}, "definition.every.interval"),
        ({"cron": Cron()}, "definition.cron.expression"),
        ({"cron": Cron(expression="at nine")}, "definition.cron.expression"),
        ({"cron": Cron(expression="* * * *")}, "definition.cron.expression"),
        ({"cron": Cron(expression="61 * * * *")}, "definition.cron.expression"),
        ({"cron": Cron(expression="0 0 30 2 *")}, "definition.cron.expression"),
        ({"cron": Cron(expression="0 0 31 2 *")}, "definition.cron.expression"),
        ({"cron": Cron(expression="0 0 */31 2 SUN#5")}, "definition.cron.expression"),
        ({"cron": Cron(expression="0 0 * * *", timezone="Europe/Atlantis")}, "definition.cron.timezone"),
        ({"cron": Cron(expression="0 0 * * *", timezone="../../etc/passwd")}, "definition.cron.timezone"),
        ({"cron": Cron(expression="0 0 * * *", timezone="Europe")}, "definition.cron.timezone"),
        ({"cron": Cron(expression="0 0 * * *", timezone="a\0b")}, "definition.cron.timezone"),
        ({"misfire_policy": 9}, "definition.misfire_policy"),
        ({"misfire_limit": -1}, "definition.misfire_limit"),
        ({"misfire_limit": 1001}, "definition.misfire_limit"),
    ],
)
async def test_a_bad_definition_is_refused_by_its_field_and_changes_nothing(
    server: Server, fields: dict[str, Any], field: str
) -> None:
    kept = await create(server, name="kept")
    for call in (create(server, **fields), update(server, kept, **fields)):
        status, message = await refusal(call)
        assert status is Status.INVALID_ARGUMENT
        assert message.startswith(f"{field}: ")
    assert await count(server, "schedules") == 1
    assert await get(server, kept) == kept


async def test_a_definition_that_is_missing_is_refused_by_its_field(server: Server) -> None:
    untimed = ScheduleDefinition(name="n", topic="t")
    for wanted, field in ((None, "definition"), (untimed, "definition.timing")):
        status, message = await refusal(server.schedules.create_schedule(CreateScheduleRequest(definition=wanted)))
        assert status is Status.INVALID_ARGUMENT
        assert message.startswith(f"{field}: ")


CALLS: dict[str, Callable[[Server, str], Coroutine[Any, Any, object]]] = {
    "get": lambda server, id_: server.schedules.get_schedule(GetScheduleRequest(schedule_id=id_)),
    "update": lambda server, id_: server.schedules.update_schedule(
        UpdateScheduleRequest(schedule_id=id_, definition=definition())
    ),
    "pause": lambda server, id_: server.schedules.pause_schedule(PauseScheduleRequest(schedule_id=id_)),
    "resume": lambda server, id_: server.schedules.resume_schedule(ResumeScheduleRequest(schedule_id=id_)),
    "trigger": lambda server, id_: server.schedules.trigger_schedule(TriggerScheduleRequest(schedule_id=id_)),
    "delete": lambda server, id_: server.schedules.delete_schedule(DeleteScheduleRequest(schedule_id=id_)),
}


async def test_what_does_not_exist_is_not_found(server: Server) -> None:
    for call in CALLS.values():
        assert (await refusal(call(server, NOBODY)))[0] is Status.NOT_FOUND
    assert await count(server, "jobs") == 0


async def test_an_id_that_is_none_is_refused_by_its_field(server: Server) -> None:
    fires = server.schedules.list_schedule_fires(ListScheduleFiresRequest(schedule_id="x"))
    for call in (*(call(server, "x") for call in CALLS.values()), create(server, "x"), fires):
        status, message = await refusal(call)
        assert status is Status.INVALID_ARGUMENT
        assert message.startswith("schedule_id: ")


# List.


async def test_schedules_are_listed_by_name_a_page_at_a_time(server: Server) -> None:
    for name in ("d", "b", "e", "a", "c"):
        await create(server, name=name, topic="vowel" if name in "ae" else "consonant")
    pages, token = [], ""
    while True:
        answer = await server.schedules.list_schedules(ListSchedulesRequest(page_size=2, page_token=token))
        pages.append([schedule.definition.name for schedule in answer.schedules if schedule.definition])
        token = answer.next_page_token
        if not token:
            break
    assert pages == [["a", "b"], ["c", "d"], ["e"]]
    answer = await server.schedules.list_schedules(ListSchedulesRequest(topic="vowel"))
    assert [schedule.definition.name for schedule in answer.schedules if schedule.definition] == ["a", "e"]
    exact = await server.schedules.list_schedules(ListSchedulesRequest(page_size=5))
    assert exact.next_page_token == ""


async def test_a_page_token_fits_its_own_query_only(server: Server) -> None:
    for name in ("a", "b"):
        await create(server, name=name)
    first = await server.schedules.list_schedules(ListSchedulesRequest(page_size=1))
    stolen = ListSchedulesRequest(topic="work", page_size=1, page_token=first.next_page_token)
    status, message = await refusal(server.schedules.list_schedules(stolen))
    assert status is Status.INVALID_ARGUMENT
    assert message.startswith("page_token: ")


async def test_a_schedule_in_a_zone_unknown_here_is_listed_all_the_same(server: Server) -> None:
    schedule = await create(server, cron=Cron(expression="0 9 * * *", timezone="Europe/Berlin"))
    await server.database.execute("UPDATE schedules SET timezone = 'Europe/Atlantis'")
    answer = await server.schedules.list_schedules(ListSchedulesRequest())
    assert [found.schedule_id for found in answer.schedules] == [schedule.schedule_id]
    assert answer.schedules[0].upcoming == [schedule.next_run_at]


# Update.


async def test_an_update_replaces_the_definition_and_counts_from_now(timed_server: Server) -> None:
    server = timed_server
    schedule = await create(server)
    server.advance(minutes=50)
    updated = await update(server, schedule, name="renamed", payload=b"[]", every=Every(interval=2 * HOUR))
    assert updated.definition is not None
    assert (updated.definition.name, updated.definition.payload) == ("renamed", b"[]")
    assert updated.next_run_at == server.clock.moment + 2 * HOUR
    assert (updated.created_at, updated.updated_at) == (schedule.created_at, server.clock.moment)
    assert await get(server, updated) == updated
    server.advance(hours=2)
    async with server.worker() as worker:
        assignment = await worker.take_one()
    assert (assignment.payload, assignment.scheduled_for) == (b"[]", server.clock.moment)
    assert await server.database.fetchval("SELECT count(*) FROM jobs") == 1


async def test_an_update_leaves_a_paused_schedule_paused(timed_server: Server) -> None:
    schedule = await create(timed_server)
    await timed_server.schedules.pause_schedule(PauseScheduleRequest(schedule_id=schedule.schedule_id))
    assert (await update(timed_server, schedule, payload=b"[]")).paused


async def test_an_update_of_a_moment_long_over_does_not_fire_it_again(timed_server: Server) -> None:
    server = timed_server
    moment = server.clock.moment + HOUR
    schedule = await create(server, at=moment)
    async with server.worker() as worker:
        server.advance(hours=1)
        await worker.complete(await worker.take_one())
        server.advance(days=3)
        await server.database.execute("DELETE FROM jobs")  # as retention does
        updated = await update(server, schedule, at=moment, name="renamed")
        assert (updated.next_run_at, updated.upcoming) == (None, [])
        soon = await update(server, schedule, at=server.clock.moment, name="again")
        assert soon.next_run_at == server.clock.moment
        assert (await worker.take_one()).scheduled_for == server.clock.moment


# Pause, resume, trigger, delete.


async def test_occurrences_that_pass_while_paused_are_not_made_up_for(timed_server: Server) -> None:
    server = timed_server
    schedule = await create(server, misfire_policy=MisfirePolicy.ALL)
    await server.schedules.pause_schedule(PauseScheduleRequest(schedule_id=schedule.schedule_id))
    assert (await get(server, schedule)).paused
    server.advance(hours=3, minutes=10)
    resumed = await server.schedules.resume_schedule(ResumeScheduleRequest(schedule_id=schedule.schedule_id))
    start = schedule.created_at
    assert start is not None
    assert resumed.next_run_at == start + 4 * HOUR
    after = await get(server, schedule)
    assert (after.paused, after.next_run_at) == (False, start + 4 * HOUR)
    server.advance(minutes=50)
    async with server.worker() as worker:
        assert (await worker.take_one()).scheduled_for == start + 4 * HOUR
    assert await count(server, "jobs") == 1


async def test_a_resume_of_what_is_not_paused_changes_nothing(timed_server: Server) -> None:
    schedule = await create(timed_server)
    timed_server.advance(minutes=1)
    answer = await timed_server.schedules.resume_schedule(ResumeScheduleRequest(schedule_id=schedule.schedule_id))
    assert answer.next_run_at == schedule.next_run_at


async def test_a_moment_that_passed_while_paused_is_over(timed_server: Server) -> None:
    schedule = await create(timed_server, at=timed_server.clock.moment + MINUTE)
    await timed_server.schedules.pause_schedule(PauseScheduleRequest(schedule_id=schedule.schedule_id))
    timed_server.advance(minutes=2)
    answer = await timed_server.schedules.resume_schedule(ResumeScheduleRequest(schedule_id=schedule.schedule_id))
    assert answer.next_run_at is None


@pytest.mark.parametrize("paused", [False, True])
async def test_a_trigger_makes_one_job_now_beside_the_occurrences(timed_server: Server, paused: bool) -> None:
    server = timed_server
    schedule = await create(server, payload=b"[1]", options=JobOptions(priority=2))
    if paused:
        await server.schedules.pause_schedule(PauseScheduleRequest(schedule_id=schedule.schedule_id))
    async with server.worker() as worker:
        job_id, existing = await trigger(server, schedule)
        assignment = await worker.take_one()
    assert not existing
    assert (assignment.job_id, assignment.payload, assignment.priority) == (job_id, b"[1]", 2)
    assert (assignment.schedule_id, assignment.scheduled_for) == (schedule.schedule_id, None)
    after = await get(server, schedule)
    assert (after.next_run_at, after.paused) == (schedule.next_run_at, paused)


async def test_a_trigger_repeated_with_its_job_id_makes_one_job(server: Server) -> None:
    schedule = await create(server)
    job_id = str(uuid.uuid4())
    assert await trigger(server, schedule, job_id) == (job_id, False)
    assert await trigger(server, schedule, job_id) == (job_id, True)
    assert await count(server, "jobs") == 1
    stranger = await server.submit("other")
    status, message = await refusal(trigger(server, schedule, stranger))
    assert status is Status.ALREADY_EXISTS
    assert message.startswith("job_id: ")


async def test_a_trigger_while_the_unique_key_is_taken_names_its_holder(server: Server) -> None:
    schedule = await create(server, options=JobOptions(unique=Unique(key="k")))
    first, _ = await trigger(server, schedule)
    assert await trigger(server, schedule) == (first, True)


async def test_a_deleted_schedule_leaves_its_jobs(timed_server: Server) -> None:
    server = timed_server
    schedule = await create(server)
    job_id, _ = await trigger(server, schedule)
    await server.schedules.delete_schedule(DeleteScheduleRequest(schedule_id=schedule.schedule_id))
    for call in CALLS.values():
        assert (await refusal(call(server, schedule.schedule_id)))[0] is Status.NOT_FOUND
    job = await server.job(job_id)
    assert (job.status, job.schedule_id) == (JobStatus.PENDING, schedule.schedule_id)
    fires = await server.schedules.list_schedule_fires(ListScheduleFiresRequest(schedule_id=schedule.schedule_id))
    assert [job.job_id for job in fires.jobs] == [job_id]


async def test_fires_are_listed_latest_first_a_page_at_a_time(timed_server: Server) -> None:
    server = timed_server
    schedule = await create(server)
    other = await create(server, name="other", cron=Cron(expression="0 0 1 1 *"))
    expected = []
    for _ in range(5):
        expected.append((await trigger(server, schedule))[0])
        await trigger(server, other)
    pages, token = [], ""
    while True:
        request = ListScheduleFiresRequest(schedule_id=schedule.schedule_id, page_size=2, page_token=token)
        answer = await server.schedules.list_schedule_fires(request)
        pages.append([job.job_id for job in answer.jobs])
        assert {job.payload for job in answer.jobs} == {b""}
        token = answer.next_page_token
        if not token:
            break
    assert pages == [expected[:2:-1], expected[2:0:-1], expected[:1]]
    first = await server.schedules.list_schedule_fires(
        ListScheduleFiresRequest(schedule_id=schedule.schedule_id, page_size=2)
    )
    stolen = ListScheduleFiresRequest(schedule_id=other.schedule_id, page_token=first.next_page_token)
    assert (await refusal(server.schedules.list_schedule_fires(stolen)))[0] is Status.INVALID_ARGUMENT
