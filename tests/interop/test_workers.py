"""Workers with stock clients: jobs come within capacity, are kept by beats, and end by reports."""

import base64

import pytest

from interop.client import Client, Message
from interop.worker import Worker, reference

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def submit(client: Client, topic: str, count: int = 1, **fields: object) -> list[str]:
    answer = await client.call("JobService/SubmitJobs", {"jobs": [{"topic": topic, **fields}] * count})
    return [result["job_id"] for result in answer["results"]]


async def get(client: Client, assignment: Message) -> Message:
    answer = await client.call("JobService/GetJob", {"job_id": assignment["job_id"]})
    job: Message = answer["job"]
    return job


async def test_a_worker_holds_no_more_than_it_said(client: Client, topic: str) -> None:
    ids = await submit(client, topic, 5)
    async with Worker(client, topic, capacity=2) as worker:
        taken = [await worker.take(), await worker.take()]
        for _ in range(3):
            running = {"filter": {"topics": [topic], "statuses": ["JOB_STATUS_RUNNING"]}}
            assert int((await client.call("JobService/CountJobs", running))["count"]) == 2
            await worker.report(taken[-1], success={})
            taken.append(await worker.take())
        assert [assignment["job_id"] for assignment in taken] == ids


async def test_an_assignment_has_what_a_handler_needs(client: Client, topic: str) -> None:
    payload = base64.b64encode(b'{"to": "ada"}').decode()
    options = {"priority": 3, "max_attempts": 7, "tags": ["a"], "metadata": {"k": "v"}}
    await submit(client, topic, payload=payload, options=options)
    async with Worker(client, topic) as worker:
        assignment = await worker.take()
    assert assignment["topic"] == topic
    assert assignment["payload"] == payload
    assert assignment["content_type"] == "application/json"
    assert (assignment["attempt"], assignment["attempts_spent"]) == (1, 1)
    assert {name: assignment[name] for name in options} == options
    assert assignment["lease"]
    assert assignment["submitted_at"]


async def test_beats_keep_a_job_longer_than_its_lease(client: Client, topic: str) -> None:
    await submit(client, topic, options={"lease": {"seconds": 1}})
    (marker,) = await submit(client, f"{topic} later", delay={"seconds": 2})
    async with Worker(client, topic) as worker, Worker(client, f"{topic} later") as clock:
        assignment = await worker.take()
        while clock.assignments.empty():
            assert not (await worker.beat(assignment)).get("lost")
        assert (await clock.take())["job_id"] == marker
        await worker.report(assignment, success={})
    assert (await get(client, assignment))["attempts"] == 1


async def test_a_silent_worker_loses_its_job_and_is_told_so(client: Client, topic: str) -> None:
    await submit(client, topic, options={"lease": {"seconds": 1}, "backoff": {"base": {"seconds": 0, "nanos": 1}}})
    async with Worker(client, topic) as silent:
        lost = await silent.take()
        again = await silent.take()
        assert (again["job_id"], again["attempt"]) == (lost["job_id"], 2)
        answer = await silent.beat(lost, again)
        assert answer["lost"] == [reference(lost)]
        await silent.report(again, success={})


async def test_success_completes_a_job_and_is_taken_once(client: Client, topic: str) -> None:
    await submit(client, topic)
    async with Worker(client, topic) as worker:
        assignment = await worker.take()
        await worker.report(assignment, success={})
        assert (await get(client, assignment))["status"] == "JOB_STATUS_COMPLETED"
        request = {"worker_id": worker.worker_id, "result": {**reference(assignment), "success": {}}}
        assert (await client.refusal("WorkerService/ReportResult", request)).code == "FAILED_PRECONDITION"


async def test_a_failure_is_retried_until_the_attempts_are_spent(client: Client, topic: str) -> None:
    await submit(client, topic, options={"max_attempts": 2})
    async with Worker(client, topic) as worker:
        assignment = await worker.take()
        await worker.report(assignment, failure={"error": "erster Fehler: ß", "retry_after": {"nanos": 1000}})
        assignment = await worker.take()
        assert assignment["attempt"] == 2
        await worker.report(assignment, failure={"error": "second"})
    job = await get(client, assignment)
    assert job["status"] == "JOB_STATUS_DEAD_LETTERED"
    assert [failure["error"] for failure in job["failures"]] == ["erster Fehler: ß", "second"]


async def test_a_failure_that_is_for_good_is_a_dead_letter_at_once(client: Client, topic: str) -> None:
    await submit(client, topic)
    async with Worker(client, topic) as worker:
        assignment = await worker.take()
        await worker.report(assignment, failure={"error": "no such address", "discard": True})
    assert (await get(client, assignment))["status"] == "JOB_STATUS_DEAD_LETTERED"


async def test_a_snoozed_job_comes_again_and_has_spent_nothing(client: Client, topic: str) -> None:
    await submit(client, topic)
    async with Worker(client, topic) as worker:
        await worker.report(await worker.take(), snooze={"delay": {"nanos": 1000}})
        again = await worker.take()
        assert (again["attempt"], again["attempts_spent"]) == (2, 1)
        await worker.report(again, success={})


async def test_of_many_reports_the_stale_ones_are_named(client: Client, topic: str) -> None:
    await submit(client, topic, 3)
    async with Worker(client, topic) as worker:
        held = [await worker.take() for _ in range(3)]
        stale = {**reference(held[1]), "attempt": 7}
        results = [{**each, "success": {}} for each in (reference(held[0]), stale, reference(held[2]))]
        answer = await client.call("WorkerService/ReportResults", {"worker_id": worker.worker_id, "results": results})
        assert answer["stale"] == [stale]
        await worker.report(held[1], success={})


async def test_a_cancel_reaches_the_worker_by_stream_and_by_beat(client: Client, topic: str) -> None:
    await submit(client, topic)
    async with Worker(client, topic) as worker:
        assignment = await worker.take()
        answer = await client.call("JobService/CancelJob", {"job_id": assignment["job_id"]})
        assert answer["status"] == "JOB_STATUS_RUNNING"
        assert await worker.cancellations.get() == reference(assignment)
        assert (await worker.beat(assignment))["cancellations"] == [reference(assignment)]
        await worker.report(assignment, failure={"error": "stopped"})
    assert (await get(client, assignment))["status"] == "JOB_STATUS_CANCELED"


async def test_large_jobs_arrive_in_messages_that_stock_clients_take(client: Client, topic: str) -> None:
    payload = base64.b64encode(bytes(1 << 20)).decode()
    for _ in range(8):
        await submit(client, topic, payload=payload, content_type="application/octet-stream")
    async with Worker(client, topic) as worker:
        for _ in range(8):
            assignment = await worker.take()
            assert len(assignment["payload"]) == len(payload)
            await worker.report(assignment, success={})


async def test_a_second_stream_of_a_worker_ends_the_first(client: Client, topic: str) -> None:
    async with Worker(client, topic) as first:
        second = Worker(client, topic)
        second.worker_id = first.worker_id
        async with second:
            assert (await first.ended()).code == "ABORTED"
