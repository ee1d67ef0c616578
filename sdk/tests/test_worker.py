"""Handlers of every shape, every way that an attempt can end, and what a worker promises about them."""

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

import pulse

Running = Callable[..., Any]
UntilStatus = Callable[..., Any]


class Number(BaseModel):
    n: int


def cpu_bound(args: Number) -> None:
    """For the process pool."""
    if args.n < 0:
        raise pulse.Discard(f"{args.n} is negative")


async def test_handlers_of_every_shape_run(client: pulse.Pulse, running: Running, until_status: UntilStatus) -> None:
    ran: dict[str, Any] = {}

    @client.task("async-both")
    async def async_both(args: Number, job: pulse.Job) -> None:
        ran["async-both"] = (args.n, job.attempt, job.topic, pulse.current_job() is job)

    @client.task("plain-both")
    def plain_both(args: Number, job: pulse.Job) -> None:
        ran["plain-both"] = (args.n, threading.current_thread().name.startswith("pulse handler"))
        assert pulse.current_job() is job

    @client.task("args-only")
    async def args_only(args: dict[str, int]) -> None:
        ran["args-only"] = args

    @client.task("job-only")
    async def job_only(job: pulse.Job) -> None:
        ran["job-only"] = job.id

    @client.task("nothing")
    def nothing() -> None:
        ran["nothing"] = True

    client.register("raw", lambda payload: ran.setdefault("raw", payload))

    ids = [
        await async_both.enqueue(Number(n=1)),
        await plain_both.enqueue(Number(n=2)),
        await args_only.enqueue({"n": 3}),
        await job_only.enqueue(),
        await nothing.enqueue(),
        await client.enqueue("raw", [4]),
    ]
    async with running(client):
        for job_id in ids:
            await until_status(client, job_id, "COMPLETED")
    assert ran == {
        "async-both": (1, 1, "async-both", True),
        "plain-both": (2, True),
        "args-only": {"n": 3},
        "job-only": ids[3],
        "nothing": True,
        "raw": [4],
    }


async def test_job_tells_its_handler_everything(
    client: pulse.Pulse, running: Running, until_status: UntilStatus
) -> None:
    seen: list[pulse.Job] = []

    @client.task("t")
    async def handler(job: pulse.Job) -> None:
        seen.append(job)

    async with running(client):
        job_id = await handler.enqueue(priority=3, tags=["x"], metadata={"k": "v"}, timeout=60, max_attempts=2)
        await until_status(client, job_id, "COMPLETED")
    (job,) = seen
    assert (job.id, job.attempt, job.priority, job.tags, dict(job.metadata)) == (job_id, 1, 3, ("x",), {"k": "v"})
    assert (job.max_attempts, job.attempts_spent, job.is_last_attempt) == (2, 1, False)
    assert job.timeout == timedelta(minutes=1)
    assert job.deadline is not None
    assert timedelta(0) < job.deadline - datetime.now(UTC) <= timedelta(minutes=1)
    assert not job.cancelled


async def test_error_is_reported_with_its_traceback_and_retried(
    client: pulse.Pulse, running: Running, until_status: UntilStatus, caplog: pytest.LogCaptureFixture
) -> None:
    # pytest-xdist can't carry a log with broken text in it.
    caplog.set_level(logging.CRITICAL, "pulse.worker")

    @client.task("flaky", backoff=pulse.Backoff(pulse.BackoffKind.FIXED, base=0))
    async def flaky(job: pulse.Job) -> None:
        if job.attempt == 1:
            raise ValueError("broken \udcff text \x00 and more")

    async with running(client):
        job = await until_status(client, await flaky.enqueue(), "COMPLETED")
    (failure,) = job.failures
    assert "ValueError: broken \\udcff text \N{REPLACEMENT CHARACTER} and more" in failure.error
    assert "in flaky" in failure.error
    assert "runner.py" not in failure.error
    assert job.attempts == 2


