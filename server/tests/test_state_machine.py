"""The engine against a model of it: random lives of jobs on a real Postgres, compared after every step.

The model is a few lines of plain Python. Three workers take part, and two of them have the same id: a process that lost
its jobs and came back must not be able to end what it no longer holds.
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import asyncpg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from pulse_gen.db.dispatch import AsyncQuerier
from pulse_gen.db.models import JobStatus
from pulse_gen.rpc.pulse.v1 import JobOptions, JobSubmission, Unique
from pulsed.database import Database, open_database
from pulsed.dispatcher import Dispatcher, Place
from pulsed.errors import AlreadyExists
from pulsed.identifiers import new_id
from pulsed.jobs import Jobs
from pulsed.metrics import Metrics
from pulsed.notifications import Notifier
from pulsed.pause import EVERYTHING, PauseGate
from pulsed.reports import Attempt, Completion, Failure, Report, Reports, Snooze
from pulsed.settings import load_settings
from pulsed.storing import Submitted, store_jobs
from pulsed.submission import NewJob, read_submission
from pulsed.traffic import Traffic
from support.postgres import Databases
from support.server import VirtualClock

LEASE = timedelta(seconds=30)
TOPICS = ("mail", "video")
# The third worker has the first one's id.
WORKERS = [new_id(), new_id()]
WORKERS.append(WORKERS[0])
OTHER_SELF = [2, 1, 0]

WAITING = (JobStatus.PENDING, JobStatus.RETRYING)
FINISHED = (JobStatus.COMPLETED, JobStatus.DEAD_LETTERED, JobStatus.CANCELED)

OUTCOMES = st.sampled_from(["success", "failure", "failure", "discard", "snooze"])
DELAYS = st.sampled_from([0, 5])

Result = TypeVar("Result")


class Engine:
    """The parts of a server that change jobs, on one database, worked by hand."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self.clock = VirtualClock()
        # What happened in all the runs: a model that nothing ever disturbs proves nothing.
        self.seen: Counter[str] = Counter()
        self.connection: asyncpg.Connection[asyncpg.Record]
        self.gate: PauseGate
        self.jobs: Jobs
        self.reports: Reports
        self._claims: AsyncQuerier
        self._database: Database

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._runner.run(work)

    async def open(self, dsn: str, stack: AsyncExitStack) -> None:
        loaded = load_settings()
        database = self._database = await stack.enter_async_context(
            open_database(dsn, pool_size=2, timeout=timedelta(seconds=20), prepared_statements=True)
        )
        self.connection = await asyncpg.connect(dsn)
        stack.push_async_callback(self.connection.close)
        notifier = Notifier(database, new_id())
        traffic = Traffic(database, self.clock, Metrics())
        self.gate = PauseGate(database, self.clock, notifier)
        dispatcher = Dispatcher(database, self.clock, self.gate, notifier, traffic, loaded)
        self.jobs = Jobs(database, self.clock, dispatcher, notifier, traffic)
        self.reports = Reports(database, self.clock, dispatcher, traffic, loaded)
        self._claims = AsyncQuerier(self.connection)
        batcher = asyncio.create_task(self.reports.batcher.run())

        async def stop() -> None:
            batcher.cancel()
            await asyncio.wait([batcher])

        stack.push_async_callback(stop)

    async def reset(self) -> None:
        await self.connection.execute("TRUNCATE jobs; UPDATE dispatch_control SET paused = false, reason = ''")
        await self.gate.refresh()

    async def submit(self, new: NewJob, place: Place | None) -> Submitted | AlreadyExists:
        """Stores a job, on a worker that has a place for it."""
        async with self._database.work.transaction() as connection:
            places = {new.id: place} if place else {}
            (result,) = await store_jobs(connection, [new], self.clock, places=places)
        return result

    async def claim(self, worker_id: uuid.UUID, slots: int) -> list[tuple[uuid.UUID, int]]:
        """What a dispatch does for one worker of all topics: promote what is due, claim what is not paused."""
        await self._claims.job_promote_due(batch_size=1000, now=self.clock.now())
        rows = await self._claims.job_claim(
            topics=self.gate.open_topics(TOPICS),
            slots=[worker_id] * slots,
            topic_leases="{}",
            default_lease=LEASE,
            now=self.clock.now(),
        )
        assert {row.worker_id for row in rows} <= {worker_id}
        return [(row.id, row.attempts) for row in sorted(rows, key=lambda row: (-row.priority, row.seq))]

    async def rows(self) -> dict[uuid.UUID, tuple[Any, ...]]:
        rows = await self.connection.fetch(
            "SELECT id, status::text, ready, priority, attempts, attempts_forgiven, next_run_at, lease_until,"
            " worker_id, finished_at, cancel_requested_at, unique_held FROM jobs"
        )
        return {row["id"]: tuple(row.values())[1:] for row in rows}


