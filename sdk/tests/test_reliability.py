"""What must hold when things break: servers that are killed, loops that are blocked, processes that are stopped."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import pulse
from pulse._worker.transport import Transport, cancel

Running = Callable[..., Any]
UntilStatus = Callable[..., Any]

PATIENCE = 30

# A worker as a program: it appends what happens to a ledger, one line at a time.
WORKER = """
    import asyncio, os, sys
    import pulse

    p = pulse.Pulse(concurrency=4, prefetch=4, drain_timeout=float(sys.argv[2]))

    def note(event, job):
        line = f"{event} {job.id} {job.attempt} {os.getpid()}\\n"
        os.write(ledger, line.encode())

    ledger = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    @p.task("long")
    async def long(args: float, job: pulse.Job) -> None:
        note("start", job)
        try:
            await asyncio.sleep(args)
        except asyncio.CancelledError:
            note("stopped", job)
            raise
        note("end", job)

    asyncio.run(p.run())
"""


class WorkerProgram:
    """The program above, running."""

    def __init__(self, directory: Path, address: str, *, drain_timeout: float = 30) -> None:
        self.ledger = directory / "ledger"
        program = directory / "worker.py"
        program.write_text(textwrap.dedent(WORKER))
        self.process = subprocess.Popen(
            [sys.executable, str(program), str(self.ledger), str(drain_timeout)],
            env={**os.environ, "PULSE_ADDR": address},
        )

    def events(self) -> list[list[str]]:
        """What happened so far."""
        return [line.split() for line in self.ledger.read_text().splitlines()] if self.ledger.exists() else []

    async def until_started(self, count: int) -> None:
        """Until so many handlers were started."""
        async with asyncio.timeout(PATIENCE):
            while sum(event[0] == "start" for event in self.events()) < count:
                await asyncio.sleep(0.02)

    async def wait(self) -> int:
        """Its exit status."""
        return await asyncio.to_thread(self.process.wait, PATIENCE)


@pytest.fixture
def worker_program(tmp_path: Path) -> Any:
    """Starts the program; what is left of it is killed in the end."""
    started: list[WorkerProgram] = []

    def start(address: str, **options: Any) -> WorkerProgram:
        started.append(WorkerProgram(tmp_path, address, **options))
        return started[-1]

    yield start
    for program in started:
        if program.process.poll() is None:
            program.process.kill()
            program.process.wait()


async def test_server_is_killed_under_load_and_nothing_is_lost_or_run_twice_at_once(server_process: Any) -> None:
    """The oracle: every acknowledged job ends, attempts of a job never overlap, the worker needs no help."""
    server_process.start()
    client = pulse.Pulse(server_process.address, concurrency=20, prefetch=20, retries=20)
    running_now: Counter[str] = Counter()
    attempts: defaultdict[str, list[int]] = defaultdict(list)
    overlaps: list[str] = []
    completed: set[str] = set()

    @client.task("t", max_attempts=50, backoff=pulse.Backoff(pulse.BackoffKind.FIXED, base=0.1))
    async def handler(job: pulse.Job) -> None:
        running_now[job.id] += 1
        if running_now[job.id] > 1:
            overlaps.append(job.id)
        attempts[job.id].append(job.attempt)
        try:
            await asyncio.sleep(0.005)
        finally:
            running_now[job.id] -= 1
        completed.add(job.id)

    acknowledged: set[str] = set()

    async def produce() -> None:
        while len(acknowledged) < 1000:
            try:
                acknowledged.update(await client.enqueue_many(handler, [None] * 50))
            except pulse.Unavailable:
                continue

    worker = asyncio.create_task(client.run(handle_signals=False))
    producer = asyncio.create_task(produce())
    try:
        async with asyncio.timeout(PATIENCE):
            for _ in range(2):
                before = len(completed)
                while len(completed) < before + 200:
                    await asyncio.sleep(0.01)
                server_process.kill()
                await asyncio.sleep(0.2)
                await asyncio.to_thread(server_process.start)
            await producer
            while (await client.count_jobs(topic="t", status=["pending", "running", "retrying"])).count:
                await asyncio.sleep(0.1)
    finally:
        producer.cancel()
        client.stop()
        await worker
    assert acknowledged <= completed
    assert not overlaps
    assert all(numbers == sorted(set(numbers)) for numbers in attempts.values())
    async for job in client.list_jobs(topic="t", page_size=1000):
        assert job.status is pulse.JobStatus.COMPLETED
    await client.close()


async def test_handler_that_blocks_the_loop_keeps_its_lease_and_is_named(
    make_server: Callable[..., Any],
    running: Running,
    until_status: UntilStatus,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = make_server(lease_ttl=timedelta(seconds=1), watchdog_interval=timedelta(milliseconds=100))
    client = pulse.Pulse(server.address, concurrency=2, blocked_after=0.5)
    attempts: list[int] = []

    @client.task("blocker")
    async def blocker(job: pulse.Job) -> None:
        attempts.append(job.attempt)
        time.sleep(3)  # noqa: ASYNC251 - the point of it

    async with running(client):
        job = await until_status(client, await blocker.enqueue(), "COMPLETED")
    await client.close()
    assert attempts == [1]
    assert job.attempts == 1
    assert "blocker has blocked the event loop" in caplog.text
    assert "time.sleep(3)" in caplog.text


async def test_sigterm_lets_running_jobs_finish_and_hands_the_rest_back(
    make_server: Callable[..., Any], worker_program: Callable[..., WorkerProgram]
) -> None:
    server = make_server(lease_ttl=timedelta(seconds=1), watchdog_interval=timedelta(milliseconds=100))
    async with pulse.Pulse(server.address) as client:
        ids = await client.enqueue_many("long", [2.5] * 8)
        program = worker_program(server.address)
        await program.until_started(4)
        assert (await client.count_jobs(status="running")).count == 8  # four of them wait in the worker
        program.process.send_signal(signal.SIGTERM)
        assert await program.wait() == 0
        events = program.events()
        assert Counter(event[0] for event in events) == {"start": 4, "end": 4}
        ran = {event[1] for event in events}
        for job_id in ids:
            job = await client.get_job(job_id)
            if job_id in ran:
                # Longer than two leases: beaten for until the end, and so given to nobody else.
                assert (job.status, job.attempts) == ("COMPLETED", 1)
            else:
                assert (job.status, job.attempts_spent) == ("PENDING", 0)


async def test_drain_is_bounded_and_what_it_stops_is_handed_back(
    server: Any, worker_program: Callable[..., WorkerProgram]
) -> None:
    async with pulse.Pulse(server.address) as client:
        job_id = await client.enqueue("long", 60)
        program = worker_program(server.address, drain_timeout=0.3)
        await program.until_started(1)
        program.process.terminate()
        assert await program.wait() == 0
        assert program.events()[-1][0] == "stopped"
        job = await client.get_job(job_id)
        assert (job.status, job.attempts_spent) == ("PENDING", 0)


async def test_second_signal_ends_it_at_once(server: Any, worker_program: Callable[..., WorkerProgram]) -> None:
    async with pulse.Pulse(server.address) as client:
        await client.enqueue("long", 60)
        program = worker_program(server.address)
        await program.until_started(1)
        async with asyncio.timeout(PATIENCE):
            while not await client.workers():
                await asyncio.sleep(0.02)
            program.process.send_signal(signal.SIGINT)
            while await client.workers():  # it drains; two signals at once would be one to the kernel
                await asyncio.sleep(0.02)
        began = time.monotonic()
        program.process.send_signal(signal.SIGINT)
        await program.wait()
        assert time.monotonic() - began < 5
        assert program.events()[-1][0] == "stopped"


async def test_worker_whose_lease_was_taken_stops_that_handler_and_reports_nothing(
    make_server: Callable[..., Any], running: Running, until_status: UntilStatus, database_dsn: str
) -> None:
    import asyncpg

    server = make_server(lease_ttl=timedelta(seconds=1), watchdog_interval=timedelta(milliseconds=100))
    client = pulse.Pulse(server.address)
    stopped: list[int] = []
    started: asyncio.Queue[int] = asyncio.Queue()

    @client.task("t", backoff=pulse.Backoff(pulse.BackoffKind.FIXED, base=0))
    async def handler(job: pulse.Job) -> None:
        started.put_nowait(job.attempt)
        if job.attempt > 1:
            return
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append(job.attempt)
            assert job.cancelled
            raise

    async with running(client):
        job_id = await handler.enqueue()
        assert await started.get() == 1
        connection = await asyncpg.connect(database_dsn)
        await connection.execute("UPDATE jobs SET lease_until = now() - interval '1 hour'")
        await connection.close()
        job = await until_status(client, job_id, "COMPLETED")
        async with asyncio.timeout(PATIENCE):
            while not stopped:
                await asyncio.sleep(0.02)
    await client.close()
    assert stopped == [1]
    assert job.attempts == 2
    assert len(job.failures) == 1  # the watchdog's, not one of the handler's


async def test_next_attempt_does_not_start_beside_a_plain_function_that_outlives_its_lease(
    make_server: Callable[..., Any], running: Running, until_status: UntilStatus, database_dsn: str
) -> None:
    import asyncpg

    server = make_server(lease_ttl=timedelta(seconds=1), watchdog_interval=timedelta(milliseconds=100))
    client = pulse.Pulse(server.address)
    events: list[tuple[str, int]] = []
    release = threading.Event()

    @client.task("t", backoff=pulse.Backoff(pulse.BackoffKind.FIXED, base=0))
    def handler(job: pulse.Job) -> None:
        events.append(("start", job.attempt))
        if job.attempt == 1:
            release.wait(PATIENCE)
        events.append(("end", job.attempt))

    async with running(client), asyncio.timeout(PATIENCE):
        job_id = await handler.enqueue()
        while not events:
            await asyncio.sleep(0.02)
        connection = await asyncpg.connect(database_dsn)
        await connection.execute("UPDATE jobs SET lease_until = now() - interval '1 hour'")
        await connection.close()
        while (job := await client.get_job(job_id)).attempts < 2 or job.status != "RUNNING":
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)  # it has arrived by now, and must not have been started
        assert events == [("start", 1)]
        release.set()
        await until_status(client, job_id, "COMPLETED")
    await client.close()
    # Another lease may have gone by, and with it another attempt; but one after the other.
    assert [event for event, _ in events] == ["start", "end"] * (len(events) // 2)


async def test_handler_is_stopped_when_its_lease_runs_out_without_a_server(server_process: Any) -> None:
    server_process.start()
    client = pulse.Pulse(server_process.address)
    started, stopped = asyncio.Event(), asyncio.Event()

    @client.task("t")
    async def handler() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    worker = asyncio.create_task(client.run(handle_signals=False))
    try:
        async with asyncio.timeout(PATIENCE):
            await handler.enqueue()
            await started.wait()
            server_process.kill()
            await stopped.wait()  # the lease is 2 s: by then another worker may have the job
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        await client.close()


async def test_results_that_could_not_be_sent_are_sent_after_the_reconnect(
    server_process: Any, until_status: UntilStatus
) -> None:
    server_process.start()
    client = pulse.Pulse(server_process.address, retries=20)
    started, go_on = asyncio.Event(), asyncio.Event()

    @client.task("t", lease=60)
    async def handler() -> None:
        started.set()
        await go_on.wait()

    worker = asyncio.create_task(client.run(handle_signals=False))
    job_id = await handler.enqueue()
    await started.wait()
    server_process.kill()
    go_on.set()
    await asyncio.sleep(0.1)
    await asyncio.to_thread(server_process.start)
    job = await until_status(client, job_id, "COMPLETED")
    client.stop()
    await worker
    await client.close()
    assert job.attempts == 1


async def test_jobs_that_were_lost_on_the_way_are_handed_back_when_the_worker_drains(
    client: pulse.Pulse, running: Running, until_status: UntilStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has them as ours, and they never arrived: they must not wait for their leases to end."""
    lost = asyncio.Event()
    loop = asyncio.get_running_loop()
    take = Transport._take

    def lose(self: Transport, message: Any) -> None:
        if message.assignments:
            message.assignments = []
            loop.call_soon_threadsafe(lost.set)
        take(self, message)

    monkeypatch.setattr(Transport, "_take", lose)

    @client.task("t")
    async def handler() -> None: ...

    job_id = await handler.enqueue()
    async with running(client):
        await lost.wait()
        assert (await client.get_job(job_id)).status == "RUNNING"
    job = await client.get_job(job_id)
    assert (job.status, job.attempts_spent) == ("PENDING", 0)


