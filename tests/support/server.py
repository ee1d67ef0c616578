"""A real server in the test's own process, and hands to work it with: stubs, a bare worker, a virtual clock."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self

import asyncpg
from grpclib.client import Channel

from pulse_gen.codec import Codec
from pulse_gen.rpc.grpc.health.v1 import HealthStub
from pulse_gen.rpc.pulse.v1 import (
    AttemptRef,
    DispatchServiceStub,
    Failure,
    GetJobRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    Job,
    JobAssignment,
    JobOptions,
    JobResult,
    JobServiceStub,
    JobSubmission,
    ReportResultRequest,
    ReportResultsRequest,
    ReportResultsResponse,
    ScheduleServiceStub,
    Snooze,
    StatsServiceStub,
    StreamJobsRequest,
    SubmitJobRequest,
    SubmitJobsRequest,
    Success,
    WorkerServiceStub,
)
from pulsed.app import App, run_app
from pulsed.clock import Clock
from pulsed.settings import load_settings

PATIENCE = 20.0


class VirtualClock(Clock):
    """A clock that stands still until the test moves it."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    def advance(self, **span: float) -> None:
        """Moves it: `advance(seconds=31)`."""
        self.moment += timedelta(**span)


class Client:
    """Stubs of every service over one connection."""

    def __init__(self, port: int, *, metadata: dict[str, str] | None = None, **channel: Any) -> None:
        self.channel = Channel("127.0.0.1", port, codec=Codec(), **channel)
        self.jobs = JobServiceStub(self.channel, metadata=metadata)
        self.workers = WorkerServiceStub(self.channel, metadata=metadata)
        self.schedules = ScheduleServiceStub(self.channel, metadata=metadata)
        self.dispatch = DispatchServiceStub(self.channel, metadata=metadata)
        self.stats = StatsServiceStub(self.channel, metadata=metadata)
        self.health = HealthStub(self.channel, metadata=metadata)

    async def submit(self, topic: str = "work", payload: bytes = b"{}", **fields: Any) -> str:
        """Submits one job and returns its id; options and submission fields by name."""
        (job_id,) = await self.submit_many(1, topic, payload, **fields)
        return job_id

    async def submit_many(self, count: int, topic: str = "work", payload: bytes = b"{}", **fields: Any) -> list[str]:
        """Submits equal jobs in one transaction."""
        own = {name: fields.pop(name) for name in ("job_id", "run_at", "delay") if name in fields}
        submission = JobSubmission(topic=topic, payload=payload, options=JobOptions(**fields), **own)
        if count == 1:
            answer = await self.jobs.submit_job(SubmitJobRequest(job=submission))
            return [answer.job_id]
        answers = await self.jobs.submit_jobs(SubmitJobsRequest(jobs=[submission] * count))
        return [result.job_id for result in answers.results]

    async def job(self, job_id: str) -> Job:
        """The job as it stands."""
        answer = await self.jobs.get_job(GetJobRequest(job_id=job_id))
        assert answer.job is not None
        return answer.job


