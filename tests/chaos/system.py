"""A whole system of processes under the hand of a test: servers, workers, producers, and the oracle that watches."""

import asyncio
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import asyncpg

import pulse
from chaos.oracle import PATIENCE, Oracle, until
from pulsed.migrations import migrate

WORKER = Path(__file__).with_name("worker.py")
LEASE = timedelta(seconds=3)
WATCHDOG = timedelta(seconds=1)
SETTINGS = {
    "PULSE_LEASE_TTL": f"{LEASE.total_seconds()}s",
    "PULSE_WATCHDOG_INTERVAL": f"{WATCHDOG.total_seconds()}s",
    "PULSE_STATEMENT_TIMEOUT": "3s",
}
# A program ends with the test that started it, however that ends.
MORTAL = ("setpriv", "--pdeathsig", "KILL")
# Below the range from which outgoing connections take theirs: a killed server must find its own free.
PORTS = range(20_000, 32_000)
# How far producers run ahead of the workers.
BACKLOG = 5000
# A job that loses its worker runs again as soon as that is noticed, however often it happens.
AGAIN = pulse.Backoff(pulse.BackoffKind.FIXED, base=0)


@dataclass
class Storm:
    """One test's share of chance: the same seed gives the same decisions."""

    seed: int
    directory: Path
    # Hours instead of minutes.
    long: bool
    random: random.Random
    figures: dict[str, float] = field(default_factory=dict)

    def shares(self, count: int) -> list[float]:
        """Moments of a run, as shares of its work, in order; never at its very end."""
        return sorted(self.random.uniform(0.02, 0.9) for _ in range(count))


