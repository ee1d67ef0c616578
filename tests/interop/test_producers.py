"""Producers and operators with stock clients: submit, look, list, change."""

import asyncio
import base64
import uuid

import pytest

from interop.client import Client, Message
from interop.worker import Worker

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOUR = {"seconds": 3600}


async def submit(client: Client, topic: str, **fields: object) -> Message:
    return await client.call("JobService/SubmitJob", {"job": {"topic": topic, **fields}})


async def get(client: Client, job_id: str) -> Message:
    answer = await client.call("JobService/GetJob", {"job_id": job_id})
    job: Message = answer["job"]
    return job


async def test_a_job_comes_back_as_it_was_submitted(client: Client, topic: str) -> None:
    payload = base64.b64encode(bytes(range(256))).decode()
    options = {
        "priority": -7,
        "max_attempts": 3,
        "tags": ["ä", "b"],
        "metadata": {"traceparent": "00-1", "ö": "ü"},
        "timeout": {"seconds": 30},
        "backoff": {"kind": "BACKOFF_KIND_LINEAR", "jitter": 0.5},
    }
    stored = await submit(client, topic, payload=payload, content_type="application/octet-stream", options=options)
    assert not stored["existing"]
    job = await get(client, stored["job_id"])
    assert job["topic"] == topic
    assert job["status"] == "JOB_STATUS_PENDING"
    assert job["payload"] == payload
    assert int(job["payload_size"]) == 256
    for name in ("priority", "max_attempts", "tags", "metadata"):
        assert job["options"][name] == options[name]
    assert job["options"]["backoff"]["kind"] == "BACKOFF_KIND_LINEAR"
    assert job["options"]["backoff"]["jitter"] == 0.5


async def test_many_jobs_are_stored_in_their_order(client: Client, topic: str) -> None:
    ids = [str(uuid.uuid4()) for _ in range(500)]
    jobs = [{"topic": topic, "job_id": job_id} for job_id in ids]
    answer = await client.call("JobService/SubmitJobs", {"jobs": jobs})
    assert [result["job_id"] for result in answer["results"]] == ids
    assert not any(result["existing"] for result in answer["results"])


async def test_one_bad_job_among_many_keeps_all_out(client: Client, topic: str) -> None:
    refused = await client.refusal("JobService/SubmitJobs", {"jobs": [{"topic": topic}, {"topic": ""}]})
    assert (refused.code, refused.details.split(":")[0]) == ("INVALID_ARGUMENT", "jobs[1].topic")
    counted = await client.call("JobService/CountJobs", {"filter": {"topics": [topic]}})
    assert int(counted["count"]) == 0


async def test_groups_over_one_call_are_answered_in_their_order(client: Client, topic: str) -> None:
    ids = [str(uuid.uuid4()) for _ in range(3)]
    good = [{"topic": topic, "job_id": job_id} for job_id in ids]
    groups = [{"jobs": [{"topic": topic}]}, {"jobs": good}, {"jobs": [good[0], {"topic": ""}]}]
    own, silent, mixed = await client.call_for_all("JobService/StreamSubmits", *groups)
    assert own["outcomes"][0]["submitted"]["job_id"]
    assert silent["outcomes"] == []
    assert mixed["outcomes"][0]["submitted"] == {"job_id": ids[0], "existing": True}
    assert mixed["outcomes"][1]["refused"]["code"] == 3
    assert mixed["outcomes"][1]["refused"]["message"].startswith("job.topic: ")
    counted = await client.call("JobService/CountJobs", {"filter": {"topics": [topic]}})
    assert int(counted["count"]) == 4


async def test_the_same_id_twice_is_one_job(client: Client, topic: str) -> None:
    job_id = str(uuid.uuid4())
    assert await submit(client, topic, job_id=job_id) == {"job_id": job_id, "existing": False}
    assert await submit(client, topic, job_id=job_id) == {"job_id": job_id, "existing": True}