async def test_handler_that_calls_exit_fails_and_the_worker_goes_on(client: pulse.Pulse, running: Running) -> None:
    @client.task("async", max_attempts=1)
    async def leave() -> None:
        raise SystemExit(3)

    @client.task("plain", max_attempts=1)
    def leave_plain() -> None:
        raise SystemExit(3)

    async with running(client):
        for task in (leave, leave_plain):
            job = await client.wait_job(await task.enqueue(), timeout=10)
            assert job.status == "DEAD_LETTERED"
            assert "SystemExit" in (job.last_error or "")


async def test_long_traceback_keeps_its_tail(client: pulse.Pulse, running: Running, until_status: UntilStatus) -> None:
    @client.task("long", max_attempts=1)
    async def long() -> None:
        raise ValueError("x" * 20_000 + " the end")

    async with running(client):
        job = await until_status(client, await long.enqueue(), "DEAD_LETTERED")
    assert job.last_error is not None
    assert len(job.last_error.encode()) <= 8192
    assert job.last_error.rstrip().endswith("the end")


async def test_retry_snooze_and_discard(client: pulse.Pulse, running: Running, until_status: UntilStatus) -> None:
    @client.task("retry")
    async def retry(job: pulse.Job) -> None:
        if job.attempt == 1:
            raise pulse.Retry("not ready", after=0)

    @client.task("later")
    async def later() -> None:
        raise pulse.Retry("much later", after=timedelta(hours=1))

    @client.task("snooze", max_attempts=1)
    async def snooze(job: pulse.Job) -> None:
        if job.attempt < 3:
            raise pulse.Snooze(0.01)

    @client.task("snooze-until")
    def snooze_until() -> None:
        raise pulse.Snooze(until=datetime.now(UTC) + timedelta(hours=1))

    @client.task("discard")
    async def discard() -> None:
        raise pulse.Discard("no such customer")

    async with running(client):
        retried = await until_status(client, await retry.enqueue(), "COMPLETED")
        waiting = await until_status(client, await later.enqueue(), "RETRYING")
        snoozed = await until_status(client, await snooze.enqueue(), "COMPLETED")
        asleep_id = await snooze_until.enqueue()
        dead = await until_status(client, await discard.enqueue(), "DEAD_LETTERED")
        async with asyncio.timeout(10):
            while (asleep := await client.get_job(asleep_id)).attempts == 0 or asleep.status == "RUNNING":
                await asyncio.sleep(0.02)
    assert (retried.attempts, retried.failures[0].error) == (2, "not ready")
    assert waiting.next_run_at > datetime.now(UTC) + timedelta(minutes=59)
    assert (snoozed.attempts, snoozed.attempts_spent) == (3, 1)
    assert asleep.status == "PENDING"
    assert asleep.attempts_spent == 0
    assert (dead.attempts, dead.last_error) == (1, "no such customer")


async def test_payload_that_does_not_fit_goes_to_the_dead_letters_at_once(
    client: pulse.Pulse, server: Any, running: Running, until_status: UntilStatus
) -> None:
    @client.task("number")
    async def number(args: Number) -> None: ...

    async with pulse.Pulse(server.address) as stranger:  # does not know the task
        wrong = await stranger.enqueue("number", {"n": "many", "secret": "hunter2"})
        broken = await stranger.enqueue("number", b"{not json", content_type="application/json")
    async with running(client):
        job = await until_status(client, wrong, "DEAD_LETTERED")
        other = await until_status(client, broken, "DEAD_LETTERED")
    assert job.attempts == 1
    assert "does not fit Number" in job.last_error
    assert "n: Input should be a valid integer" in job.last_error
    assert "hunter2" not in job.last_error
    assert "Invalid JSON" in other.last_error