@dataclass
class ModelJob:
    """What a job should be."""

    order: int
    topic: str
    priority: int
    max_attempts: int
    next_run_at: datetime
    ready: bool
    key: str | None
    held: bool
    status: JobStatus = JobStatus.PENDING
    attempts: int = 0
    forgiven: int = 0
    worker_id: uuid.UUID | None = None
    lease_until: datetime | None = None
    finished_at: datetime | None = None
    cancel_at: datetime | None = None
    completions: int = 0

    def row(self) -> tuple[Any, ...]:
        return (
            self.status.value, self.ready, self.priority, self.attempts, self.forgiven, self.next_run_at,
            self.lease_until, self.worker_id, self.finished_at, self.cancel_at, self.held,
        )  # fmt: skip

    def is_held_by(self, attempt: Attempt) -> bool:
        return self.status is JobStatus.RUNNING and (self.worker_id, self.attempts) == attempt[1:]

    def run_on(self, worker_id: uuid.UUID, now: datetime) -> None:
        self.status, self.ready, self.worker_id = JobStatus.RUNNING, False, worker_id
        self.attempts += 1
        self.lease_until = now + LEASE

    def finish(self, status: JobStatus, now: datetime) -> None:
        self.status, self.finished_at, self.lease_until, self.ready, self.held = status, now, None, False, False

    def fail(self, now: datetime, *, discard: bool = False) -> None:
        spent = self.attempts - self.forgiven
        self.next_run_at = now + timedelta(seconds=spent**2)
        if self.cancel_at is not None:
            self.finish(JobStatus.CANCELED, now)
        elif discard or spent >= self.max_attempts:
            self.finish(JobStatus.DEAD_LETTERED, now)
        else:
            self.status, self.lease_until = JobStatus.RETRYING, None


class Assignment(NamedTuple):
    """A job as one of the workers got it."""

    attempt: Attempt
    worker: int


