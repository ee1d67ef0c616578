"""pytest plugin: a real pulse server on an embedded Postgres. Comes with pulse-sdk, works with pulse-sdk[testing].

    pulse_server    the address of a server; started once a session, and only if a test asks for it
    pulse_client    a pulse.Pulse for that server; what a test leaves behind is removed after it

The server is a process of its own (`python -m pulsed`) with a data directory that is gone afterwards. Nothing but
pytest is imported before a test asks for a fixture.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import pulse

START_TIMEOUT = 60
STOP_TIMEOUT = 20


@pytest.fixture(scope="session")
def pulse_server() -> Iterator[str]:
    """The address of a running server."""
    with tempfile.TemporaryDirectory(prefix="pulse-pytest-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o711)  # as root, Postgres runs as another user, who must be able to walk through
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PULSE_")}
        server = subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, "-m", "pulsed", "serve", "--grpc-addr", "127.0.0.1:0", "--data-dir", directory],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield f"127.0.0.1:{_read_port(server)}"
        finally:
            server.terminate()
            try:
                server.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
            if server.stderr is not None:
                server.stderr.close()


@pytest.fixture
def pulse_client(pulse_server: str) -> Iterator["pulse.Pulse"]:
    """A client for the server, which is empty again after the test."""
    import pulse

    yield pulse.Pulse(pulse_server)
    asyncio.run(_clean(pulse_server))


async def _clean(address: str) -> None:
    import pulse

    async with pulse.Pulse(address) as client:
        await client.resume_dispatch()
        for switch in (await client.dispatch_status()).topics:
            await client.resume_dispatch(switch.topic)
        async for schedule in client.list_schedules():
            await client.delete_schedule(schedule.id)
        unfinished = [status for status in pulse.JobStatus if not status.finished]
        while (await client.cancel_jobs(status=unfinished, limit=10_000)).more:
            pass
        finished = [status for status in pulse.JobStatus if status is not pulse.JobStatus.RUNNING]
        while (await client.delete_jobs(status=finished, limit=10_000)).more:
            pass


def _read_port(server: "subprocess.Popen[str]") -> int:
    """Wait for the line of the log that says where it serves, then keep reading so that it never blocks on us."""
    assert server.stderr is not None
    lines: list[str] = []
    timer = threading.Timer(START_TIMEOUT, server.kill)
    timer.start()
    try:
        for line in server.stderr:
            lines.append(line)
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if entry.get("message") == "serving":
                threading.Thread(target=_drain, args=(server.stderr,), daemon=True).start()
                return int(entry["port"])
    finally:
        timer.cancel()
    pytest.fail(f"the pulse server did not start; is pulse-sdk[testing] installed?\n{''.join(lines[-20:])}")


def _drain(stream: IO[str]) -> None:
    try:
        for _ in stream:
            pass
    except ValueError:
        return  # closed by the fixture
