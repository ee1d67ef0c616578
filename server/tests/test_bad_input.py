"""Whatever a caller gets wrong is INVALID_ARGUMENT that names the field, and nothing is stored."""

import base64
import dataclasses
import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
from grpclib.const import Cardinality, Status
from grpclib.exceptions import GRPCError

from pulse_gen.codec import Codec
from pulse_gen.rpc.pulse import v1
from pulse_gen.rpc.pulse.v1 import (
    AttemptRef,
    Backoff,
    BackoffKind,
    CancelJobRequest,
    CancelJobsRequest,
    CountJobsRequest,
    CreateScheduleRequest,
    Cron,
    DeleteJobRequest,
    DeleteJobsRequest,
    DeleteScheduleRequest,
    Every,
    ExplainJobRequest,
    Failure,
    GetDispatchStatusRequest,
    GetJobRequest,
    GetScheduleRequest,
    GetServerInfoRequest,
    GetStatsRequest,
    HeartbeatRequest,
    JobFilter,
    JobOptions,
    JobResult,
    JobStatus,
    JobSubmission,
    ListErrorsRequest,
    ListJobsRequest,
    ListScheduleFiresRequest,
    ListSchedulesRequest,
    ListTopicsRequest,
    ListWorkersRequest,
    MisfirePolicy,
    PauseDispatchRequest,
    PauseScheduleRequest,
    ReportResultRequest,
    ReportResultsRequest,
    ResumeDispatchRequest,
    ResumeScheduleRequest,
    RetryJobRequest,
    RetryJobsRequest,
    ScheduleDefinition,
    Snooze,
    StreamJobsRequest,
    StreamSubmitsRequest,
    SubmitJobRequest,
    SubmitJobsRequest,
    Success,
    TriggerScheduleRequest,
    Unique,
    UniqueScope,
    UpdateJobPriorityRequest,
    UpdateJobsPriorityRequest,
    UpdateScheduleRequest,
)
from support.postgres import Databases
from support.server import PATIENCE, Server, running_server
from support.wire import Answer, frame, raw_connection

# One server for the whole module: nothing that is tried here may change anything.
pytestmark = pytest.mark.asyncio(loop_scope="module")

MAX_PAYLOAD = 1000
MAX_MESSAGE = 1 << 20
ID = str(uuid.UUID(int=1))
SECOND = timedelta(seconds=1)
NUL = "a\0b"
FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
LAST_MOMENT = datetime.max.replace(tzinfo=UTC)

RPCS = {
    path: handler
    for service in (
        v1.JobServiceBase,
        v1.WorkerServiceBase,
        v1.ScheduleServiceBase,
        v1.DispatchServiceBase,
        v1.StatsServiceBase,
    )
    for path, handler in service().__mapping__().items()
}
PATH_OF = {handler.request_type: path for path, handler in RPCS.items()}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(databases: Databases) -> AsyncIterator[Server]:
    """A server with a little in it, and low limits."""
    with databases.migrated() as dsn:
        async with running_server(dsn, max_payload_bytes=MAX_PAYLOAD, max_message_bytes=MAX_MESSAGE) as server:
            await server.submit(job_id=ID, payload=b'{"a": 1}')
            await server.schedules.create_schedule(
                definition(schedule_id=ID, name="kept", at=datetime(2200, 1, 1, tzinfo=UTC))
            )
            yield server


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def nothing_is_stored(server: Server) -> AsyncIterator[None]:
    """Compares every table that a caller can change before and after."""

    async def content() -> list[str]:
        tables = ("jobs", "schedules", "dispatch_control")
        return [
            await server.database.fetchval(f"SELECT string_agg(t::text, ';' ORDER BY t::text) FROM {table} AS t")
            for table in tables
        ]

    before = await content()
    yield
    assert await content() == before