class JobLives(RuleBasedStateMachine):
    """Everything that can happen to jobs, in any order."""

    jobs = Bundle("jobs")
    assignments = Bundle("assignments")

    engine: Engine

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[uuid.UUID, ModelJob] = {}
        self.paused: set[str] = set()
        self.submitted = 0
        self.engine.run(self.engine.reset())

    @initialize(target=jobs)
    def begin(self) -> MultipleResults[uuid.UUID]:
        return multiple(*(self.submit_one("mail", 0, 0, attempts, None) for attempts in (1, 2, 3)))

    @property
    def now(self) -> datetime:
        return self.engine.clock.moment

    def saw(self, event: str) -> None:
        self.engine.seen[event] += 1

    # Producers and operators.

    @rule(
        target=jobs,
        topic=st.sampled_from(TOPICS),
        priority=st.integers(-1, 1),
        delay=st.sampled_from([0, 0, 5]),
        max_attempts=st.integers(1, 3),
        key=st.sampled_from([None, None, "key"]),
    )
    def submit(self, topic: str, priority: int, delay: int, max_attempts: int, key: str | None) -> uuid.UUID:
        return self.submit_one(topic, priority, delay, max_attempts, key)

    def submit_one(
        self, topic: str, priority: int, delay: int, max_attempts: int, key: str | None, place: Place | None = None
    ) -> uuid.UUID:
        options = JobOptions(priority=priority, max_attempts=max_attempts, unique=Unique(key=key) if key else None)
        submission = JobSubmission(topic=topic, options=options, delay=timedelta(seconds=delay) if delay else None)
        new = read_submission("job", submission, max_payload=100)
        result = self.engine.run(self.engine.submit(new, place))
        holders = [id_ for id_, job in self.model.items() if job.held and (job.topic, job.key) == (topic, key)]
        if holders:
            self.saw("submit of a taken key")
            assert [result] == [Submitted(holder, existing=True) for holder in holders]
            return holders[0]
        starts = place is not None and not any(job.ready and job.topic == topic for job in self.model.values())
        assert result == Submitted(new.id, existing=False, started_at=self.now if starts else None)
        due = self.now + timedelta(seconds=delay)
        self.submitted += 1
        job = self.model[new.id] = ModelJob(
            self.submitted, topic, priority, max_attempts, due, delay == 0, key, held=key is not None
        )
        if starts and place:
            self.saw("submit to a waiting worker")
            job.run_on(place.worker_id, self.now)
        elif place:
            self.saw("submit behind others")
        return new.id

    @rule(
        target=assignments,
        topic=st.sampled_from(TOPICS),
        worker=st.integers(0, 2),
        max_attempts=st.integers(1, 3),
        key=st.sampled_from([None, "key"]),
    )
    def submit_to_a_worker(
        self, topic: str, worker: int, max_attempts: int, key: str | None
    ) -> MultipleResults[Assignment]:
        known = set(self.model)
        job_id = self.submit_one(topic, 0, 0, max_attempts, key, Place(WORKERS[worker], LEASE))
        if job_id in known or self.model[job_id].status is not JobStatus.RUNNING:
            return multiple()
        return multiple(Assignment(Attempt(job_id, WORKERS[worker], 1), worker))

    # Few rules with several outcomes: Hypothesis leaves out some rules of each run, and every run should have claims,
    # reports and time.

    @rule(
        job_id=jobs,
        step=st.sampled_from(["cancel", "retry", "retry", "priority", "delete"]),
        priority=st.integers(-2, 2),
    )
    def operate(self, job_id: uuid.UUID, step: str, priority: int) -> None:
        match step:
            case "cancel":
                self.cancel(job_id)
            case "retry":
                self.retry(job_id)
            case "priority":
                self.set_priority(job_id, priority)
            case _:
                self.delete(job_id)

    def cancel(self, job_id: uuid.UUID) -> None:
        canceled = self.engine.run(self.engine.jobs.cancel([job_id]))
        job = self.model.get(job_id)
        if job is None or job.status in FINISHED:
            assert canceled == []
            return
        if job.status is JobStatus.RUNNING:
            self.saw("cancel of a running job")
            job.cancel_at = job.cancel_at or self.now
        else:
            job.finish(JobStatus.CANCELED, self.now)
        assert [(row.id, row.status) for row in canceled] == [(job_id, job.status)]

    def retry(self, job_id: uuid.UUID) -> None:
        retried = self.engine.run(self.engine.jobs.retry([job_id]))
        job = self.model.get(job_id)
        may = job is not None and job.status in (JobStatus.DEAD_LETTERED, JobStatus.CANCELED, JobStatus.RETRYING)
        assert retried == int(may)
        if job is not None and may:
            self.saw(f"retry of a job that was {job.status}")
            job.status, job.ready, job.next_run_at = JobStatus.PENDING, True, self.now
            job.finished_at = job.cancel_at = None
            job.forgiven = job.attempts

    def delete(self, job_id: uuid.UUID) -> None:
        deleted = self.engine.run(self.engine.jobs.delete([job_id]))
        job = self.model.get(job_id)
        may = job is not None and job.status is not JobStatus.RUNNING
        assert deleted == int(may)
        if may:
            del self.model[job_id]

    def set_priority(self, job_id: uuid.UUID, priority: int) -> None:
        changed = self.engine.run(self.engine.jobs.set_priority([job_id], priority))
        job = self.model.get(job_id)
        may = job is not None and job.status in WAITING
        assert changed == int(may)
        if job is not None and may:
            job.priority = priority

    @rule(scope=st.sampled_from([EVERYTHING, "mail"]), stays=st.sampled_from([False, False, True]))
    def pause(self, scope: str, stays: bool) -> None:
        if scope not in self.paused:
            self.engine.run(self.engine.gate.pause(scope, "", ""))
            self.paused.add(scope)
        self.claim_for(0, 1)
        if not stays:
            self.engine.run(self.engine.gate.resume(scope))
            self.paused.remove(scope)

    # Workers.

    def claimable(self) -> list[uuid.UUID]:
        """What may run now, in the order in which it should."""
        open_topics = [topic for topic in TOPICS if not self.paused & {EVERYTHING, topic}]
        ready = [id_ for id_, job in self.model.items() if job.ready and job.topic in open_topics]
        return sorted(ready, key=lambda id_: (-self.model[id_].priority, self.model[id_].order))

    @rule(target=assignments, worker=st.integers(0, 2), slots=st.integers(1, 3))
    def claim(self, worker: int, slots: int) -> MultipleResults[Assignment]:
        return self.claim_for(worker, slots)

    def claim_for(self, worker: int, slots: int) -> MultipleResults[Assignment]:
        claimed = self.engine.run(self.engine.claim(WORKERS[worker], slots))
        for job in self.model.values():
            if job.status in WAITING and job.next_run_at <= self.now:
                job.ready = True
        expected = self.claimable()[:slots]
        assert claimed == [(id_, self.model[id_].attempts + 1) for id_ in expected]
        if self.paused and not expected and any(job.ready for job in self.model.values()):
            self.saw("claim while paused")
        for id_ in expected:
            job = self.model[id_]
            job.run_on(WORKERS[worker], self.now)
        return multiple(*(Assignment(Attempt(id_, WORKERS[worker], attempt), worker) for id_, attempt in claimed))

    @rule(
        target=assignments,
        worker=st.integers(0, 2),
        outcome=OUTCOMES,
        delay=DELAYS,
        unwanted=st.sampled_from([False, False, True]),
        again=st.booleans(),
    )
    def work(self, worker: int, outcome: str, delay: int, unwanted: bool, again: bool) -> MultipleResults[Assignment]:
        """A worker as it should be. That its attempts are over does not keep others from reporting them again."""
        claimed = self.claim_for(worker, 2)
        for assignment in claimed.values:
            if unwanted:
                self.cancel(assignment.attempt.job_id)
            self.report_outcome_of(assignment, outcome, delay)
            if again:
                self.retry(assignment.attempt.job_id)
        return claimed

    @rule(target=assignments, worker=st.integers(0, 2), outcome=OUTCOMES, delay=DELAYS)
    def come_back(self, worker: int, outcome: str, delay: int) -> MultipleResults[Assignment]:
        """A worker loses what it holds and takes more under its old id; its former self still beats and reports."""
        former = self.claim_for(worker, 2)
        self.engine.clock.advance(seconds=31)
        self.watchdog()
        self.engine.clock.advance(seconds=9)
        later = self.claim_for(OTHER_SELF[worker], 3)
        self.engine.clock.advance(seconds=1)
        for assignment in former.values:
            self.beat_for(assignment.attempt.worker_id, [assignment.attempt])
            self.report_outcome_of(assignment, outcome, delay)
        return multiple(*former.values, *later.values)

    @rule(assignment=assignments, other=assignments)
    def beat(self, assignment: Assignment, other: Assignment) -> None:
        held = [assignment.attempt] + ([other.attempt] if other.worker == assignment.worker else [])
        self.beat_for(assignment.attempt.worker_id, held)

    def beat_for(self, worker_id: uuid.UUID, held: Sequence[Attempt]) -> None:
        answer = self.engine.run(
            self.engine.reports.heartbeat(worker_id, [(beat.job_id, beat.attempt) for beat in held])
        )
        for beat in held:
            job = self.model.get(beat.job_id)
            row = answer.get((beat.job_id, beat.attempt))
            if job is None or not job.is_held_by(beat):
                self.saw("stale heartbeat")
                assert row is None
            else:
                assert row is not None
                assert row.cancel_requested is (job.cancel_at is not None)
                job.lease_until = self.now + LEASE

    def report(self, assignment: Assignment, report: Report) -> ModelJob | None:
        """Reports, and returns the job if the attempt is the one that runs: then, and only then, it must be taken."""
        (taken,) = self.engine.run(self.engine.reports.report([report]))
        job = self.model.get(assignment.attempt.job_id)
        current = job is not None and job.is_held_by(assignment.attempt)
        assert taken is current
        if job is not None and not current:
            same_id = job.status is JobStatus.RUNNING and job.worker_id == assignment.attempt.worker_id
            self.saw("stale report of an id that holds a later attempt" if same_id else "stale report")
        return job if current else None

    @rule(assignment=assignments, outcome=OUTCOMES, delay=DELAYS)
    def report_outcome(self, assignment: Assignment, outcome: str, delay: int) -> None:
        self.report_outcome_of(assignment, outcome, delay)

    def report_outcome_of(self, assignment: Assignment, outcome: str, delay: int) -> None:
        match outcome:
            case "success":
                self.complete(assignment)
            case "snooze":
                self.snooze(assignment, delay)
            case _:
                self.fail(assignment, discard=outcome == "discard")

    def complete(self, assignment: Assignment) -> None:
        job = self.report(assignment, Completion(assignment.attempt))
        if job is not None:
            job.completions += 1
            job.finish(JobStatus.COMPLETED, self.now)
            self.saw("completion")

    def fail(self, assignment: Assignment, *, discard: bool) -> None:
        job = self.report(assignment, Failure(assignment.attempt, "boom", discard, None))
        if job is not None:
            job.fail(self.now, discard=discard)
            self.saw(f"failure that ends {job.status}")

    def snooze(self, assignment: Assignment, delay: int) -> None:
        job = self.report(assignment, Snooze(assignment.attempt, None, timedelta(seconds=delay)))
        if job is None:
            return
        self.saw("snooze")
        job.forgiven += 1
        job.next_run_at = self.now + timedelta(seconds=delay)
        if job.cancel_at is not None:
            job.finish(JobStatus.CANCELED, self.now)
        else:
            job.status, job.lease_until, job.ready = JobStatus.PENDING, None, delay == 0

    # Time.

    @rule(seconds=st.sampled_from([1, 5, 29, 31]), reap=st.booleans())
    def time_passes(self, seconds: int, reap: bool) -> None:
        self.engine.clock.advance(seconds=seconds)
        if reap:
            self.watchdog()

    def watchdog(self) -> None:
        expired = [job for job in self.model.values() if job.lease_until is not None and job.lease_until < self.now]
        assert self.engine.run(self.engine.reports.reap_expired()) == len(expired)
        for job in expired:
            self.saw("expired lease")
            job.fail(self.now)
        assert all(job.lease_until is None or job.lease_until >= self.now for job in self.model.values())

    # What always holds.

    @invariant()
    def the_table_is_as_the_model_says(self) -> None:
        assert self.engine.run(self.engine.rows()) == {id_: job.row() for id_, job in self.model.items()}

    @invariant()
    def at_most_one_completion_of_a_job_was_taken(self) -> None:
        assert all(job.completions <= 1 for job in self.model.values())


