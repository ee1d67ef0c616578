"""The contract, the schema and the server agree: enums, RPCs, and rows that can't exist."""

import re
from collections.abc import AsyncIterator
from enum import Enum
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from grpclib.client import StreamStreamMethod, UnaryStreamMethod, UnaryUnaryMethod
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.metadata import Deadline

import pulse_gen.rpc.grpc.health.v1 as health_contract
import pulse_gen.rpc.pulse.v1 as contract
from pulse_gen.db import models
from support.server import Server

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def database(database_dsn: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(database_dsn)
    yield connection
    await connection.close()


# Enums.


@pytest.mark.parametrize(
    ("type_name", "model", "wire"),
    [
        ("job_status", models.JobStatus, contract.JobStatus),
        ("backoff_kind", models.BackoffKind, contract.BackoffKind),
        ("misfire_policy", models.MisfirePolicy, contract.MisfirePolicy),
        ("schedule_kind", models.ScheduleKind, None),
    ],
)
async def test_enums_have_the_same_names_in_contract_and_schema(
    database: "asyncpg.Connection[asyncpg.Record]", type_name: str, model: type[Enum], wire: type[Enum] | None
) -> None:
    rows = await database.fetch(f"SELECT unnest(enum_range(NULL::{type_name}))::text AS name")
    names = {row["name"] for row in rows}
    assert {member.name for member in model} == {member.value for member in model} == names
    if wire is not None:
        assert {member.name for member in wire} - {"UNSPECIFIED"} == names


async def test_every_enum_of_the_schema_is_compared(database: "asyncpg.Connection[asyncpg.Record]") -> None:
    rows = await database.fetch("SELECT typname FROM pg_type WHERE typtype = 'e' ORDER BY 1")
    assert [row["typname"] for row in rows] == ["backoff_kind", "job_status", "misfire_policy", "schedule_kind"]


def test_the_kinds_of_timing_are_the_schedule_kinds() -> None:
    text = (ROOT / "proto/pulse/v1/schedule.proto").read_text()
    (timing,) = re.findall(r"oneof timing \{(.*?)\n  \}", text, re.DOTALL)
    assert {name.upper() for name in re.findall(r"^    [\w.]+ (\w+) = \d+;", timing, re.MULTILINE)} == {
        kind.name for kind in models.ScheduleKind
    }


# RPCs.


def paths_in_the_protos() -> set[str]:
    found = set()
    for file in (ROOT / "proto/pulse/v1").glob("*.proto"):
        for service, body in re.findall(r"^service (\w+) \{(.*?)^\}", file.read_text(), re.DOTALL | re.MULTILINE):
            found |= {f"/pulse.v1.{service}/{name}" for name in re.findall(r"^  rpc (\w+)\(", body, re.MULTILINE)}
    return found


def generated_handlers() -> dict[str, Handler]:
    found: dict[str, Handler] = {}
    for module in (contract, health_contract):
        for name, value in vars(module).items():
            if name.endswith("ServiceBase") or name == "HealthBase":
                found |= value().__mapping__()
    return found


def test_the_generated_services_are_those_of_the_protos() -> None:
    handlers = generated_handlers()
    assert {path for path in handlers if path.startswith("/pulse.v1.")} == paths_in_the_protos()
    assert len(handlers) > 30


@pytest.mark.parametrize("path", sorted(generated_handlers()))
async def test_every_rpc_answers_an_empty_request_by_its_own_rules(server: Server, path: str) -> None:
    """Not with UNIMPLEMENTED, and not with an error that only a bug can give."""
    handler = generated_handlers()[path]
    deadline = Deadline.from_timeout(20)
    try:
        if handler.cardinality is Cardinality.UNARY_UNARY:
            await UnaryUnaryMethod[Any, Any](server.channel, path, handler.request_type, handler.reply_type)(
                handler.request_type(), timeout=deadline.time_remaining()
            )
        else:
            kind: Any = StreamStreamMethod if handler.cardinality.client_streaming else UnaryStreamMethod
            method = kind(server.channel, path, handler.request_type, handler.reply_type)
            async with method.open(timeout=deadline.time_remaining()) as stream:
                await stream.send_message(handler.request_type(), end=True)
                await stream.recv_message()
                await stream.cancel()
    except GRPCError as error:
        assert error.status in (Status.INVALID_ARGUMENT, Status.NOT_FOUND)
        assert error.message


# Rows that can't exist.

NOW = "2026-01-05 12:00:00Z"
FITTING = {
    "PENDING": {"ready": "true"},
    "RETRYING": {"ready": "false"},
    "RUNNING": {"lease_until": NOW, "worker_id": "018f0000-0000-7000-8000-000000000002", "attempts": "1"},
    "COMPLETED": {"finished_at": NOW},
    "DEAD_LETTERED": {"finished_at": NOW},
    "CANCELED": {"finished_at": NOW},
}


async def insert(database: "asyncpg.Connection[asyncpg.Record]", table: str, values: dict[str, str | None]) -> None:
    def literal(value: str | None) -> str:
        return "NULL" if value is None else f"'{value}'"

    await database.execute(
        f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join(literal(value) for value in values.values())})"
    )