async def refusal(server: Server, request: Any) -> GRPCError:
    """The error that a request is answered with."""
    path = PATH_OF[type(request)]
    handler = RPCS[path]
    try:
        async with server.channel.request(
            path, handler.cardinality, handler.request_type, handler.reply_type, timeout=PATIENCE
        ) as stream:
            await stream.send_message(request, end=True)
            await stream.recv_message()
    except GRPCError as error:
        return error
    raise AssertionError(f"{path} took {request!r}")


# Requests: the ways to write a good one, to be spoilt.


def submission(**fields: Any) -> SubmitJobRequest:
    return SubmitJobRequest(job=JobSubmission(**{"topic": "work"} | fields))


def options(**fields: Any) -> SubmitJobRequest:
    return submission(options=JobOptions(**fields))


def backoff(**fields: Any) -> SubmitJobRequest:
    return options(backoff=Backoff(**fields))


def unique(**fields: Any) -> SubmitJobRequest:
    return options(unique=Unique(**fields))


def definition(schedule_id: str = "", **fields: Any) -> CreateScheduleRequest:
    return CreateScheduleRequest(
        schedule_id=schedule_id, definition=ScheduleDefinition(**{"name": "n", "topic": "work"} | fields)
    )


def cron(expression: str, timezone: str = "") -> CreateScheduleRequest:
    return definition(cron=Cron(expression=expression, timezone=timezone))


def every(**fields: Any) -> CreateScheduleRequest:
    return definition(every=Every(**fields))


def listing(**fields: Any) -> ListJobsRequest:
    return ListJobsRequest(filter=JobFilter(**fields))


def result(**fields: Any) -> ReportResultRequest:
    good: dict[str, Any] = {"job_id": ID, "attempt": 1}
    return ReportResultRequest(worker_id=ID, result=JobResult(**good | fields))


def stream(**fields: Any) -> StreamJobsRequest:
    good: dict[str, Any] = {"worker_id": ID, "topics": ["none"], "capacity": 1}
    return StreamJobsRequest(**good | fields)


