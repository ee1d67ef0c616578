"""For the tests of programs that use pulse.

    async def test_signing_up_sends_a_mail():
        with pulse.testing.capture(p) as jobs:
            await sign_up("a@b.c")
        jobs.assert_enqueued("send-email", EmailArgs(to="a@b.c"))
        await jobs.run_all()                      # handlers, inline, without a server

    async def test_gives_up_on_bad_address():
        outcome = await pulse.testing.run(send_email, EmailArgs(to="nonsense"))
        assert outcome.discarded

With `pulse-sdk[testing]` installed, the pytest fixtures `pulse_server` (an address) and `pulse_client` (a client)
give a real server on an embedded Postgres; see `pytest_pulse`.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from pulse._client import Pulse
from pulse._ids import new_id
from pulse._job import Job, set_current_job
from pulse._middleware import chain
from pulse._models import Submitted
from pulse._options import JobOptions, read_options, write_options
from pulse._outcomes import Discard, Retry, Snooze
from pulse._submitting import encode_args
from pulse._task import Task
from pulse_gen.rpc.pulse.v1 import JobAssignment, JobSubmission

__all__ = ["CapturedJob", "CapturedJobs", "Outcome", "capture", "make_job", "run"]

Args = TypeVar("Args")

_DEFAULT_MAX_ATTEMPTS = 5


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an inline run ended."""

    # What the handler raised; None if it returned.
    error: BaseException | None = None

    @property
    def succeeded(self) -> bool:
        """Whether it returned."""
        return self.error is None

    @property
    def retried(self) -> bool:
        """Whether a worker would try again: by pulse.Retry or by any other error."""
        return self.error is not None and not isinstance(self.error, (Snooze, Discard))

    @property
    def retry_after(self) -> timedelta | None:
        """The wait that pulse.Retry asked for."""
        return self.error.after if isinstance(self.error, Retry) else None

    @property
    def snoozed(self) -> bool:
        """Whether it asked for another time."""
        return isinstance(self.error, Snooze)

    @property
    def discarded(self) -> bool:
        """Whether it said that another try is useless."""
        return isinstance(self.error, Discard)

    def check(self) -> None:
        """Raise what the handler raised."""
        if self.error is not None:
            raise self.error


def make_job(
    topic: str = "test",
    payload: bytes = b"null",
    *,
    job_id: str | None = None,
    attempt: int = 1,
    attempts_spent: int | None = None,
    options: JobOptions | None = None,
    cancelled: bool = False,
) -> Job:
    """A pulse.Job as a worker would make it."""
    options = options or JobOptions()
    job = Job(
        JobAssignment(
            job_id=job_id or new_id(),
            attempt=attempt,
            topic=topic,
            payload=payload,
            content_type="application/json",
            priority=options.priority,
            max_attempts=options.max_attempts or _DEFAULT_MAX_ATTEMPTS,
            attempts_spent=attempt if attempts_spent is None else attempts_spent,
            timeout=options.timeout,
            tags=list(options.tags),
            metadata=dict(options.metadata),
            submitted_at=datetime.now(UTC),
        )
    )
    if cancelled:
        job._cancel()
    return job


async def run(task: Task[Args], args: Args | None = None, *, job: Job | None = None) -> Outcome:
    """Run a task's handler here and now, as a worker would: arguments through JSON and back, middleware, timeout.

    Plain functions run in a thread. Nothing is raised: the outcome tells, and `outcome.check()` raises.
    """
    payload, _ = encode_args(task.name, task, args)
    if job is None:
        job = make_job(task.name, payload, options=read_options(write_options(task.options)))
    return await _run(task, payload, job)


async def _run(task: Task[Any], payload: bytes, job: Job) -> Outcome:
    signature = task.signature
    given = (signature.payload.decode(payload),) if signature.takes_args else ()
    given = (*given, job) if signature.takes_job else given

    async def handler() -> None:
        if task.is_async:
            await task.handler(*given)
        else:
            await asyncio.to_thread(task.handler, *given)

    set_current_job(job)
    seconds = None if job.timeout is None else job.timeout.total_seconds()
    try:
        async with asyncio.timeout(seconds):
            await chain(task.client.middleware, job, handler)()
    except Exception as error:
        return Outcome(error=error)
    finally:
        set_current_job(None)
    return Outcome()


@dataclass(frozen=True, kw_only=True)
class CapturedJob:
    """A job that would have been stored."""

    id: str
    topic: str
    payload: bytes = field(repr=False)
    options: JobOptions
    run_at: datetime | None
    delay: timedelta | None

    def json(self) -> Any:
        """The payload, read as JSON."""
        return json.loads(self.payload)