async def test_async_handler_is_stopped_at_its_timeout(
    client: pulse.Pulse, running: Running, until_status: UntilStatus
) -> None:
    stopped = asyncio.Event()

    @client.task("slow", timeout=0.1, max_attempts=1)
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    @client.task("own-timeout", timeout=60, max_attempts=1)
    async def own_timeout() -> None:
        raise TimeoutError("the bank did not answer")

    async with running(client):
        job = await until_status(client, await slow.enqueue(), "DEAD_LETTERED")
        own = await until_status(client, await own_timeout.enqueue(), "DEAD_LETTERED")
    assert stopped.is_set()
    assert job.last_error == "timed out: it ran for more than 0.1 s"
    assert "the bank did not answer" in own.last_error


async def test_plain_function_sees_that_its_time_is_up(
    client: pulse.Pulse, running: Running, until_status: UntilStatus
) -> None:
    @client.task("slow", timeout=0.1, max_attempts=1)
    def slow(job: pulse.Job) -> None:
        while not job.cancelled:
            time.sleep(0.01)
        raise RuntimeError("stopped half way")

    async with running(client):
        job = await until_status(client, await slow.enqueue(), "DEAD_LETTERED")
    assert job.last_error.startswith("timed out")


async def test_plain_function_that_does_not_stop_is_given_up_and_keeps_its_slot(
    client: pulse.Pulse,
    running: Running,
    until_status: UntilStatus,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("pulse._worker.runner.THREAD_GRACE", 0.1)
    release = threading.Event()

    @client.task("stubborn", timeout=0.1, max_attempts=1)
    def stubborn() -> None:
        release.wait(20)

    async with running(client):
        job = await until_status(client, await stubborn.enqueue(), "DEAD_LETTERED")
        release.set()
    assert job.last_error.startswith("timed out")
    assert "stubborn still runs" in caplog.text


async def test_cancel_stops_an_async_handler_and_asks_a_plain_one(
    client: pulse.Pulse, running: Running, until_status: UntilStatus
) -> None:
    started: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    @client.task("sleeper")
    async def sleeper(job: pulse.Job) -> None:
        started.put_nowait(job.id)
        await asyncio.sleep(60)

    @client.task("looper")
    def looper(job: pulse.Job) -> None:
        loop.call_soon_threadsafe(started.put_nowait, job.id)
        while not job.cancelled:
            time.sleep(0.01)
        raise RuntimeError("stopped")

    async with running(client):
        for task in (sleeper, looper):
            await task.enqueue()
            job_id = await started.get()
            assert await client.cancel_job(job_id) is pulse.JobStatus.RUNNING
            await until_status(client, job_id, "CANCELED")


async def test_handler_may_finish_although_it_was_canceled(
    client: pulse.Pulse, running: Running, until_status: UntilStatus
) -> None:
    started = asyncio.Event()

    @client.task("stubborn")
    async def stubborn() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return  # nearly done: finishes

    @client.task("next")
    async def after() -> None:
        async with asyncio.timeout(5):
            await asyncio.sleep(0)

    async with running(client):
        job_id = await stubborn.enqueue()
        await started.wait()
        await client.cancel_job(job_id)
        await until_status(client, job_id, "COMPLETED")
        await until_status(client, await after.enqueue(), "COMPLETED")


async def test_never_more_than_concurrency_at_once_and_no_more_held_than_stated(server: Any, running: Running) -> None:
    client = pulse.Pulse(server.address, concurrency=3, prefetch=2)
    at_once = most = most_held = 0
    done = asyncio.Event()
    finished = 0

    @client.task("t")
    async def handler() -> None:
        nonlocal at_once, most, most_held, finished
        at_once += 1
        most = max(most, at_once)
        most_held = max(most_held, server.app.dispatcher.count_held())
        await asyncio.sleep(0.01)
        at_once -= 1
        finished += 1
        if finished == 40:
            done.set()

    await client.enqueue_many(handler, [None] * 40)
    async with running(client), asyncio.timeout(20):
        await done.wait()
    await client.close()
    assert most == 3
    assert 3 < most_held <= 5


async def test_what_a_handler_leaves_in_its_context_is_not_seen_by_the_next(
    server: Any, running: Running, until_status: UntilStatus
) -> None:
    client = pulse.Pulse(server.address, concurrency=1, prefetch=10)  # one slot, several jobs in a row
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="clean")
    seen: list[str] = []

    @client.task("t")
    async def handler(args: Number) -> None:
        seen.append(variable.get())
        variable.set(f"dirty {args.n}")

    ids = await handler.enqueue_many([Number(n=n) for n in range(5)])
    async with running(client):
        for job_id in ids:
            await until_status(client, job_id, "COMPLETED")
    await client.close()
    assert seen == ["clean"] * 5