def token(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def enum(kind: type[Any], number: int) -> Any:
    """A member that a newer contract might have."""
    return kind(number)


LONG = "x" * 256
BULK: list[Callable[..., Any]] = [CancelJobsRequest, RetryJobsRequest, DeleteJobsRequest, UpdateJobsPriorityRequest]

RULES: list[tuple[str, Any]] = [
    # Jobs.
    ("job", SubmitJobRequest()),
    ("job.topic", submission(topic="")),
    ("job.topic", submission(topic=LONG)),
    ("job.topic", submission(topic="ä" * 128)),
    ("job.job_id", submission(job_id="no uuid")),
    ("job.job_id", submission(job_id=ID + "0")),
    ("job.payload", submission(payload=b"x" * (MAX_PAYLOAD + 1))),
    ("job.payload", submission(payload=b'{"a": "\0"}')),
    ("job.payload", submission(payload=b'{"a": "\xff"}')),
    ("job.payload", submission(payload=b"\xed\xa0\x80", content_type="application/json")),
    ("job.content_type", submission(content_type=LONG)),
    ("job.run_at", submission(run_at=FIRST_MOMENT)),
    ("job.run_at", submission(run_at=LAST_MOMENT)),
    ("job.delay", submission(delay=-SECOND)),
    ("job.delay", submission(delay=timedelta(days=366, microseconds=1))),
    ("job.delay", submission(delay=timedelta(days=3_000_000))),
    ("job.options.priority", options(priority=-(2**31))),
    ("job.options.max_attempts", options(max_attempts=-1)),
    ("job.options.max_attempts", options(max_attempts=1001)),
    ("job.options.timeout", options(timeout=-SECOND)),
    ("job.options.timeout", options(timeout=timedelta(0))),
    ("job.options.timeout", options(timeout=timedelta(days=367))),
    ("job.options.lease", options(lease=-SECOND)),
    ("job.options.lease", options(lease=SECOND / 2)),
    ("job.options.lease", options(lease=timedelta(days=1, seconds=1))),
    ("job.options.tags", options(tags=[""])),
    ("job.options.tags", options(tags=["x" * 101])),
    ("job.options.tags", options(tags=["x"] * 21)),
    ("job.options.metadata key", options(metadata={"": "x"})),
    ("job.options.metadata key", options(metadata={"x" * 101: "x"})),
    ("job.options.metadata['k']", options(metadata={"k": "x" * 1001})),
    ("job.options.metadata", options(metadata={str(n): "" for n in range(21)})),
    ("job.options.backoff.kind", backoff(kind=enum(BackoffKind, 99))),
    ("job.options.backoff.kind", backoff(kind=enum(BackoffKind, -1))),
    ("job.options.backoff.base", backoff(base=-SECOND)),
    ("job.options.backoff.base", backoff(base=timedelta(days=2))),
    ("job.options.backoff.cap", backoff(cap=-SECOND)),
    ("job.options.backoff.cap", backoff(cap=timedelta(days=2))),
    ("job.options.backoff.jitter", backoff(jitter=-0.1)),
    ("job.options.backoff.jitter", backoff(jitter=1.1)),
    ("job.options.backoff.jitter", backoff(jitter=float("nan"))),
    ("job.options.backoff.jitter", backoff(jitter=float("inf"))),
    ("job.options.unique.key", unique()),
    ("job.options.unique.key", unique(key=LONG)),
    ("job.options.unique.scope", unique(key="k", scope=enum(UniqueScope, 99))),
    ("job.options.unique.period", unique(key="k", period=SECOND)),
    ("job.options.unique.period", unique(key="k", scope=UniqueScope.UNFINISHED, period=SECOND)),
    ("job.options.unique.period", unique(key="k", scope=UniqueScope.PERIOD)),
    ("job.options.unique.period", unique(key="k", scope=UniqueScope.PERIOD, period=timedelta(0))),
    ("job.options.unique.period", unique(key="k", scope=UniqueScope.PERIOD, period=-SECOND)),
    ("job.options.unique.period", unique(key="k", scope=UniqueScope.PERIOD, period=timedelta(days=367))),
    ("jobs", SubmitJobsRequest()),
    ("jobs", SubmitJobsRequest(jobs=[JobSubmission(topic="work")] * 10_001)),
    ("jobs", SubmitJobsRequest(jobs=[JobSubmission(topic="work", job_id=str(uuid.UUID(int=2)))] * 2)),
    ("jobs[1].topic", SubmitJobsRequest(jobs=[JobSubmission(topic="work"), JobSubmission()])),
    ("jobs", StreamSubmitsRequest()),
    ("jobs", StreamSubmitsRequest(jobs=[JobSubmission(topic="work")] * 10_001)),
    ("jobs[1].topic", StreamSubmitsRequest(jobs=[JobSubmission(topic="work"), JobSubmission()], together=True)),
    *(
        ("job_id", kind(job_id=text))
        for kind in (
            GetJobRequest,
            ExplainJobRequest,
            CancelJobRequest,
            RetryJobRequest,
            DeleteJobRequest,
            UpdateJobPriorityRequest,
        )
        for text in ("", "no uuid")
    ),
    ("priority", UpdateJobPriorityRequest(job_id=ID, priority=-(2**31))),
    ("priority", UpdateJobsPriorityRequest(filter=JobFilter(topics=["x"]), priority=-(2**31))),
    # Filters.
    ("filter.statuses", listing(statuses=[enum(JobStatus, 99)])),
    ("filter.job_ids", listing(job_ids=["no uuid"])),
    ("filter.job_ids", listing(job_ids=[ID] * 1001)),
    ("filter.topics", listing(topics=[""])),
    ("filter.topics", listing(topics=[LONG])),
    ("filter.topics", listing(topics=["x"] * 1001)),
    ("filter.tags", listing(tags=[""])),
    ("filter.tags", listing(tags=["x" * 101])),
    ("filter.tags", listing(tags=["x"] * 21)),
    ("filter.schedule_id", listing(schedule_id="no uuid")),
    ("filter.worker_id", listing(worker_id="no uuid")),
    ("filter.error_contains", listing(error_contains="x" * 1001)),
    ("filter.payload_contains", listing(payload_contains="no json")),
    ("filter.payload_contains", listing(payload_contains='{"a": NaN}')),
    ("filter.payload_contains", listing(payload_contains="1e1000000")),
    ("filter.payload_contains", listing(payload_contains=r'"\u0000"')),
    ("filter.payload_contains", listing(payload_contains=r'"\ud800"')),
    ("filter.payload_contains", listing(payload_contains="[" * 100_000)),
    ("filter.payload_contains", listing(payload_contains="[" * 5_000 + "]" * 5_000)),
    ("page_size", ListJobsRequest(page_size=-1)),
    ("page_size", ListJobsRequest(page_size=1001)),
    ("limit", CountJobsRequest(limit=-1)),
    ("limit", CountJobsRequest(limit=10_001)),
    ("filter.job_ids", CountJobsRequest(filter=JobFilter(job_ids=["no uuid"]))),
    *(("filter", kind()) for kind in BULK),
    *(("filter", kind(filter=JobFilter())) for kind in BULK),
    *(("filter", kind(filter=JobFilter(statuses=[JobStatus.UNSPECIFIED]))) for kind in BULK),
    *(("limit", kind(filter=JobFilter(topics=["x"]), limit=limit)) for kind in BULK for limit in (-1, 10_001)),
    *(("filter.job_ids", kind(filter=JobFilter(job_ids=["no uuid"]))) for kind in BULK),
    # Page tokens.
    *(
        ("page_token", kind(page_token=text))
        for kind in (ListJobsRequest, ListSchedulesRequest, lambda **f: ListScheduleFiresRequest(schedule_id=ID, **f))
        for text in (
            "%",
            "ä",
            "AAAA",
            token("null"),
            token("[1, 2]"),
            token('{"a": 1, "b": 2}'),
            token('["x", 1, 2]'),
            token("[" * 100_000),
        )
    ),
    # Workers.
    ("worker_id", stream(worker_id="no uuid")),
    ("topics", stream(topics=[])),
    ("topics", stream(topics=[""])),
    ("topics", stream(topics=[LONG])),
    ("topics", stream(topics=["x"] * 1001)),
    ("capacity", stream(capacity=0)),
    ("capacity", stream(capacity=-1)),
    ("capacity", stream(capacity=100_001)),
    ("host", stream(host=LONG)),
    ("version", stream(version=LONG)),
    ("worker_id", ReportResultRequest(worker_id="no uuid")),
    ("result", ReportResultRequest(worker_id=ID)),
    ("result.outcome", result()),
    ("result.job_id", result(job_id="no uuid", success=Success())),
    ("result.attempt", result(attempt=0, success=Success())),
    ("result.attempt", result(attempt=-1, success=Success())),
    ("result.failure.retry_after", result(failure=Failure(retry_after=-SECOND))),
    ("result.failure.retry_after", result(failure=Failure(retry_after=timedelta(days=367)))),
    ("result.snooze.delay", result(snooze=Snooze(delay=-SECOND))),
    ("result.snooze.delay", result(snooze=Snooze(delay=timedelta(days=367)))),
    ("worker_id", ReportResultsRequest(worker_id="no uuid")),
    ("results", ReportResultsRequest(worker_id=ID)),
    ("results", ReportResultsRequest(worker_id=ID, results=[JobResult()] * 10_001)),
    ("results[0].outcome", ReportResultsRequest(worker_id=ID, results=[JobResult(job_id=ID, attempt=1)])),
    ("worker_id", HeartbeatRequest(worker_id="no uuid")),
    ("held", HeartbeatRequest(worker_id=ID, held=[AttemptRef()] * 100_001)),
    ("held.job_id", HeartbeatRequest(worker_id=ID, held=[AttemptRef(job_id="no uuid", attempt=1)])),
    # Schedules.
    *(
        ("schedule_id", kind(schedule_id=text))
        for kind in (
            GetScheduleRequest,
            UpdateScheduleRequest,
            PauseScheduleRequest,
            ResumeScheduleRequest,
            TriggerScheduleRequest,
            DeleteScheduleRequest,
            ListScheduleFiresRequest,
        )
        for text in ("", "no uuid")
    ),
    ("job_id", TriggerScheduleRequest(schedule_id=ID, job_id="no uuid")),
    ("schedule_id", definition(schedule_id="no uuid", at=datetime(2100, 1, 1, tzinfo=UTC))),
    ("definition", CreateScheduleRequest()),
    ("definition", UpdateScheduleRequest(schedule_id=ID)),
    ("definition.timing", definition()),
    ("definition.name", definition(name="")),
    ("definition.name", definition(name=LONG)),
    ("definition.topic", definition(topic="")),
    ("definition.topic", definition(topic=LONG)),
    ("definition.payload", definition(payload=b"\0")),
    ("definition.payload", definition(payload=b"x" * (MAX_PAYLOAD + 1))),
    ("definition.options.max_attempts", definition(options=JobOptions(max_attempts=-1))),
    ("definition.options.unique.key", definition(options=JobOptions(unique=Unique()))),
    ("definition.misfire_policy", definition(misfire_policy=enum(MisfirePolicy, 99))),
    ("definition.misfire_limit", definition(every=Every(interval=SECOND), misfire_limit=-1)),
    ("definition.misfire_limit", definition(every=Every(interval=SECOND), misfire_limit=1001)),
    ("definition.every.interval", every()),
    ("definition.every.interval", every(interval=-SECOND)),
    ("definition.every.interval", every(interval=timedelta(0))),
    ("definition.every.interval", every(interval=SECOND / 2)),
    ("definition.every.interval", every(interval=timedelta(days=367))),
    ("definition.cron.expression", cron("")),
    ("definition.cron.expression", cron("x")),
    ("definition.cron.expression", cron("60 * * * *")),
    ("definition.cron.expression", cron("*/0 * * * *")),
    ("definition.cron.expression", cron("0 0 30 2 *")),
    ("definition.cron.expression", cron("* " * 200)),
    ("definition.cron.timezone", cron("0 0 * * *", "Europe/Nowhere")),
    ("definition.cron.timezone", cron("0 0 * * *", "../../etc/passwd")),
    ("definition.cron.timezone", cron("0 0 * * *", "/etc/passwd")),
    ("definition.cron.timezone", cron("0 0 * * *", LONG)),
    ("page_size", ListSchedulesRequest(page_size=-1)),
    ("page_size", ListSchedulesRequest(page_size=1001)),
    ("topic", ListSchedulesRequest(topic=LONG)),
    ("page_size", ListScheduleFiresRequest(schedule_id=ID, page_size=-1)),
    # Dispatch and stats.
    ("topic", PauseDispatchRequest(topic=LONG)),
    ("reason", PauseDispatchRequest(reason="x" * 1001)),
    ("topic", ResumeDispatchRequest(topic=LONG)),
    ("window", GetStatsRequest(window=-SECOND)),
    ("window", GetStatsRequest(window=SECOND)),
    ("window", GetStatsRequest(window=timedelta(days=2))),
    ("topics", GetStatsRequest(topics=[""])),
    ("topics", GetStatsRequest(topics=[LONG])),
    ("topic", ListWorkersRequest(topic=LONG)),
    ("topic", ListErrorsRequest(topic=LONG)),
    ("result.snooze.until", result(snooze=Snooze(until=FIRST_MOMENT))),
    ("result.snooze.until", result(snooze=Snooze(until=LAST_MOMENT))),
    ("definition.at", definition(at=FIRST_MOMENT)),
    ("definition.at", definition(at=LAST_MOMENT)),
    ("definition.every.start", every(interval=SECOND, start=FIRST_MOMENT)),
    ("definition.every.start", every(interval=SECOND, start=LAST_MOMENT)),
]


def named(rule: tuple[str, Any]) -> str:
    return f"{type(rule[1]).__name__.removesuffix('Request')}-{rule[0]}"


@pytest.mark.parametrize(("field", "request_"), RULES, ids=map(named, RULES))
async def test_a_broken_rule_is_refused_and_named(server: Server, field: str, request_: Any) -> None:
    error = await refusal(server, request_)
    assert error.status is Status.INVALID_ARGUMENT
    assert error.message is not None
    assert error.message.startswith(f"{field}: ")


# Every text of every request. The requests below are good ones with every field in them.

FULL_OPTIONS = JobOptions(unique=Unique(key="k"), tags=["t"], metadata={"k": "v"})
FULL_FILTER = JobFilter(
    topics=["t"],
    job_ids=[ID],
    tags=["t"],
    schedule_id=ID,
    worker_id=ID,
    error_contains="e",
    payload_contains="1",
)
FULL_SUBMISSION = JobSubmission(job_id=str(uuid.UUID(int=3)), topic="t", content_type="c", options=FULL_OPTIONS)
FULL_DEFINITION = ScheduleDefinition(
    name="other",
    topic="t",
    content_type="c",
    options=FULL_OPTIONS,
    cron=Cron(expression="0 0 * * *", timezone="UTC"),
)
FULL_RESULT = JobResult(job_id=ID, attempt=9, success=Success())
FULL: dict[str, Any] = {
    PATH_OF[type(request)]: request
    for request in (
        SubmitJobRequest(job=FULL_SUBMISSION),
        SubmitJobsRequest(jobs=[FULL_SUBMISSION]),
        StreamSubmitsRequest(jobs=[FULL_SUBMISSION], together=True),
        GetJobRequest(job_id=ID),
        ListJobsRequest(filter=FULL_FILTER, page_token="x"),
        CountJobsRequest(filter=FULL_FILTER),
        ExplainJobRequest(job_id=ID),
        CancelJobRequest(job_id=ID),
        RetryJobRequest(job_id=ID),
        DeleteJobRequest(job_id=ID),
        UpdateJobPriorityRequest(job_id=ID),
        CancelJobsRequest(filter=FULL_FILTER),
        RetryJobsRequest(filter=FULL_FILTER),
        DeleteJobsRequest(filter=FULL_FILTER),
        UpdateJobsPriorityRequest(filter=FULL_FILTER),
        StreamJobsRequest(worker_id=ID, topics=["t"], capacity=1, host="h", version="v"),
        ReportResultRequest(worker_id=ID, result=FULL_RESULT),
        ReportResultsRequest(worker_id=ID, results=[FULL_RESULT]),
        HeartbeatRequest(worker_id=ID, held=[AttemptRef(job_id=ID, attempt=9)]),
        CreateScheduleRequest(schedule_id=str(uuid.UUID(int=2)), definition=FULL_DEFINITION),
        GetScheduleRequest(schedule_id=ID),
        ListSchedulesRequest(topic="t", page_token="x"),
        UpdateScheduleRequest(schedule_id=ID, definition=FULL_DEFINITION),
        PauseScheduleRequest(schedule_id=ID),
        ResumeScheduleRequest(schedule_id=ID),
        TriggerScheduleRequest(schedule_id=ID, job_id=ID),
        DeleteScheduleRequest(schedule_id=ID),
        ListScheduleFiresRequest(schedule_id=ID, page_token="x"),
        PauseDispatchRequest(topic="t", reason="r"),
        ResumeDispatchRequest(topic="t"),
        GetDispatchStatusRequest(),
        GetStatsRequest(topics=["t"]),
        ListWorkersRequest(topic="t"),
        ListTopicsRequest(),
        ListErrorsRequest(topic="t"),
        GetServerInfoRequest(),
    )
}
BROKEN = "\x01broken\x01"


def with_text(value: Any, text: str) -> Iterator[tuple[str, Any]]:
    """Copies of a message, each with one of its texts replaced, and the path to that text."""
    for field in dataclasses.fields(value):
        present = getattr(value, field.name)
        for path, changed in texts_of(present, text):
            copy = deepcopy(value)
            setattr(copy, field.name, changed)
            yield f"{field.name}{path}", copy


def texts_of(value: Any, text: str) -> Iterator[tuple[str, Any]]:
    match value:
        case str():
            yield "", text
        case [item, *rest]:
            for path, changed in texts_of(item, text):
                yield path, [changed, *rest]
        case dict():
            for key, item in value.items():
                yield "", {text: item}
                yield "", {key: text}
        case _ if dataclasses.is_dataclass(value):
            for path, changed in with_text(value, text):
                yield f".{path}", changed


def spoilt(text: str) -> list[Any]:
    return [
        pytest.param(field, request, id=f"{type(request).__name__}-{field}")
        for full in FULL.values()
        for field, request in with_text(full, text)
    ]


async def test_the_full_requests_are_those_of_every_rpc() -> None:
    assert FULL.keys() == RPCS.keys()


@pytest.mark.parametrize(("field", "request_"), spoilt(NUL))
async def test_no_text_may_contain_nul(server: Server, field: str, request_: Any) -> None:
    error = await refusal(server, request_)
    assert error.status is Status.INVALID_ARGUMENT
    assert error.message is not None
    named_field = re.sub(r"\[.*?\]| key", "", error.message.partition(": ")[0])
    assert named_field == field


@pytest.mark.parametrize(("field", "request_"), spoilt(BROKEN))
async def test_text_that_is_not_utf8_is_refused(server: Server, field: str, request_: Any) -> None:
    path = PATH_OF[type(request_)]
    good = Codec().encode(request_, type(request_))
    broken = good.replace(BROKEN.encode(), b"\xff" * len(BROKEN))
    assert broken != good
    answer = await raw_call(server, path, frame(broken))
    assert answer.status is Status.INVALID_ARGUMENT
    assert field.rpartition(".")[2] in answer.message


async def raw_call(server: Server, path: str, body: bytes) -> Answer:
    async with raw_connection(server.app.port) as raw:
        return await raw.call(path, body)


@pytest.mark.parametrize("path", RPCS)
@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(b"", Status.INVALID_ARGUMENT, id="nothing"),
        pytest.param(frame(b"\x00\xff\xfe"), Status.INVALID_ARGUMENT, id="no protobuf"),
        pytest.param(frame(b"\x0a\xff\xff\xff\xff\x0f"), Status.INVALID_ARGUMENT, id="endless string"),
        pytest.param(frame(b"\x0a\x05ab"), Status.INVALID_ARGUMENT, id="string cut short"),
        pytest.param(frame(b"\x08" + b"\xff" * 11), Status.INVALID_ARGUMENT, id="endless number"),
        pytest.param(b"\x00\x00", Status.INVALID_ARGUMENT, id="prefix cut short"),
        pytest.param(frame(b"ab", length=9), Status.INVALID_ARGUMENT, id="message cut short"),
        pytest.param(frame(b"", length=9), Status.INVALID_ARGUMENT, id="message missing"),
        pytest.param(frame(b"", compressed=1), Status.UNIMPLEMENTED, id="compressed"),
        pytest.param(frame(b"", compressed=2), Status.UNIMPLEMENTED, id="unknown flag"),
        pytest.param(frame(b"", length=MAX_MESSAGE + 1), Status.RESOURCE_EXHAUSTED, id="too long"),
    ],
)
async def test_bytes_that_are_no_message_get_a_clean_status(
    server: Server, path: str, body: bytes, status: Status
) -> None:
    if not body and RPCS[path].cardinality.client_streaming:
        status = Status.OK  # no request at all is fine there
    assert (await raw_call(server, path, body)).status is status


