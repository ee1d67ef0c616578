"""Enqueue, look, change: everything that a producer and an operator do, against a real server."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

import pulse


class EmailArgs(BaseModel):
    to: str
    copies: int = 1


@dataclass
class Point:
    x: int
    y: int


class Row(TypedDict):
    name: str


async def test_every_option_of_a_job_arrives(client: pulse.Pulse) -> None:
    run_at = datetime.now(UTC) + timedelta(hours=1)
    job_id = await client.enqueue(
        "send-email",
        EmailArgs(to="a@b.c"),
        priority=7,
        max_attempts=3,
        backoff=pulse.Backoff(pulse.BackoffKind.EXPONENTIAL, base=2, cap=timedelta(minutes=5), jitter=0.5),
        timeout=30,
        lease=timedelta(seconds=90),
        unique=pulse.Unique("a@b.c", period=60),
        tags=["mail", "urgent"],
        metadata={"trace": "1"},
        run_at=run_at,
    )
    job = await client.get_job(job_id)
    assert job.status is pulse.JobStatus.PENDING
    assert job.json() == {"to": "a@b.c", "copies": 1}
    assert job.next_run_at == run_at
    assert job.options == pulse.JobOptions(
        priority=7,
        max_attempts=3,
        backoff=pulse.Backoff(pulse.BackoffKind.EXPONENTIAL, timedelta(seconds=2), timedelta(minutes=5), jitter=0.5),
        timeout=timedelta(seconds=30),
        lease=timedelta(seconds=90),
        unique=job.options.unique,
        tags=("mail", "urgent"),
        metadata={"trace": "1"},
    )
    assert job.options.unique is not None
    assert job.options.unique.key == "a@b.c"


async def test_options_of_a_call_win_over_those_of_the_task_and_tags_add_up(client: pulse.Pulse) -> None:
    @client.task("send-email", priority=1, max_attempts=8, tags=["mail"])
    async def send_email(args: EmailArgs) -> None: ...

    job = await client.get_job(await send_email.enqueue(EmailArgs(to="a"), priority=5, tags=["late"], delay=60))
    assert (job.priority, job.max_attempts, job.tags) == (5, 8, ("mail", "late"))
    assert job.next_run_at is not None
    assert job.next_run_at > job.submitted_at + timedelta(seconds=59)


@pytest.mark.parametrize(
    ("annotation", "args", "payload"),
    [
        (EmailArgs, {"to": "a"}, b'{"to":"a","copies":1}'),
        (Point, Point(1, 2), b'{"x":1,"y":2}'),
        (Row, {"name": "n"}, b'{"name":"n"}'),
        (dict, {"any": [1, None]}, b'{"any":[1,null]}'),
        (bytes, b"\x00\xff", b"\x00\xff"),
        (list[int], [1, 2], b"[1,2]"),
    ],
)
async def test_arguments_travel_by_their_annotation(
    client: pulse.Pulse, annotation: Any, args: Any, payload: bytes
) -> None:
    def handler(args: Any) -> None: ...

    handler.__annotations__["args"] = annotation
    client.register("typed", handler)
    assert (await client.get_job(await client.enqueue("typed", args))).payload == payload


async def test_repeating_an_id_makes_one_job(client: pulse.Pulse) -> None:
    first = await client.submit("t", {"n": 1}, job_id="018f2c5e-1111-7000-8000-000000000001")
    again = await client.submit("t", {"n": 1}, job_id="018f2c5e-1111-7000-8000-000000000001")
    assert (first.existing, again.existing) == (False, True)
    assert first.job_id == again.job_id


async def test_unique_key_answers_with_the_job_that_holds_it(client: pulse.Pulse) -> None:
    first = await client.submit("t", None, unique="k")
    second = await client.submit("t", None, unique="k")
    assert second == pulse.Submitted(job_id=first.job_id, existing=True)


async def test_enqueue_many_goes_in_chunks_in_order_and_tells_its_progress(client: pulse.Pulse) -> None:
    @client.task("send-email", priority=3)
    async def send_email(args: EmailArgs) -> None: ...

    progress: list[int] = []
    items = (EmailArgs(to=str(number)) for number in range(250))
    ids = await send_email.enqueue_many(items, chunk_size=100, on_progress=progress.append, tags=["bulk"])
    assert progress == [100, 200, 250]
    assert len(set(ids)) == 250
    listed = [job.id async for job in client.list_jobs(tags=["bulk"], page_size=60)]
    assert listed == ids[::-1]
    assert (await client.get_job(ids[120])).json()["to"] == "120"


async def test_enqueue_many_stops_at_a_bad_item_and_leaves_nothing_running(client: pulse.Pulse) -> None:
    with pytest.raises(pulse.InvalidPayload):
        await client.enqueue_many("t", [1, 2, object(), 4], chunk_size=2)
    assert (await client.count_jobs(topic="t")).count <= 2


async def test_jobs_are_found_by_filter(client: pulse.Pulse) -> None:
    await client.enqueue_many("a", [{"n": n} for n in range(3)], priority=5)
    await client.enqueue("b", {"n": 1}, tags=["x"])
    assert [job.topic async for job in client.list_jobs(topic="b")] == ["b"]
    assert (await client.count_jobs(topic=["a", "b"], status="pending")).count == 4
    assert (await client.count_jobs(min_priority=5, payload_contains={"n": 1})).count == 1
    assert [job.payload async for job in client.list_jobs(limit=2)] == [b"", b""]
    page = await client.list_jobs_page(page_size=3)
    rest = await client.list_jobs_page(page_size=3, page_token=page.next_page_token or "")
    assert (len(page), len(rest), rest.next_page_token) == (3, 1, None)


async def test_cancel_retry_priority_delete_and_explain(client: pulse.Pulse) -> None:
    job_id = await client.enqueue("t", None)
    await client.update_job_priority(job_id, 9)
    explanation = await client.explain_job(job_id)
    assert explanation.reason is pulse.HoldReason.NO_WORKER
    assert explanation.job.priority == 9
    assert explanation.text
    assert await client.cancel_job(job_id) is pulse.JobStatus.CANCELED
    with pytest.raises(pulse.FailedPrecondition):
        await client.cancel_job(job_id)
    await client.retry_job(job_id)
    assert (await client.get_job(job_id)).status is pulse.JobStatus.PENDING
    await client.delete_job(job_id)
    with pytest.raises(pulse.NotFound):
        await client.get_job(job_id)


async def test_bulk_steps_by_filter(client: pulse.Pulse) -> None:
    await client.enqueue_many("t", [None] * 5)
    assert await client.update_jobs_priority(4, topic="t") == pulse.BulkResult(affected=5, more=False)
    assert await client.cancel_jobs(topic="t", limit=3) == pulse.BulkResult(affected=3, more=True)
    assert (await client.retry_jobs(topic="t", status="canceled")).affected == 3
    assert (await client.delete_jobs(topic="t", min_priority=4)).affected == 5
    with pytest.raises(pulse.InvalidArgument, match="condition"):
        await client.delete_jobs()


async def test_dispatch_is_paused_and_resumed_for_all_and_for_a_topic(client: pulse.Pulse) -> None:
    switch = await client.pause_dispatch(reason="db maintenance")
    assert (switch.paused, switch.reason, switch.topic) == (True, "db maintenance", None)
    await client.pause_dispatch("mail")
    status = await client.dispatch_status()
    assert status.paused
    assert status.reason == "db maintenance"
    await client.resume_dispatch()
    status = await client.dispatch_status()
    assert not status.paused
    assert status.is_paused("mail")
    assert not status.is_paused("other")


async def test_schedule_is_declared_once_however_often_and_follows_its_code(client: pulse.Pulse) -> None:
    nine = pulse.Cron("0 9 * * *", tz="Europe/Berlin")
    first = await client.schedule("report", {"city": "Berlin"}, nine, priority=2)
    again = await client.schedule("report", {"city": "Berlin"}, nine, priority=2)
    assert again.id == first.id
    assert first.timing == nine
    assert len(first.upcoming) == 5
    changed = await client.schedule("report", {"city": "Berlin"}, pulse.Every(timedelta(hours=1)))
    assert changed.id == first.id
    assert isinstance(changed.timing, pulse.Every)
    await client.schedule("report", {"city": "Lisbon"}, nine)
    assert len([each async for each in client.list_schedules(topic="report")]) == 2


async def test_schedule_sends_bytes_as_they_are_and_says_what_they_are(client: pulse.Pulse) -> None:
    text = b'{"n": 12345678901234567890, "n": 1.10}'
    made = await client.create_schedule("report", text, pulse.Every(60), name="exact", content_type="application/json")
    assert (made.payload, made.content_type) == (text, "application/json")
    changed = await client.update_schedule(
        made.id, "report", b"a,b", pulse.Every(60), name="exact", content_type="text/csv"
    )
    assert (changed.payload, changed.content_type) == (b"a,b", "text/csv")


async def test_schedule_operations(client: pulse.Pulse) -> None:
    moment = datetime.now(UTC) + timedelta(days=1)
    schedule = await client.create_schedule("report", None, pulse.At(moment), name="once", misfire="skip")
    assert (schedule.next_run_at, schedule.misfire_policy) == (moment, pulse.MisfirePolicy.SKIP)
    with pytest.raises(pulse.AlreadyExists):
        await client.create_schedule("report", None, pulse.At(moment), name="once")
    await client.pause_schedule(schedule.id)
    assert (await client.get_schedule(schedule.id)).paused
    assert await client.resume_schedule(schedule.id) == moment
    triggered = await client.trigger_schedule(schedule.id)
    fires = [job async for job in client.list_schedule_fires(schedule.id)]
    assert [job.id for job in fires] == [triggered.job_id]
    updated = await client.update_schedule(
        schedule.id, "report", {"n": 1}, pulse.Every(60), name="often", misfire="all", misfire_limit=3
    )
    assert (updated.name, updated.misfire_limit) == ("often", 3)
    await client.delete_schedule(schedule.id)
    with pytest.raises(pulse.NotFound):
        await client.get_schedule(schedule.id)


async def test_stats_topics_workers_errors_and_server_info(
    client: pulse.Pulse, running: Callable[..., Any], until_status: Callable[..., Any]
) -> None:
    @client.task("broken", max_attempts=1)
    async def broken() -> None:
        raise RuntimeError("out of paper")

    async with running(client):
        job_id = await broken.enqueue()
        await until_status(client, job_id, "DEAD_LETTERED")
        async with asyncio.timeout(10):
            while not (workers := await client.workers(topic="broken")):
                await asyncio.sleep(0.05)
    assert workers[0].topics == ("broken",)
    stats = await client.stats(window=timedelta(minutes=5), topics=["broken"])
    assert stats.total.count(pulse.JobStatus.DEAD_LETTERED) == 1
    assert [topic.topic for topic in stats.topics] == ["broken"]
    assert "broken" in [topic.name for topic in await client.topics()]
    (group,) = await client.errors()
    assert (group.count, group.example_job_id) == (1, job_id)
    assert "out of paper" in group.summary
    info = await client.server_info()
    assert info.default_lease == timedelta(seconds=30)
    assert info.user is None
    assert await client.is_serving()


def test_one_client_serves_event_loops_in_a_row(server: Any) -> None:
    client = pulse.Pulse(server.address)

    async def enqueue() -> str:
        try:
            return await client.enqueue("t", None)
        finally:
            await client.close()

    assert asyncio.run(enqueue()) != asyncio.run(enqueue())
