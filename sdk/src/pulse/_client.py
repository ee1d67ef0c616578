"""The client: producer, operator and worker in one object."""

import os
import ssl
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Protocol, TypeVar, Unpack, overload

from pulse._connection import Connection
from pulse._durations import Seconds, to_timedelta
from pulse._errors import TaskError
from pulse._job import Job
from pulse._middleware import Middleware
from pulse._operations import DispatchOperations, JobOperations, StatsOperations
from pulse._options import TaskOptions
from pulse._schedules import ScheduleOperations
from pulse._settings import load_settings
from pulse._submitting import ServerSink, Sink
from pulse._task import Task
from pulse._worker.settings import WorkerSettings
from pulse._worker.worker import Worker

Args = TypeVar("Args")


class TaskDecorator(Protocol):
    """What `@p.task(...)` is: it takes a handler of any allowed shape and makes a Task of its argument type."""

    @overload
    def __call__(self, handler: Callable[[], object], /) -> Task[None]: ...
    @overload
    def __call__(self, handler: Callable[[Job], object], /) -> Task[None]: ...
    @overload
    def __call__(self, handler: Callable[[Args], object], /) -> Task[Args]: ...
    @overload
    def __call__(self, handler: Callable[[Args, Job], object], /) -> Task[Args]: ...


class Pulse(ScheduleOperations, JobOperations, DispatchOperations, StatsOperations):
    """A pulse client.

    Making one opens nothing: the connection comes with the first call, one for each event loop. Where an argument is
    missing, the environment is asked: PULSE_ADDR, PULSE_USER, PULSE_PASSWORD (or PULSE_PASSWORD_FILE), PULSE_TLS,
    PULSE_TLS_CA. `async with Pulse() as p:` closes the connection in the end.
    """

    def __init__(
        self,
        addr: str | None = None,
        *,
        user: str | None = None,
        password: str | None = None,
        tls: bool | ssl.SSLContext | None = None,
        tls_ca: str | os.PathLike[str] | None = None,
        timeout: Seconds = 10,
        retries: int = 5,
        concurrency: int = 10,
        prefetch: int | None = None,
        drain_timeout: Seconds = 30,
        connect_timeout: Seconds = 30,
        blocked_after: Seconds = 1,
        processes: int | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        """
        addr              host:port, or https://host:port for TLS; default localhost:50051
        user, password    who it is; user="" for nobody, whatever the environment says
        tls, tls_ca       TLS by the system's authorities, or by the one in this file
        timeout, retries  how long a call may take, and how often a safe one is repeated within that
        concurrency       handlers that a worker runs at once
        prefetch          jobs that a worker holds beyond those; default: what cheap handlers need, none for slow ones
        drain_timeout     how long a stop waits for running handlers
        connect_timeout   how long `run` tries to reach a server that was never there
        blocked_after     how long a handler may block the event loop before a warning names it
        processes         size of the process pool; default one a core
        """
        settings = load_settings(
            addr,
            user=user,
            password=password,
            tls=tls,
            tls_ca=tls_ca,
            timeout=to_timedelta("timeout", timeout).total_seconds(),
            retries=retries,
        )
        self._connection = Connection(settings)
        self._sink: Sink = ServerSink(self._connection)
        self.middleware = tuple(middleware)
        self._tasks: dict[str, Task[Any]] = {}
        self._worker: Worker | None = None
        self._worker_settings = WorkerSettings(
            concurrency=concurrency,
            prefetch=prefetch,
            drain_timeout=to_timedelta("drain_timeout", drain_timeout).total_seconds(),
            connect_timeout=to_timedelta("connect_timeout", connect_timeout).total_seconds(),
            blocked_after=to_timedelta("blocked_after", blocked_after).total_seconds(),
            processes=processes,
        )

    def __repr__(self) -> str:
        return f"<pulse.Pulse {self.address}>"

    @property
    def address(self) -> str:
        """Where the server is."""
        return self._connection.settings.address

    @property
    def tasks(self) -> dict[str, Task[Any]]:
        """The tasks by name."""
        return dict(self._tasks)

    # Tasks.

    def task(self, name: str, *, process: bool = False, **options: Unpack[TaskOptions]) -> TaskDecorator:
        """Decorate a handler: `async def handler(args, job)`, a plain function, or either without job or arguments.

        The annotation of `args` says what it takes. Options are the defaults of its jobs. Plain functions run in
        threads; with `process=True`, in a process of a pool.
        """
        if callable(name):
            raise TaskError("the decorator needs a name: @p.task('send-email')")

        def decorate(handler: Callable[..., Any], /) -> Task[Any]:
            return self.register(name, handler, process=process, **options)

        return decorate

    def register(
        self, name: str, handler: Callable[..., Any], *, process: bool = False, **options: Unpack[TaskOptions]
    ) -> Task[Any]:
        """Make a task of a function without decorating it."""
        if not name or len(name.encode(errors="replace")) > 255 or "\0" in name:
            raise TaskError(f"{name!r} is not a name for a task: 1 to 255 bytes of text")
        if name in self._tasks:
            other = self._tasks[name].handler
            raise TaskError(
                f"there is a task {name!r} already: {other.__module__}.{getattr(other, '__qualname__', other)}"
            )
        task: Task[Any] = Task(self, name, handler, options, process=process)
        self._tasks[name] = task
        return task

    def use(self, middleware: Middleware) -> None:
        """Add a middleware, inside those there are."""
        self.middleware = (*self.middleware, middleware)

    # The worker.

    async def run(self, *, only: Iterable[str] | None = None, handle_signals: bool = True) -> None:
        """Work: take jobs of the tasks, or of those named in `only`, and run them.

        Until SIGTERM, SIGINT or `stop()`; then no more jobs are taken, running ones finish within `drain_timeout`, the
        rest is handed back, and it returns. A second signal ends it at once.
        """
        if self._worker is not None:
            raise TaskError("this client is running already: one run() at a time")
        tasks = self._tasks
        if only is not None:
            only = set(only)
            if unknown := only - tasks.keys():
                raise TaskError(f"unknown task {', '.join(sorted(unknown))}; known are {', '.join(sorted(tasks))}")
            tasks = {name: task for name, task in tasks.items() if name in only}
        self._worker = Worker(self._connection.settings, self._worker_settings, tasks, self.middleware)
        try:
            await self._worker.run(handle_signals=handle_signals)
        finally:
            self._worker = None

    def stop(self) -> None:
        """Drain the worker that runs, if one does; a second call ends it at once. Safe from any thread."""
        if self._worker is not None:
            self._worker.stop()

    # Lifetime.

    async def close(self) -> None:
        """Close the connection of this event loop. The client can be used again: the next call opens another."""
        await self._connection.close()

    async def __aenter__(self) -> "Pulse":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
