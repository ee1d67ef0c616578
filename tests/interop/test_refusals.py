"""What stock clients are told about calls that can't be: the documented status, and which field."""

import base64
import uuid
from typing import Any

import pytest

from interop.client import PASSWORD, USER, Client, Connect, Message, basic
from interop.toolchains import PROTO

pytestmark = pytest.mark.asyncio(loop_scope="session")

ID = str(uuid.UUID(int=1))
HEALTH = "grpc.health.v1.Health/Check"
INFO = "StatsService/GetServerInfo"


def submission(**fields: Any) -> Message:
    return {"job": {"topic": "refused", **fields}}


@pytest.mark.parametrize(
    ("method", "request_", "code", "begins"),
    [
        ("JobService/SubmitJob", {}, "INVALID_ARGUMENT", "job: "),
        ("JobService/SubmitJob", submission(topic=""), "INVALID_ARGUMENT", "job.topic: "),
        ("JobService/SubmitJob", submission(job_id="x"), "INVALID_ARGUMENT", "job.job_id: "),
        ("JobService/SubmitJob", submission(delay={"seconds": -1}), "INVALID_ARGUMENT", "job.delay: "),
        # Names travel whole although a header is ASCII.
        (
            "JobService/SubmitJob",
            submission(options={"metadata": {"größe %": "x" * 1001}}),
            "INVALID_ARGUMENT",
            "job.options.metadata['größe %']: ",
        ),
        ("JobService/SubmitJobs", {}, "INVALID_ARGUMENT", "jobs: "),
        ("JobService/GetJob", {"job_id": ID}, "NOT_FOUND", ""),
        ("JobService/CancelJob", {"job_id": ID}, "NOT_FOUND", ""),
        ("JobService/ListJobs", {"page_size": 1001}, "INVALID_ARGUMENT", "page_size: "),
        ("JobService/ListJobs", {"page_token": "x"}, "INVALID_ARGUMENT", "page_token: "),
        ("JobService/DeleteJobs", {}, "INVALID_ARGUMENT", "filter: "),
        ("WorkerService/StreamJobs", {"worker_id": ID, "capacity": 1}, "INVALID_ARGUMENT", "topics: "),
        ("WorkerService/StreamJobs", {"worker_id": ID, "topics": ["x"]}, "INVALID_ARGUMENT", "capacity: "),
        ("WorkerService/ReportResult", {"worker_id": ID}, "INVALID_ARGUMENT", "result: "),
        (
            "WorkerService/ReportResult",
            {"worker_id": ID, "result": {"job_id": ID, "attempt": 1, "success": {}}},
            "FAILED_PRECONDITION",
            "",
        ),
        ("ScheduleService/GetSchedule", {"schedule_id": ID}, "NOT_FOUND", ""),
        ("ScheduleService/CreateSchedule", {}, "INVALID_ARGUMENT", "definition: "),
        ("grpc.health.v1.Health/Check", {"service": "nothing"}, "NOT_FOUND", ""),
    ],
)
async def test_a_bad_call_gets_its_status(
    client: Client, method: str, request_: Message, code: str, begins: str
) -> None:
    refused = await client.refusal(method, request_)
    assert refused.code == code
    assert refused.details.startswith(begins)
    assert refused.details


def methods() -> list[str]:
    """Every RPC in proto/, by its own words: a new one is tried without being listed here."""
    found = []
    for file in sorted(PROTO.glob("pulse/v1/*.proto")):
        service = ""
        for line in file.read_text().splitlines():
            words = line.replace("(", " ").split()
            if words[:1] == ["service"]:
                service = words[1]
            elif words[:1] == ["rpc"]:
                found.append(f"{service}/{words[1]}")
    return found


async def test_every_rpc_is_there_and_wants_credentials(client: Client) -> None:
    assert len(methods()) > 30
    for method in methods():
        refused = await client.refusal(method, metadata={})
        assert (method, refused.code) == (method, "UNAUTHENTICATED")


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        basic(USER, "wrong"),
        basic("nobody", PASSWORD),
        basic(USER, "x" * 100),
        {"authorization": "Bearer secret"},
        {"authorization": "Basic %%%"},
    ],
)
async def test_wrong_credentials_are_unauthenticated(client: Client, metadata: dict[str, str]) -> None:
    assert (await client.refusal(INFO, metadata=metadata)).code == "UNAUTHENTICATED"


async def test_right_credentials_are_known_by_name(client: Client) -> None:
    assert (await client.call(INFO))["user"] == USER


async def test_health_needs_no_credentials(client: Client) -> None:
    for service in ("", "pulse.v1.JobService", "pulse.v1.WorkerService"):
        answer = await client.call(HEALTH, {"service": service}, metadata={})
        assert answer == {"status": "SERVING"}


async def test_a_payload_beyond_its_limit_names_the_field(client: Client) -> None:
    payload = base64.b64encode(bytes((1 << 20) + 1)).decode()
    refused = await client.refusal("JobService/SubmitJob", submission(payload=payload))
    assert (refused.code, refused.details.split(":")[0]) == ("INVALID_ARGUMENT", "job.payload")


async def test_a_message_beyond_its_limit_is_resource_exhausted_and_the_channel_lives_on(client: Client) -> None:
    payload = base64.b64encode(bytes(17 << 20)).decode()
    refused = await client.refusal("JobService/SubmitJob", submission(payload=payload))
    assert refused.code == "RESOURCE_EXHAUSTED"
    assert "PULSE_MAX_MESSAGE_BYTES" in refused.details
    await client.call(INFO)


async def test_a_compressed_message_is_unimplemented(connect: Connect) -> None:
    async with connect(default_compression_algorithm=2) as client:
        refused = await client.refusal("JobService/SubmitJob", submission(content_type="x" * 1000))
        assert (refused.code, refused.details) == ("UNIMPLEMENTED", "compressed messages are not supported")