async def test_process_pool_runs_a_plain_function_elsewhere(
    client: pulse.Pulse, running: Running, until_status: UntilStatus
) -> None:
    task = client.register("cpu", cpu_bound, process=True)
    async with running(client):
        await until_status(client, await task.enqueue(Number(n=1)), "COMPLETED")
        job = await until_status(client, await task.enqueue(Number(n=-1)), "DEAD_LETTERED")
    assert job.last_error == "-1 is negative"


async def test_middleware_wraps_handlers_and_submissions(
    server: Any, running: Running, until_status: UntilStatus
) -> None:
    events: list[str] = []

    class Recording(pulse.Middleware):
        def __init__(self, name: str) -> None:
            self.name = name

        def on_enqueue(self, topic: str, metadata: Any) -> None:
            metadata[self.name] = topic

        async def around(self, job: pulse.Job, call_next: pulse.CallNext) -> None:
            events.append(f"{self.name} before")
            try:
                await call_next()
            finally:
                events.append(f"{self.name} after")

    client = pulse.Pulse(server.address, middleware=[Recording("outer")])
    client.use(Recording("inner"))

    @client.task("t")
    def handler(job: pulse.Job) -> None:
        events.append("handler")
        assert dict(job.metadata) == {"outer": "t", "inner": "t"}

    async with running(client):
        await until_status(client, await handler.enqueue(), "COMPLETED")
    await client.close()
    assert events == ["outer before", "inner before", "handler", "inner after", "outer after"]


async def test_log_lines_of_a_handler_carry_its_job(
    client: pulse.Pulse, running: Running, until_status: UntilStatus
) -> None:
    records: list[logging.LogRecord] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Collect()
    handler.addFilter(pulse.JobLogFilter())
    log = logging.getLogger("shop")
    log.addHandler(handler)

    @client.task("t")
    def work(job: pulse.Job) -> None:
        log.warning("working")

    async with running(client):
        job = await until_status(client, await work.enqueue(), "COMPLETED")
    log.warning("outside")
    log.removeHandler(handler)
    fields = [(each.__dict__["job_id"], each.__dict__["attempt"], each.__dict__["topic"]) for each in records]
    assert fields == [(job.id, 1, "t"), (None, None, None)]


async def test_wait_job_returns_the_finished_job_or_times_out(client: pulse.Pulse, running: Running) -> None:
    @client.task("t")
    async def handler() -> None: ...

    with pytest.raises(TimeoutError):
        await client.wait_job(await client.enqueue("nobody-serves-this"), timeout=0.05)
    async with running(client):
        job = await client.wait_job(await handler.enqueue(), timeout=10)
    assert job.status is pulse.JobStatus.COMPLETED


async def test_only_named_tasks_are_served(client: pulse.Pulse, until_status: UntilStatus) -> None:
    @client.task("mine")
    async def mine() -> None: ...

    @client.task("other")
    async def other() -> None: ...

    other_id, mine_id = await other.enqueue(), await mine.enqueue()
    worker = asyncio.create_task(client.run(only=["mine"], handle_signals=False))
    await until_status(client, mine_id, "COMPLETED")
    assert (await client.get_job(other_id)).status == "PENDING"
    client.stop()
    await worker