async def test_a_token_fits_only_the_query_that_it_came_from(server: Server) -> None:
    twice = SubmitJobsRequest(jobs=[JobSubmission(topic="paged")] * 2)
    submitted = await server.jobs.submit_jobs(twice)
    try:
        page = await server.jobs.list_jobs(ListJobsRequest(filter=JobFilter(topics=["paged"]), page_size=1))
        assert page.next_page_token
        for job_filter in (JobFilter(), JobFilter(topics=["other"]), JobFilter(topics=["paged"], tags=["x"])):
            error = await refusal(server, ListJobsRequest(filter=job_filter, page_token=page.next_page_token))
            assert error.status is Status.INVALID_ARGUMENT
            assert str(error.message).startswith("page_token: ")
        error = await refusal(server, ListSchedulesRequest(page_token=page.next_page_token))
        assert str(error.message).startswith("page_token: ")
    finally:
        for job in submitted.results:
            await server.jobs.delete_job(DeleteJobRequest(job_id=job.job_id))


async def test_a_forged_cursor_is_refused(server: Server) -> None:
    twice = SubmitJobsRequest(jobs=[JobSubmission(topic="paged")] * 2)
    submitted = await server.jobs.submit_jobs(twice)
    try:
        page = await server.jobs.list_jobs(ListJobsRequest(page_size=1))
        genuine = base64.urlsafe_b64decode(page.next_page_token).decode()
        for cursor in ("1e999", "-1", str(2**63), '"1"', "true", "null", "[]"):
            forged = re.sub(r"\d+\]$", f"{cursor}]", genuine)
            error = await refusal(server, ListJobsRequest(page_token=token(forged)))
            assert error.status is Status.INVALID_ARGUMENT
            assert str(error.message).startswith("page_token: ")
    finally:
        for job in submitted.results:
            await server.jobs.delete_job(DeleteJobRequest(job_id=job.job_id))


