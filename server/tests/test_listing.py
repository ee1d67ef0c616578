"""Lists of jobs: every filter, in order, page by page, whatever happens between the pages."""

import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pulse_gen.rpc.pulse.v1 import (
    CancelJobRequest,
    CancelJobsRequest,
    CountJobsRequest,
    CreateScheduleRequest,
    DeleteJobRequest,
    Job,
    JobFilter,
    JobOptions,
    JobStatus,
    JobSubmission,
    ListJobsRequest,
    ScheduleDefinition,
    SubmitJobRequest,
    SubmitJobsRequest,
    TriggerScheduleRequest,
    UpdateJobPriorityRequest,
)
from pulsed import filters
from support.server import Server

FAR = timedelta(days=300)


async def listed(server: Server, **conditions: Any) -> list[str]:
    """The ids that a filter chooses; the count must agree."""
    job_filter = JobFilter(**conditions)
    page = await server.jobs.list_jobs(ListJobsRequest(filter=job_filter))
    assert page.next_page_token == ""
    counted = await server.jobs.count_jobs(CountJobsRequest(filter=job_filter))
    assert (counted.count, counted.capped) == (len(page.jobs), False)
    return [job.job_id for job in page.jobs]


async def pages(server: Server, size: int, **conditions: Any) -> AsyncIterator[list[Job]]:
    token = ""
    while True:
        request = ListJobsRequest(filter=JobFilter(**conditions), page_size=size, page_token=token)
        page = await server.jobs.list_jobs(request)
        yield page.jobs
        token = page.next_page_token
        if not token:
            return


async def test_the_latest_submitted_comes_first_whatever_its_id_priority_or_status(server: Server) -> None:
    ids = [str(uuid.UUID(int=number)) for number in (5, 1, 9, 3)]
    for job_id in ids:
        await server.submit(job_id=job_id, priority=int(job_id[-1]))
    await server.jobs.cancel_job(CancelJobRequest(job_id=ids[1]))
    assert await listed(server) == ids[::-1]


async def test_a_list_shows_everything_but_payload_and_history(server: Server) -> None:
    payload = b'{"a": "%s"}' % (b"x" * 500)
    job_id = await server.submit(payload=payload, tags=["t"], metadata={"k": "v"}, max_attempts=2)
    async with server.worker() as worker:
        await worker.fail(await worker.take_one(), "boom", retry_after=FAR)
    (summary,) = (await server.jobs.list_jobs(ListJobsRequest())).jobs
    whole = await server.job(job_id)
    assert (summary.payload, summary.failures, summary.payload_size) == (b"", [], len(payload))
    assert (whole.payload, len(whole.failures)) == (payload, 1)
    whole.payload, whole.failures = b"", []
    assert summary == whole


@pytest.fixture
async def zoo(server: Server) -> dict[str, str]:
    """One job of each kind, by name."""
    binary = JobSubmission(
        topic="b", payload=b"\xff\x00", content_type="x", options=JobOptions(priority=5, tags=["red", "big"])
    )
    jobs = {
        "plain": await server.submit("a", payload=b'{"n": 1, "deep": {"x": [1, 2]}}'),
        "low": await server.submit("b", payload=b'{"n": 2}', priority=-5, tags=["red"]),
        "high": (await server.jobs.submit_job(SubmitJobRequest(job=binary))).job_id,
        "later": await server.submit("c", payload=b"not json", delay=FAR),
        "dead": await server.submit("d", payload=b"", max_attempts=1),
        "retrying": await server.submit("d", payload=b'"text"'),
    }
    async with server.worker("d") as worker:
        by_id = {assignment.job_id: assignment for assignment in await worker.take(2)}
        await worker.fail(by_id[jobs["dead"]], "Über-100%_Error: Card")
        await worker.fail(by_id[jobs["retrying"]], "timeout", retry_after=FAR)
    jobs["canceled"] = await server.submit("a", payload=b"[1, 2, 3]")
    await server.jobs.cancel_job(CancelJobRequest(job_id=jobs["canceled"]))
    return jobs


