"""Calling a handler with what its signature asks for."""

import asyncio
from typing import Any

from pulse._job import Job
from pulse._task import Task
from pulse_gen.rpc.pulse.v1 import JobAssignment


class TimedOut(Exception):
    """The attempt's time is up."""


def call_handler(task: Task[Any], args: Any, job: Job) -> Any:
    """Call it with what it takes; of an async one, the coroutine."""
    takes_args, takes_job = task.signature[1:]
    if takes_args:
        return task.handler(args, job) if takes_job else task.handler(args)
    return task.handler(job) if takes_job else task.handler()


def call_plain(task: Task[Any], args: Any, job: Job) -> None:
    """Call a plain function in its thread."""
    try:
        call_handler(task, args, job)
    except SystemExit as error:
        # As it is, it would end the event loop that hears of it.
        raise RuntimeError(f"the handler called sys.exit({error.code})") from error


async def ended(running: "asyncio.Future[Any]", timeout: float | None) -> bool:
    """Whether it ended within so many seconds; it goes on if not."""
    done, _ = await asyncio.wait([running], timeout=timeout)
    return bool(done)


def timeout_text(assignment: JobAssignment) -> str:
    """What the history of the job says about it."""
    assert assignment.timeout is not None
    return f"timed out: it ran for more than {assignment.timeout.total_seconds():g} s"