class CapturedJobs(Sequence[CapturedJob]):
    """What was enqueued, in order."""

    def __init__(self, client: Pulse) -> None:
        self._client = client
        self._jobs: list[CapturedJob] = []

    def __len__(self) -> int:
        return len(self._jobs)

    def __getitem__(self, index: Any) -> Any:
        return self._jobs[index]

    async def submit_batches(self, batches: Iterator[Sequence[JobSubmission]]) -> AsyncGenerator[list[str], None]:
        """Stand in for the server."""
        for batch in batches:
            yield [(await self.submit(job)).job_id for job in batch]

    async def submit(self, job: JobSubmission) -> Submitted:
        """Stand in for the server. An id that was seen, or a unique key that is taken, stores nothing."""
        options = read_options(job.options)
        for other in self._jobs:
            key = options.unique and options.unique.key
            if other.id == job.job_id or (
                key and other.topic == job.topic and other.options.unique and other.options.unique.key == key
            ):
                return Submitted(job_id=other.id, existing=True)
        self._jobs.append(
            CapturedJob(
                id=job.job_id,
                topic=job.topic,
                payload=job.payload,
                options=options,
                run_at=job.run_at,
                delay=job.delay,
            )
        )
        return Submitted(job_id=job.job_id, existing=False)

    def of(self, task: Task[Any] | str) -> list[CapturedJob]:
        """Those of one task."""
        topic, _ = self._client.find_task(task)
        return [job for job in self._jobs if job.topic == topic]

    def assert_enqueued(
        self, task: Task[Any] | str, args: Any = None, *, times: int | None = None, **options: Any
    ) -> CapturedJob:
        """Fail unless a job of this task was enqueued, with these arguments if given, and these options.

        `times`: exactly so often. Returns the last one that matches.
        """
        topic, known = self._client.find_task(task)
        wanted = None if args is None else encode_args(topic, known, args)[0]
        matching = [
            job
            for job in self.of(task)
            if (wanted is None or job.payload == wanted) and all(_has(job, *each) for each in options.items())
        ]
        if not matching or (times is not None and len(matching) != times):
            expected = f"{times} jobs" if times is not None else "a job"
            arguments = "" if wanted is None else f" with {wanted.decode(errors='replace')}"
            extra = f" and {options}" if options else ""
            others = "".join(f"\n  {job.topic} {job.payload.decode(errors='replace')}" for job in self._jobs)
            raise AssertionError(
                f"expected {expected} of {topic!r}{arguments}{extra}, found {len(matching)}; "
                f"enqueued were:{others or ' none'}"
            )
        return matching[-1]

    def assert_not_enqueued(self, task: Task[Any] | str) -> None:
        """Fail if a job of this task was enqueued."""
        if found := self.of(task):
            raise AssertionError(f"expected no job of {found[0].topic!r}, found {len(found)}")

    async def run_all(self) -> list[Outcome]:
        """Run every captured job inline, those that they enqueue too, until none is left; their outcomes in order.

        A handler that fails is not tried again. Jobs of tasks that this process does not know are an error.
        """
        outcomes = []
        done = 0
        with _sink(self._client, self):
            while done < len(self._jobs):
                captured = self._jobs[done]
                done += 1
                _, task = self._client.find_task(captured.topic)
                if task is None:
                    raise AssertionError(f"no task {captured.topic!r} is known here to run")
                job = make_job(captured.topic, captured.payload, job_id=captured.id, options=captured.options)
                outcomes.append(await _run(task, captured.payload, job))
        return outcomes


def _has(job: CapturedJob, name: str, value: Any) -> bool:
    if name in ("run_at", "delay"):
        found = getattr(job, name)
        return bool(found == (timedelta(seconds=value) if isinstance(value, (int, float)) else value))
    wanted = getattr(read_options(write_options({name: value})), name)
    return bool(getattr(job.options, name) == wanted)


@contextmanager
def capture(client: Pulse) -> Iterator[CapturedJobs]:
    """While the block runs, jobs that `client` enqueues are kept here instead of being sent."""
    captured = CapturedJobs(client)
    with _sink(client, captured):
        yield captured


@contextmanager
def _sink(client: Pulse, sink: CapturedJobs) -> Iterator[None]:
    before = client._sink
    client._sink = sink
    try:
        yield
    finally:
        client._sink = before