CHOICES: list[tuple[dict[str, Any], set[str]]] = [
    ({}, {"plain", "low", "high", "later", "dead", "retrying", "canceled"}),
    ({"statuses": [JobStatus.UNSPECIFIED]}, {"plain", "low", "high", "later", "dead", "retrying", "canceled"}),
    ({"statuses": [JobStatus.PENDING]}, {"plain", "low", "high", "later"}),
    ({"statuses": [JobStatus.DEAD_LETTERED, JobStatus.CANCELED]}, {"dead", "canceled"}),
    ({"statuses": [JobStatus.COMPLETED]}, set()),
    ({"topics": ["a"]}, {"plain", "canceled"}),
    ({"topics": ["a", "c", "none"]}, {"plain", "canceled", "later"}),
    ({"topics": ["A"]}, set()),
    ({"tags": ["red"]}, {"low", "high"}),
    ({"tags": ["red", "big"]}, {"high"}),
    ({"tags": ["big", "none"]}, set()),
    ({"min_priority": 0}, {"plain", "high", "later", "dead", "retrying", "canceled"}),
    ({"min_priority": 5}, {"high"}),
    ({"max_priority": -1}, {"low"}),
    ({"min_priority": -5, "max_priority": -5}, {"low"}),
    ({"min_priority": 1, "max_priority": 0}, set()),
    ({"error_contains": "über-100%_e"}, {"dead"}),
    ({"error_contains": "ÜBER"}, {"dead"}),
    ({"error_contains": "%"}, {"dead"}),
    ({"error_contains": "Über-100x"}, set()),
    ({"payload_contains": '{"n": 1}'}, {"plain"}),
    ({"payload_contains": '{"deep": {"x": [2]}}'}, {"plain"}),
    ({"payload_contains": "{}"}, {"plain", "low"}),
    ({"payload_contains": "[3, 1]"}, {"canceled"}),
    ({"payload_contains": '"text"'}, {"retrying"}),
    ({"payload_contains": r'"\\u0000"'}, set()),
    ({"topics": ["b"], "tags": ["red"], "max_priority": 0, "statuses": [JobStatus.PENDING]}, {"low"}),
    ({"topics": ["d"], "error_contains": "time", "payload_contains": '"text"'}, {"retrying"}),
    ({"topics": ["a"], "tags": ["red"]}, set()),
]


async def test_every_condition_chooses_what_it_says_and_all_must_match(server: Server, zoo: dict[str, str]) -> None:
    names = {job_id: name for name, job_id in zoo.items()}
    for conditions, expected in CHOICES:
        chosen = await listed(server, **conditions)
        assert {names[job_id] for job_id in chosen} == expected, conditions
        assert chosen == [job_id for job_id in reversed(zoo.values()) if job_id in chosen], conditions


async def test_ids_choose_and_combine(server: Server, zoo: dict[str, str]) -> None:
    nobody = str(uuid.uuid4())
    wanted = [zoo["low"], nobody, zoo["dead"], zoo["low"], zoo["dead"].upper()]
    assert await listed(server, job_ids=wanted) == [zoo["dead"], zoo["low"]]
    assert await listed(server, job_ids=wanted, topics=["b"]) == [zoo["low"]]
    assert await listed(server, job_ids=[nobody]) == []


async def test_the_worker_is_the_one_that_holds_a_job_now(server: Server) -> None:
    held, done = await server.submit_many(2)
    async with server.worker() as worker:
        by_id = {assignment.job_id: assignment for assignment in await worker.take(2)}
        await worker.complete(by_id[done])
        assert await listed(server, worker_id=worker.worker_id) == [held]
        assert await listed(server, worker_id=str(uuid.uuid4())) == []
        assert await listed(server, statuses=[JobStatus.RUNNING]) == [held]


async def test_the_schedule_is_the_one_that_made_a_job(server: Server) -> None:
    await server.submit()
    definition = ScheduleDefinition(name="n", topic="work", at=datetime(2200, 1, 1, tzinfo=UTC))
    created = await server.schedules.create_schedule(CreateScheduleRequest(definition=definition))
    assert created.schedule is not None
    schedule_id = created.schedule.schedule_id
    made = await server.schedules.trigger_schedule(TriggerScheduleRequest(schedule_id=schedule_id))
    assert await listed(server, schedule_id=schedule_id) == [made.job_id]