async def test_cancelling_run_stops_at_once_and_hands_back(client: pulse.Pulse) -> None:
    started = asyncio.Event()

    @client.task("t")
    async def handler() -> None:
        started.set()
        await asyncio.sleep(60)

    worker = asyncio.create_task(client.run(handle_signals=False))
    job_id = await handler.enqueue()
    await started.wait()
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker
    assert (await client.get_job(job_id)).status == "PENDING"


async def test_paused_dispatch_gives_a_worker_nothing_until_it_is_resumed(
    client: pulse.Pulse, running: Running, until_status: UntilStatus
) -> None:
    @client.task("t")
    async def handler() -> None: ...

    await client.pause_dispatch(reason="maintenance")
    async with running(client):
        job_id = await handler.enqueue()
        explanation = await client.explain_job(job_id)
        assert explanation.reason is pulse.HoldReason.PAUSED
        assert (await client.get_job(job_id)).attempts == 0
        await client.resume_dispatch()
        await until_status(client, job_id, "COMPLETED")


async def test_a_drain_survives_a_stream_that_ends_at_the_same_moment() -> None:
    """grpclib loses a cancellation that meets the end of a stream: a draining worker would connect again for ever."""
    lost = asyncio.Event()

    async def loses_the_first_cancellation() -> None:
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if lost.is_set():
                    raise
                lost.set()

    task = asyncio.create_task(loses_the_first_cancellation())
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        await cancel(task)
    assert lost.is_set()
    assert task.cancelled()