async def test_a_unique_key_lets_one_job_in(client: Client, topic: str) -> None:
    unique = {"unique": {"key": "only one", "scope": "UNIQUE_SCOPE_PERIOD", "period": HOUR}}
    first = await submit(client, topic, options=unique)
    assert await submit(client, topic, options=unique) == {"job_id": first["job_id"], "existing": True}


async def test_a_delayed_job_waits_while_a_ready_one_goes(client: Client, topic: str) -> None:
    later = await submit(client, topic, delay=HOUR, options={"priority": 100})
    ready = await submit(client, topic)
    async with Worker(client, topic) as worker:
        assignment = await worker.take()
        assert assignment["job_id"] == ready["job_id"]
        await worker.report(assignment, success={})
        assert worker.assignments.empty()
    held = await client.call("JobService/ExplainJob", {"job_id": later["job_id"]})
    assert held["reason"] == "HOLD_REASON_LATER"


async def test_pages_hold_every_job_once(client: Client, topic: str) -> None:
    submitted = await client.call("JobService/SubmitJobs", {"jobs": [{"topic": topic}] * 25})
    listed: list[str] = []
    token, pages = "", 0
    while pages == 0 or token:
        request = {"filter": {"topics": [topic]}, "page_size": 10, "page_token": token}
        page = await client.call("JobService/ListJobs", request)
        listed += [job["job_id"] for job in page["jobs"]]
        token, pages = page["next_page_token"], pages + 1
    assert pages == 3
    assert sorted(listed) == sorted(result["job_id"] for result in submitted["results"])


async def test_a_waiting_job_is_canceled_retried_and_deleted(client: Client, topic: str) -> None:
    job = {"job_id": (await submit(client, topic))["job_id"]}
    assert (await client.call("JobService/CancelJob", job))["status"] == "JOB_STATUS_CANCELED"
    assert (await client.refusal("JobService/CancelJob", job)).code == "FAILED_PRECONDITION"
    await client.call("JobService/RetryJob", job)
    assert (await get(client, job["job_id"]))["status"] == "JOB_STATUS_PENDING"
    await client.call("JobService/DeleteJob", job)
    assert (await client.refusal("JobService/GetJob", job)).code == "NOT_FOUND"


async def test_a_paused_topic_holds_its_jobs_until_it_is_resumed(client: Client, topic: str) -> None:
    paused = await client.call("DispatchService/PauseDispatch", {"topic": topic, "reason": "wartet auf Öl"})
    assert (paused["switch"]["reason"], paused["switch"]["paused_by"]) == ("wartet auf Öl", "anna")
    job = await submit(client, topic)
    async with Worker(client, topic) as worker:
        explained = await client.call("JobService/ExplainJob", {"job_id": job["job_id"]})
        assert explained["reason"] == "HOLD_REASON_PAUSED"
        await client.call("DispatchService/ResumeDispatch", {"topic": topic})
        assignment = await worker.take()
        assert assignment["job_id"] == job["job_id"]
        await worker.report(assignment, success={})


async def test_a_schedule_is_stored_triggered_and_deleted(client: Client, topic: str) -> None:
    cron = {"expression": "0 9 * * 1-5", "timezone": "Europe/Berlin"}
    created = await client.call(
        "ScheduleService/CreateSchedule", {"definition": {"name": topic, "topic": topic, "cron": cron}}
    )
    schedule = {"schedule_id": created["schedule"]["schedule_id"]}
    assert created["schedule"]["definition"]["cron"] == cron
    assert len(created["schedule"]["upcoming"]) == 5
    made = await client.call("ScheduleService/TriggerSchedule", schedule)
    fires = await client.call("ScheduleService/ListScheduleFires", schedule)
    assert [job["job_id"] for job in fires["jobs"]] == [made["job_id"]]
    await client.call("ScheduleService/DeleteSchedule", schedule)
    assert (await client.refusal("ScheduleService/GetSchedule", schedule)).code == "NOT_FOUND"


async def test_more_calls_at_once_than_a_connection_carries_streams(client: Client, topic: str) -> None:
    answers = await asyncio.gather(*(submit(client, topic) for _ in range(400)))
    assert len({answer["job_id"] for answer in answers}) == 400
