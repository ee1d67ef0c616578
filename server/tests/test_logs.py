"""The log: one JSON object a line, without anything that is nobody's business."""

import io
import json
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from pulse_gen.rpc.pulse.v1 import JobFilter, ListJobsRequest
from pulsed import logs
from pulsed.logs import configure_logging
from support.server import Server, running_server

MARKER = "m4rker"
SECRET = "s3cret"
CREDENTIALS = "Basic YW5uYTpzM2NyZXQ="


class Log:
    """What was written so far."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Each line, which must be a JSON object."""
        lines = [json.loads(line) for line in self.text.splitlines()]
        assert all(isinstance(line, dict) for line in lines)
        return lines


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """Standard error as the program uses it, debug level and up."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    log = Log()
    monkeypatch.setattr(logs, "sys", SimpleNamespace(stderr=log.stream))
    configure_logging("debug")
    yield log
    root.handlers[:], root.level = before


def test_a_record_is_one_line_of_json_with_its_extras(log: Log) -> None:
    logging.getLogger("x").info("two\nlines, 100%% %s", "ä", extra={"port": 1, "odd": {1}})
    (line,) = log.lines
    assert line.pop("time").endswith("+00:00")
    assert line == {"level": "info", "logger": "x", "message": "two\nlines, 100% ä", "port": 1, "odd": "{1}"}


def test_an_exception_is_in_the_same_line(log: Log) -> None:
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("x").exception("it failed")
    (line,) = log.lines
    assert line["exception"].splitlines()[-1] == "ValueError: why"


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_the_level_is_the_least_that_is_written(log: Log, level: str) -> None:
    configure_logging(level)
    levels = ["debug", "info", "warning", "error"]
    for each in levels:
        logging.getLogger("x").log(logging.getLevelName(each.upper()), "said")
    assert [line["level"] for line in log.lines] == levels[levels.index(level) :]


def test_libraries_that_log_every_refusal_are_quiet(log: Log) -> None:
    for name in ("grpclib.server", "asyncpg.pool"):
        logging.getLogger(name).error("Application error")
    assert log.lines == []


async def test_payloads_errors_and_passwords_never_reach_the_log(
    database_dsn: str, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload = json.dumps({"card": MARKER}).encode()
    async with running_server(database_dsn, log_level="debug", auth_users=f"anna:{SECRET}") as server:
        for stub in (server.jobs, server.workers):
            monkeypatch.setattr(stub, "metadata", {"authorization": CREDENTIALS})
        await live_through_trouble(server, payload)
    assert any(line["message"] == "call failed" for line in log.lines)
    for hidden in (MARKER, MARKER.encode().hex(), SECRET, CREDENTIALS.split()[1]):
        assert hidden not in log.text


async def live_through_trouble(server: Server, payload: bytes) -> None:
    """A job that runs and fails, one that is refused, and one that the database can't store."""
    await server.submit(payload=payload, tags=[MARKER], max_attempts=1)
    async with server.worker() as worker:
        await worker.fail(await worker.take_one(), f"card {MARKER} was refused")
    with pytest.raises(GRPCError):
        await server.submit(payload=payload + b"\0")
    with pytest.raises(GRPCError):
        await server.jobs.list_jobs(ListJobsRequest(filter=JobFilter(payload_contains=f'"{MARKER}')))
    # The database quotes the whole row in what it says about a CHECK.
    await server.database.execute("ALTER TABLE jobs ADD CONSTRAINT broken CHECK (topic <> 'broken')")
    with pytest.raises(GRPCError) as caught:
        await server.submit("broken", payload)
    assert caught.value.status is Status.INTERNAL
    assert MARKER not in str(caught.value.message)
    await server.database.execute("ALTER TABLE jobs RENAME TO gone")
    with pytest.raises(GRPCError) as caught:
        await server.submit("gone", payload)
    assert caught.value.status is Status.INTERNAL
    await server.database.execute("ALTER TABLE gone RENAME TO jobs")