def job(status: str, **changes: str | None) -> dict[str, str | None]:
    """A row that the table takes, but for the changes."""
    return {
        "id": "018f0000-0000-7000-8000-000000000001", "topic": "work", "payload": "", "content_type": "x",
        "priority": "0", "max_attempts": "5", "submitted_at": NOW, "next_run_at": NOW, "ready": "false",
        "status": status,
    } | FITTING[status] | changes  # fmt: skip


@pytest.mark.parametrize("status", FITTING)
async def test_the_table_takes_jobs_that_can_exist(database: "asyncpg.Connection[asyncpg.Record]", status: str) -> None:
    await insert(database, "jobs", job(status))


@pytest.mark.parametrize(
    ("row", "constraint"),
    [
        (job("RUNNING", lease_until=None), "jobs_running_has_lease"),
        *((job(status, lease_until=NOW), "jobs_running_has_lease") for status in FITTING if status != "RUNNING"),
        (job("RUNNING", worker_id=None), "jobs_running_has_owner"),
        *((job(status, finished_at=None), "jobs_finished_has_time")
          for status in ("COMPLETED", "DEAD_LETTERED", "CANCELED")),
        *((job(status, finished_at=NOW), "jobs_finished_has_time") for status in ("PENDING", "RETRYING", "RUNNING")),
        *((job(status, ready="true"), "jobs_ready_waits")
          for status in ("RUNNING", "COMPLETED", "DEAD_LETTERED", "CANCELED")),
        (job("PENDING", unique_held="true"), "jobs_unique_has_key"),
        (job("PENDING", attempts_forgiven="1"), "jobs_attempts_range"),
        (job("PENDING", attempts_forgiven="-1"), "jobs_attempts_range"),
        (job("PENDING", max_attempts="0"), "jobs_max_attempts_range"),
        (job("PENDING", topic=""), "jobs_topic_length"),
        (job("PENDING", topic="é" * 128), "jobs_topic_length"),
    ],
)  # fmt: skip
async def test_the_table_refuses_jobs_that_cannot_exist(
    database: "asyncpg.Connection[asyncpg.Record]", row: dict[str, str | None], constraint: str
) -> None:
    with pytest.raises(asyncpg.CheckViolationError) as refused:
        await insert(database, "jobs", row)
    assert refused.value.constraint_name == constraint


async def test_a_unique_key_has_one_holder_a_topic(database: "asyncpg.Connection[asyncpg.Record]") -> None:
    def keyed(number: int, topic: str = "work", held: str = "true") -> dict[str, str | None]:
        row_id = f"018f0000-0000-7000-8000-00000000000{number}"
        return job("PENDING", id=row_id, topic=topic, unique_key="k", unique_held=held)

    for row in (keyed(1), keyed(2, topic="other"), keyed(3, held="false")):
        await insert(database, "jobs", row)
    with pytest.raises(asyncpg.UniqueViolationError):
        await insert(database, "jobs", keyed(4))


TIMINGS: dict[str, dict[str, str | None]] = {
    "AT": {"start_at": NOW},
    "EVERY": {"start_at": NOW, "every": "1 hour"},
    "CRON": {"cron": "* * * * *", "timezone": "UTC"},
}


def schedule(kind: str, **changes: str | None) -> dict[str, str | None]:
    return {
        "id": "018f0000-0000-7000-8000-000000000001", "name": "n", "kind": kind, "misfire_policy": "ONCE",
        "misfire_limit": "1", "created_at": NOW, "updated_at": NOW, "topic": "work", "payload": "",
        "content_type": "x", "priority": "0", "max_attempts": "5",
    } | TIMINGS[kind] | changes  # fmt: skip


@pytest.mark.parametrize("kind", TIMINGS)
async def test_the_table_takes_schedules_that_can_exist(
    database: "asyncpg.Connection[asyncpg.Record]", kind: str
) -> None:
    await insert(database, "schedules", schedule(kind))


@pytest.mark.parametrize(
    ("table", "row", "constraint"),
    [
        ("schedules", schedule("AT", start_at=None), "schedules_at_has_moment"),
        ("schedules", schedule("EVERY", start_at=None), "schedules_every_has_rhythm"),
        ("schedules", schedule("EVERY", every=None), "schedules_every_has_rhythm"),
        ("schedules", schedule("EVERY", every="0"), "schedules_every_has_rhythm"),
        ("schedules", schedule("EVERY", every="-1 hour"), "schedules_every_has_rhythm"),
        ("schedules", schedule("CRON", cron=None), "schedules_cron_has_expression"),
        ("schedules", schedule("CRON", timezone=None), "schedules_cron_has_expression"),
        ("schedules", schedule("AT", misfire_limit="0"), "schedules_misfire_limit_range"),
        ("dispatch_control", {"scope": "t", "paused": "true", "reason": "", "paused_by": ""},
         "dispatch_control_paused_has_time"),
        ("dispatch_control", {"scope": "t", "paused": "false", "reason": "r", "paused_by": ""},
         "dispatch_control_running_has_no_reason"),
    ],
)  # fmt: skip
async def test_the_other_tables_refuse_rows_that_cannot_exist(
    database: "asyncpg.Connection[asyncpg.Record]", table: str, row: dict[str, str | None], constraint: str
) -> None:
    with pytest.raises(asyncpg.CheckViolationError) as refused:
        await insert(database, table, row)
    assert refused.value.constraint_name == constraint
