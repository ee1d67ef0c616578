"""pulse without asyncio, for Django, Flask and scripts.

    import pulse.sync

    p = pulse.sync.Pulse("localhost:50051")
    p.enqueue("send-email", {"to": "a@b.c"})

The same client: each call runs on an event loop in a background thread that all clients of the process share. Safe to
use from many threads. In a process that forks (gunicorn with preload, Celery), the child gets a thread of its own.
"""

import asyncio
import functools
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from pulse._client import Pulse as AsyncPulse
from pulse._task import Task

__all__ = ["Pulse"]

P = ParamSpec("P")
Result = TypeVar("Result")

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}


def _background_loop() -> asyncio.AbstractEventLoop:
    """The loop of this process, started when it is first needed. A fork has none yet."""
    loop = _loops.get(os.getpid())
    if loop is None:
        with _lock:
            loop = _loops.get(os.getpid())
            if loop is None:
                loop = asyncio.new_event_loop()
                threading.Thread(target=loop.run_forever, name="pulse.sync", daemon=True).start()
                _loops[os.getpid()] = loop
    return loop


def _blocking(
    method: Callable[Concatenate[AsyncPulse, P], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate["Pulse", P], Result]:
    @functools.wraps(method)
    def call(self: "Pulse", /, *args: P.args, **kwargs: P.kwargs) -> Result:
        return self._run(method(self.client, *args, **kwargs))

    return call


def _iterating(
    method: Callable[Concatenate[AsyncPulse, P], AsyncIterator[Result]],
) -> Callable[Concatenate["Pulse", P], Iterator[Result]]:
    @functools.wraps(method)
    def call(self: "Pulse", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[Result]:
        iterator = method(self.client, *args, **kwargs)
        while True:
            try:
                yield self._run(_next(iterator))
            except StopAsyncIteration:
                return

    return call


async def _next(iterator: AsyncIterator[Result]) -> Result:
    return await anext(iterator)


class Pulse:
    """The producer and operator surface of `pulse.Pulse`, blocking. Arguments are the same.

    It runs no handlers: workers are processes of their own. To share tasks with them, give the worker's client:
    `pulse.sync.Pulse(client=p)`; then its tasks check arguments and give their options here too.
    """

    def __init__(self, addr: str | None = None, *, client: AsyncPulse | None = None, **options: Any) -> None:
        if client is not None and (addr is not None or options):
            raise TypeError("pulse.sync.Pulse takes a client, or an address and options, not both")
        self.client = client or AsyncPulse(addr, **options)

    def __repr__(self) -> str:
        return f"<pulse.sync.Pulse {self.client.address}>"

    @property
    def tasks(self) -> dict[str, Task[Any]]:
        """The tasks by name."""
        return self.client.tasks

    submit = _blocking(AsyncPulse.submit)
    enqueue = _blocking(AsyncPulse.enqueue)
    enqueue_many = _blocking(AsyncPulse.enqueue_many)

    get_job = _blocking(AsyncPulse.get_job)
    wait_job = _blocking(AsyncPulse.wait_job)
    list_jobs = _iterating(AsyncPulse.list_jobs)
    list_jobs_page = _blocking(AsyncPulse.list_jobs_page)
    count_jobs = _blocking(AsyncPulse.count_jobs)
    explain_job = _blocking(AsyncPulse.explain_job)
    cancel_job = _blocking(AsyncPulse.cancel_job)
    retry_job = _blocking(AsyncPulse.retry_job)
    delete_job = _blocking(AsyncPulse.delete_job)
    update_job_priority = _blocking(AsyncPulse.update_job_priority)
    cancel_jobs = _blocking(AsyncPulse.cancel_jobs)
    retry_jobs = _blocking(AsyncPulse.retry_jobs)
    delete_jobs = _blocking(AsyncPulse.delete_jobs)
    update_jobs_priority = _blocking(AsyncPulse.update_jobs_priority)

    schedule = _blocking(AsyncPulse.schedule)
    create_schedule = _blocking(AsyncPulse.create_schedule)
    update_schedule = _blocking(AsyncPulse.update_schedule)
    get_schedule = _blocking(AsyncPulse.get_schedule)
    list_schedules = _iterating(AsyncPulse.list_schedules)
    list_schedules_page = _blocking(AsyncPulse.list_schedules_page)
    pause_schedule = _blocking(AsyncPulse.pause_schedule)
    resume_schedule = _blocking(AsyncPulse.resume_schedule)
    trigger_schedule = _blocking(AsyncPulse.trigger_schedule)
    delete_schedule = _blocking(AsyncPulse.delete_schedule)
    list_schedule_fires = _iterating(AsyncPulse.list_schedule_fires)
    list_schedule_fires_page = _blocking(AsyncPulse.list_schedule_fires_page)

    pause_dispatch = _blocking(AsyncPulse.pause_dispatch)
    resume_dispatch = _blocking(AsyncPulse.resume_dispatch)
    dispatch_status = _blocking(AsyncPulse.dispatch_status)

    stats = _blocking(AsyncPulse.stats)
    workers = _blocking(AsyncPulse.workers)
    topics = _blocking(AsyncPulse.topics)
    errors = _blocking(AsyncPulse.errors)
    server_info = _blocking(AsyncPulse.server_info)
    is_serving = _blocking(AsyncPulse.is_serving)

    close = _blocking(AsyncPulse.close)

    def __enter__(self) -> "Pulse":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        loop = _background_loop()
        if _runs_here(loop):
            work.close()
            raise RuntimeError("pulse.sync can't be used on its own event loop")
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C must not leave the call behind
            raise


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