class BareWorker:
    """A worker that does nothing by itself: the test takes jobs from it and reports."""

    def __init__(
        self, client: Client, topics: Iterable[str] = ("work",), *, capacity: int = 10, worker_id: str = ""
    ) -> None:
        self.client = client
        self.worker_id = worker_id or str(uuid.uuid4())
        self.request = StreamJobsRequest(
            worker_id=self.worker_id, topics=list(topics), capacity=capacity, host="test", version="1"
        )
        self.arrived: asyncio.Queue[JobAssignment] = asyncio.Queue()
        self.cancellations: asyncio.Queue[AttemptRef] = asyncio.Queue()
        self.connected = asyncio.Event()
        self._task: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._read())
        await asyncio.wait(
            [self._task, connected := asyncio.ensure_future(self.connected.wait())],
            return_when=asyncio.FIRST_COMPLETED,
            timeout=PATIENCE,
        )
        connected.cancel()
        if self._task.done():
            self._task.result()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def ended(self) -> BaseException | None:
        """Waits for the end of the stream; the error that ended it."""
        await asyncio.wait([self._task], timeout=PATIENCE)
        return self._task.exception()

    async def _read(self) -> None:
        async for message in self.client.workers.stream_jobs(self.request):
            self.connected.set()
            for assignment in message.assignments:
                self.arrived.put_nowait(assignment)
            for cancellation in message.cancellations:
                self.cancellations.put_nowait(cancellation)

    async def take(self, count: int = 1) -> list[JobAssignment]:
        """The next assignments."""
        async with asyncio.timeout(PATIENCE):
            return [await self.arrived.get() for _ in range(count)]

    async def take_one(self) -> JobAssignment:
        """The next assignment."""
        (assignment,) = await self.take()
        return assignment

    async def complete(self, assignment: JobAssignment) -> None:
        """Reports success."""
        await self.report(assignment, success=Success())

    async def fail(self, assignment: JobAssignment, error: str = "boom", **failure: Any) -> None:
        """Reports a failure."""
        await self.report(assignment, failure=Failure(error=error, **failure))

    async def snooze(self, assignment: JobAssignment, **snooze: Any) -> None:
        """Asks for another time."""
        await self.report(assignment, snooze=Snooze(**snooze))

    async def report(self, assignment: JobAssignment, **outcome: Any) -> None:
        """Reports any outcome."""
        result = JobResult(job_id=assignment.job_id, attempt=assignment.attempt, **outcome)
        await self.client.workers.report_result(ReportResultRequest(worker_id=self.worker_id, result=result))

    async def complete_many(self, assignments: Iterable[JobAssignment]) -> ReportResultsResponse:
        """Reports success of all in one call."""
        results = [JobResult(job_id=a.job_id, attempt=a.attempt, success=Success()) for a in assignments]
        return await self.client.workers.report_results(ReportResultsRequest(worker_id=self.worker_id, results=results))

    async def beat(self, *assignments: JobAssignment) -> HeartbeatResponse:
        """Beats for assignments."""
        held = [AttemptRef(job_id=a.job_id, attempt=a.attempt) for a in assignments]
        return await self.client.workers.heartbeat(HeartbeatRequest(worker_id=self.worker_id, held=held))


class Server(Client):
    """A running server, a client of it, and a connection to its database."""

    def __init__(self, app: App, dsn: str, database: "asyncpg.Connection[asyncpg.Record]", clock: VirtualClock) -> None:
        super().__init__(app.port)
        self.app = app
        self.dsn = dsn
        self.database = database
        self.clock = clock

    def worker(self, *topics: str, **options: Any) -> BareWorker:
        """A worker of this server."""
        return BareWorker(self, topics or ("work",), **options)

    def advance(self, **span: float) -> None:
        """Moves the clock of a timed server, and lets the dispatcher look at it."""
        self.clock.advance(**span)
        self.app.dispatcher.probe_soon()

    async def statuses(self) -> dict[str, int]:
        """How many jobs have each status, by the table."""
        rows = await self.database.fetch("SELECT status::text, count(*) FROM jobs GROUP BY status")
        return {row["status"]: row["count"] for row in rows}


@asynccontextmanager
async def running_server(dsn: str, *, clock: VirtualClock | None = None, **settings: Any) -> AsyncIterator[Server]:
    """A server on a migrated database; settings by name. Without a clock, the database's own rules."""
    loaded = load_settings(**{"grpc_addr": "127.0.0.1:0", "shutdown_timeout": "1s"} | settings)
    async with AsyncExitStack() as stack:
        database = await asyncpg.connect(dsn)
        stack.push_async_callback(database.close)
        app = await stack.enter_async_context(run_app(loaded, dsn, clock=clock))
        server = Server(app, dsn, database, clock or VirtualClock())
        stack.callback(server.channel.close)
        yield server