async def test_the_worst_that_is_allowed_is_allowed(server: Server) -> None:
    """The other side of every bound above, so that none of them is tighter than it says."""
    job_id = str(uuid.UUID(int=4))
    worst = JobSubmission(
        job_id=job_id,
        topic="ä" * 127 + "x",
        payload=b"x" * MAX_PAYLOAD,
        content_type="x" * 255,
        delay=timedelta(days=366),
        options=JobOptions(
            priority=-(2**31) + 1,
            max_attempts=1000,
            timeout=timedelta(days=366),
            lease=timedelta(days=1),
            backoff=Backoff(kind=BackoffKind.EXPONENTIAL, base=timedelta(days=1), cap=timedelta(0), jitter=1.0),
            unique=Unique(key="x" * 255, scope=UniqueScope.PERIOD, period=timedelta(days=366)),
            tags=["x" * 100] * 20,
            metadata={f"{n:0>100}": "x" * 1000 for n in range(20)},
        ),
    )
    await server.jobs.submit_job(SubmitJobRequest(job=worst))
    try:
        job = await server.job(job_id)
        assert (job.topic, job.payload, job.options) == (worst.topic, worst.payload, worst.options)
        empty = await server.jobs.list_jobs(listing(submitted_after=FIRST_MOMENT, submitted_before=FIRST_MOMENT))
        assert empty.jobs == []
        everything = await server.jobs.list_jobs(listing(submitted_after=FIRST_MOMENT, submitted_before=LAST_MOMENT))
        assert job_id in [job.job_id for job in everything.jobs]
    finally:
        await server.jobs.delete_job(DeleteJobRequest(job_id=job_id))


async def test_the_spelling_of_an_error_is_mended_and_not_refused(server: Server) -> None:
    """A worker can't help what its error says; the report must count."""
    job_id = await server.submit("mended", max_attempts=1)
    try:
        async with server.worker("mended") as worker:
            await worker.fail(await worker.take_one(), "nul \0 and ä" + "ö" * 10_000)
        error = (await server.job(job_id)).last_error
        assert error.startswith("nul \N{REPLACEMENT CHARACTER} and äö")
        assert error.endswith("\n... cut")
        assert len(error.encode()) <= 8192
    finally:
        await server.jobs.delete_job(DeleteJobRequest(job_id=job_id))


async def test_every_rpc_answers_with_one_message_but_the_streams() -> None:
    """`refusal` reads one answer: enough for these."""
    streams = [path for path, handler in RPCS.items() if handler.cardinality is not Cardinality.UNARY_UNARY]
    assert streams == ["/pulse.v1.JobService/StreamSubmits", "/pulse.v1.WorkerService/StreamJobs"]