async def test_times_of_submission_include_the_first_moment_and_not_the_last(timed_server: Server) -> None:
    server = timed_server
    moments, ids = [], []
    for _ in range(3):
        ids.append(await server.submit())
        moments.append(server.clock.moment)
        server.advance(seconds=1)
    assert await listed(server, submitted_after=moments[1]) == [ids[2], ids[1]]
    assert await listed(server, submitted_before=moments[1]) == [ids[0]]
    assert await listed(server, submitted_after=moments[1], submitted_before=moments[2]) == [ids[1]]


async def test_thousands_of_equal_moments_are_paged_once_each_while_rows_change(server: Server) -> None:
    submissions = [JobSubmission(topic="bulk", options=JobOptions(priority=n % 3), delay=FAR) for n in range(3000)]
    answer = await server.jobs.submit_jobs(SubmitJobsRequest(jobs=submissions))
    before = [result.job_id for result in answer.results]
    deleted = before[:1000:100]  # listed last
    seen: list[str] = []
    async for page in pages(server, 700, topics=["bulk"]):
        seen += [job.job_id for job in page]
        # New ones arrive, others change their order, their status or go.
        await server.submit("bulk", delay=FAR)
        await server.jobs.update_job_priority(UpdateJobPriorityRequest(job_id=seen[-1], priority=9))
        await server.jobs.cancel_job(CancelJobRequest(job_id=seen[-2]))
        for job_id in deleted:
            await server.jobs.delete_job(DeleteJobRequest(job_id=job_id))
        deleted = []
    assert seen == [job_id for job_id in reversed(before) if job_id not in before[:1000:100]]


async def test_a_page_is_full_and_the_last_one_has_no_token(server: Server) -> None:
    await server.submit_many(6, delay=FAR)
    assert [len(page) async for page in pages(server, 3)] == [3, 3]
    assert [len(page) async for page in pages(server, 4)] == [4, 2]
    assert [len(page) async for page in pages(server, 1000)] == [6]
    await server.submit_many(100, delay=FAR)
    assert [len(page) async for page in pages(server, 0)] == [100, 6], "the default"


async def test_a_search_that_no_index_serves_looks_at_few_jobs_a_call_and_misses_none(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "SCANNED_AT_ONCE", 4)
    wanted = []
    for number in range(60):
        job_id = await server.submit(topic="rare" if number % 11 == 0 else "common", delay=FAR)
        if number % 3 == 0:
            await server.jobs.cancel_job(CancelJobRequest(job_id=job_id))
        if number % 11 == 0:
            wanted.append(job_id)
    found = [page async for page in pages(server, 2, topics=["rare"])]
    assert [job.job_id for page in found for job in page] == wanted[::-1]
    assert max(map(len, found)) <= 2
    assert [] in found
    counted = await server.jobs.count_jobs(CountJobsRequest(filter=JobFilter(topics=["rare"])))
    assert counted.capped
    assert counted.count < len(wanted)


async def test_a_count_is_bounded_and_says_so(server: Server) -> None:
    await server.submit_many(10, delay=FAR)

    async def count(limit: int) -> tuple[int, bool]:
        answer = await server.jobs.count_jobs(CountJobsRequest(limit=limit))
        return answer.count, answer.capped

    assert await count(0) == (10, False)
    assert await count(10) == (10, False)
    assert await count(9) == (9, True)
    assert await count(1) == (1, True)


async def test_a_bulk_step_is_bounded_and_says_that_there_is_more(server: Server) -> None:
    await server.submit_many(5, "bulk", delay=FAR)
    await server.submit("other", delay=FAR)
    steps = []
    while True:
        step = await server.jobs.cancel_jobs(CancelJobsRequest(filter=JobFilter(topics=["bulk"]), limit=3))
        steps.append(step.affected)
        if not step.more:
            break
    assert steps == [3, 2]
    assert await server.statuses() == {"CANCELED": 5, "PENDING": 1}


async def test_a_payload_nested_too_deep_for_the_database_hides_no_other_job(server: Server) -> None:
    await server.submit(payload=b"[" * 200_000 + b"]" * 200_000, delay=FAR)
    wanted = await server.submit(payload=b'{"n": 1}', delay=FAR)
    assert await listed(server, payload_contains='{"n": 1}') == [wanted]
