"""The server that is fuzzed, a good client beside it, and what must hold of both."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fuzz.cases import SEED
from fuzz.messages import FOREIGN_TOPIC as TOPIC
from pulse_gen.rpc.pulse.v1 import CountJobsRequest, JobFilter, JobStatus
from support.server import BareWorker, Client

PATIENCE = 60.0
# What the server may do for others while the good client waits, in seconds of its CPU: a busy machine changes nothing.
MOST_CPU_A_ROUND = 3.0
MOST_GROWTH_BYTES = 128 << 20


class Target:
    """`pulsed` as a process, with its log."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.port = 0
        self.log: list[dict[str, Any]] = []
        self.serving = asyncio.Event()

    async def read_log(self) -> None:
        """Reads until the process ends. What is no JSON is not from our logging: a traceback, say."""
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            text = line.decode()
            self.log.append(json.loads(text) if text.startswith("{") else {"level": "error", "message": text})
            if self.log[-1]["message"] == "serving":
                self.port = self.log[-1]["port"]
                self.serving.set()

    def errors(self) -> list[dict[str, Any]]:
        """What the server should not have had to say."""
        return [line for line in self.log if line["level"] in ("error", "critical") or "exception" in line]

    def resident_bytes(self) -> int:
        """The memory that it takes now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (kilobytes,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(kilobytes) << 10

    def cpu_seconds(self) -> float:
        """The CPU time that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def connections(self) -> int:
        """How many sockets it holds, besides the one that it listens on."""
        held = set()
        for file in Path(f"/proc/{self.process.pid}/fd").iterdir():
            try:
                held.add(str(file.readlink()))
            except FileNotFoundError:  # closed meanwhile
                continue
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        ours = [row for row in rows if row[1].endswith(f":{self.port:04X}") and row[3] != "0A"]
        return sum(f"socket:[{row[9]}]" in held for row in ours)


class Bystander:
    """A good client: it submits, works and reports, and notes what it had to wait for. `async with` lets it play."""

    def __init__(self, target: Target) -> None:
        self.client = Client(target.port)
        self.rounds = self.completed = 0
        self.dearest = 0.0
        self._target = target
        self._worker = BareWorker(self.client, [TOPIC])
        self._played = asyncio.Event()
        self._leaving = False
        self._task: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._play())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leaving = True
        try:
            await self._task
            completed = JobFilter(topics=[TOPIC], statuses=[JobStatus.COMPLETED])
            counted = await self.client.jobs.count_jobs(CountJobsRequest(filter=completed))
            self.completed = counted.count
        finally:
            self.client.channel.close()

    async def _play(self) -> None:
        """Rounds, with a breath in between."""
        async with self._worker:
            while not self._leaving:
                before = self._target.cpu_seconds()
                await self._play_round()
                self.dearest = max(self.dearest, self._target.cpu_seconds() - before)
                self.rounds += 1
                self._played.set()
                await asyncio.sleep(0.01)

    async def _play_round(self) -> None:
        """One job, from submit to completed."""
        async with asyncio.timeout(PATIENCE):
            job_id = await self.client.submit(TOPIC)
            assignment = await self._worker.take_one()
            assert assignment.job_id == job_id
            await self._worker.complete(assignment)

    async def played(self, rounds: int) -> None:
        """Waits for so many more rounds."""
        wanted = self.rounds + rounds
        while self.rounds < wanted:
            self._played.clear()
            waiting = asyncio.ensure_future(self._played.wait())
            await asyncio.wait([waiting, self._task], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if self._task.done():
                await self._task
                raise AssertionError("the good client has left")


@asynccontextmanager
async def running_target(dsn: str, **settings: str) -> AsyncIterator[Target]:
    """A server process; killed at the end if it is still there."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PULSE_")}
    environment |= {f"PULSE_{name.upper()}": value for name, value in settings.items()}
    environment |= {"PULSE_GRPC_ADDR": "127.0.0.1:0", "PULSE_DATABASE_URL": dsn}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pulsed", "serve", env=environment, stderr=asyncio.subprocess.PIPE
    )
    target = Target(process)
    reading = asyncio.create_task(target.read_log())
    try:
        async with asyncio.timeout(PATIENCE):
            await target.serving.wait()
        yield target
    except BaseException as error:
        error.add_note(f"seed {SEED}; the end of the server's log: {target.log[-3:]}")
        raise
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await reading


@asynccontextmanager
async def hunted(dsn: str) -> AsyncIterator[tuple[Target, Bystander]]:
    """A server to attack. Afterwards it must be whole, and the good client beside it must not have been harmed."""
    # A stop waits for calls in progress: with an hour to wait for them, it ends at once only if none is left.
    async with running_target(dsn, shutdown_timeout="1h") as target:
        async with Bystander(target) as bystander:
            await bystander.played(20)
            before = target.resident_bytes()
            yield target, bystander
            await until(lambda: target.connections() == 1, "attackers' connections are let go")
            grown = target.resident_bytes() - before
        assert bystander.completed == min(bystander.rounds, 10_000)
        assert bystander.dearest <= MOST_CPU_A_ROUND, f"the good client waited for {bystander.dearest:.1f} s of CPU"
        assert grown <= MOST_GROWTH_BYTES, f"{grown >> 20} MiB more memory are in use"
        target.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            assert await target.process.wait() == 0
        assert target.errors() == []


async def until(condition: Callable[[], bool], what: str) -> None:
    """Waits for something that has no signal of its own."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not so after {PATIENCE:g} s: {what}") from None