class Program:
    """A process that can be killed and started again. What it says goes to a file."""

    def __init__(self, directory: Path, name: str, *command: str, ready: str = "", **environment: str) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        self._command = command
        self._ready = ready
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PULSE_")}
        self._environment = inherited | environment
        self.process: asyncio.subprocess.Process

    async def start(self) -> None:
        """Returns when it says that it is ready."""
        with self.log.open("ab") as log:
            said = log.tell()
            self.process = await asyncio.create_subprocess_exec(
                *MORTAL, *self._command, env=self._environment, stdout=log, stderr=log
            )

        async def is_ready() -> bool:
            text = self.log.read_text()[said:]
            assert self.process.returncode is None, f"{self.name} ended:\n{text}"
            return self._ready in text

        await until(is_ready, f"{self.name} to start")

    def signal(self, number: signal.Signals) -> None:
        """Sends it."""
        self.process.send_signal(number)

    async def kill(self) -> None:
        """kill -9."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    async def stop(self) -> int:
        """SIGTERM; the exit code."""
        if self.process.returncode is None:
            self.process.terminate()
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()


class System:
    """Servers and workers on one database."""

    def __init__(self, storm: Storm, dsn: str, oracle: Oracle, stack: AsyncExitStack) -> None:
        self.storm = storm
        self.dsn = dsn
        self.oracle = oracle
        self.stack = stack
        self.servers: list[Program] = []
        self.ports: list[int] = []
        self.workers: list[Program] = []
        # Each job has a number of its own, which is not found elsewhere on a wire.
        self.next_number = 10**9

    def address(self, number: int = 0) -> str:
        """Where one of the servers is."""
        return f"127.0.0.1:{self.ports[number % len(self.ports)]}"

    async def add_server(self, **environment: str) -> Program:
        """One more server, with settings of its own."""
        port = free_port()
        settings = SETTINGS | {"PULSE_DATABASE_URL": self.dsn, "PULSE_GRPC_ADDR": f"127.0.0.1:{port}"} | environment
        command = (sys.executable, "-m", "pulsed", "serve")
        server = Program(
            self.storm.directory, f"server-{len(self.servers)}", *command, ready='"message": "serving"', **settings
        )
        self.servers.append(server)
        self.ports.append(port)
        self.stack.push_async_callback(server.kill)
        await server.start()
        return server

    async def add_worker(self, address: str = "", **environment: str) -> Program:
        """One more worker, of the next server unless it is told otherwise."""
        number = len(self.workers)
        command = (sys.executable, str(WORKER), address or self.address(number), str(self.oracle.ledger.path))
        worker = Program(self.storm.directory, f"worker-{number}", *command, **environment)
        self.workers.append(worker)
        self.stack.push_async_callback(worker.kill)
        await worker.start()
        return worker

    @asynccontextmanager
    async def client(self, address: str | None = None, retries: int = 5) -> AsyncIterator[pulse.Pulse]:
        """A client of the first server, or of whatever is there. With many retries it has the patience too."""
        timeout = 10 if retries <= 5 else PATIENCE
        async with pulse.Pulse(address or self.address(), timeout=timeout, retries=retries) as client:
            yield client

    async def submit(self, client: pulse.Pulse, jobs: int, seconds: float = 0.01) -> bool:
        """Stores jobs, each with a number of its own, or gives up on them; what was acknowledged is remembered."""
        items = [{"seconds": seconds, "number": self.next_number + each} for each in range(jobs)]
        self.next_number += jobs
        try:
            if jobs == 1:  # goes another way
                ids = [await client.enqueue("work", items[0], max_attempts=1000, backoff=AGAIN)]
            else:
                ids = await client.enqueue_many("work", items, max_attempts=1000, backoff=AGAIN, chunk_size=jobs)
        except (pulse.Unavailable, pulse.LimitReached):
            return False
        self.oracle.acknowledged.update(ids)
        return True

    async def _produce(self, jobs: int, addresses: Sequence[str], backlog: int) -> None:
        """Submits through everything, in groups of any size, until so many more jobs are acknowledged."""
        chance = random.Random(self.storm.random.random())
        wanted = len(self.oracle.acknowledged) + jobs
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(self.client(address)) for address in addresses]
            while (missing := wanted - len(self.oracle.acknowledged)) > 0:

                async def has_room() -> bool:
                    return len(self.oracle.acknowledged) - self.oracle.ledger.count("end") < backlog

                await until(has_room, "the workers to keep up")
                await self.submit(chance.choice(clients), min(missing, chance.choice((1, 10, 100, 500))))

    @asynccontextmanager
    async def load(self, jobs: int, *addresses: str, backlog: int = BACKLOG) -> AsyncIterator[None]:
        """Producers at work; left when everything is acknowledged."""
        addresses = addresses or tuple(self.address(number) for number in range(len(self.ports)))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._produce(jobs, addresses, backlog))
            yield

    async def until_connected(self) -> None:
        """Until every worker is known to its server."""

        async def all_connected() -> bool:
            return await self.oracle.count(table="workers") == len(self.workers)

        await until(all_connected, "every worker to connect")

    async def until_listening(self) -> None:
        """Until every server has a connection that listens: it has said so when it has said anything."""
        listening = "application_name = 'pulsed listener' AND datname = current_database() AND query <> ''"

        async def all_listen() -> bool:
            return await self.oracle.count(listening, table="pg_stat_activity") == len(self.servers)

        await until(all_listen, "every server to listen")

    async def until_ended(self, jobs: float) -> None:
        """Until handlers have ended so many attempts."""

        async def reached() -> bool:
            return self.oracle.ledger.count("end") >= jobs

        await until(reached, f"{jobs:g} handlers to end")

    @asynccontextmanager
    async def ticking(self, address: str | None = None, schedules: int = 3) -> AsyncIterator[None]:
        """Schedules of one second, paused in the end."""
        async with self.client(address, retries=1000) as client:
            made = [
                await client.create_schedule("tick", None, pulse.Every(1), name=f"tick-{number}", max_attempts=1000)
                for number in range(schedules)
            ]
            yield
            for schedule in made:
                await client.pause_schedule(schedule.id)

    async def judge(self, *, may_overlap: bool = False) -> None:
        """Waits for rest, and lets the oracle speak."""
        await self.oracle.until_rest()
        verdict = await self.oracle.judge(may_overlap=may_overlap)
        self.storm.figures |= verdict.figures


@asynccontextmanager
async def running_system(
    storm: Storm, dsn: str, *, servers: int = 1, workers: int = 2, **settings: str
) -> AsyncIterator[System]:
    """Servers and workers on a database, which is migrated if need be."""
    connection = await asyncpg.connect(dsn)
    await migrate(connection)
    await connection.close()
    oracle = Oracle(dsn, storm.directory / "ledger", WATCHDOG)
    await oracle.install()
    async with AsyncExitStack() as stack:
        system = System(storm, dsn, oracle, stack)
        for _ in range(servers):
            await system.add_server(**settings)
        for _ in range(workers):
            await system.add_worker()
        yield system


def free_port() -> int:
    """A port that nobody has now and no outgoing connection will take."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