@contextmanager
def opened_engine(dsn: str) -> Iterator[Engine]:
    with asyncio.Runner() as runner:
        engine = Engine(runner)
        stack = AsyncExitStack()
        runner.run(engine.open(dsn, stack))
        try:
            yield engine
        finally:
            runner.run(stack.aclose())


EXPECTED: Sequence[str] = (
    "completion",
    "failure that ends RETRYING",
    "failure that ends DEAD_LETTERED",
    "failure that ends CANCELED",
    "snooze",
    "expired lease",
    "stale heartbeat",
    "stale report",
    "stale report of an id that holds a later attempt",
    "submit of a taken key",
    "submit to a waiting worker",
    "submit behind others",
    "cancel of a running job",
    "retry of a job that was DEAD_LETTERED",
    "retry of a job that was CANCELED",
    "retry of a job that was RETRYING",
    "claim while paused",
)


def test_jobs_live_as_the_model_says(databases: Databases) -> None:
    with databases.migrated() as dsn, opened_engine(dsn) as opened:

        class Lives(JobLives):
            engine = opened

        run_state_machine_as_test(
            Lives,
            settings=settings(
                max_examples=50,
                stateful_step_count=50,
                deadline=None,
                derandomize=True,
                database=None,
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
            ),
        )
        assert set(EXPECTED) - set(opened.seen) == set()
