"""Tasks: a name, a handler, and what its signature says about the arguments."""

import functools
import inspect
import typing
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

from pulse._enums import MisfirePolicy
from pulse._errors import TaskError
from pulse._job import Job
from pulse._models import ScheduleInfo
from pulse._options import TASK_OPTIONS, EnqueueOptions, SubmitOptions, TaskOptions, check_names, write_options
from pulse._payload import BytesPayload, JsonPayload, NoPayload, Payload
from pulse._timing import Timing

if TYPE_CHECKING:
    from pulse._client import Pulse

Args = TypeVar("Args")

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Task(Generic[Args]):
    """A kind of work: what `@p.task(...)` makes of a function. Calling it calls the function."""

    def __init__(
        self,
        client: "Pulse",
        name: str,
        handler: Callable[..., Any],
        options: TaskOptions,
        *,
        process: bool = False,
    ) -> None:
        self.name = name
        self.handler = handler
        self.options: TaskOptions = options
        self.signature = read_signature(name, handler)
        self.is_async = is_async(handler)
        self.in_process = process
        if process and self.is_async:
            raise TaskError(f"task {name!r}: only a plain function can run in a process pool, this one is async")
        if process and (self.signature.takes_job or "<locals>" in getattr(handler, "__qualname__", "<locals>")):
            raise TaskError(
                f"task {name!r}: a function for the process pool stands at the top of a module and takes no pulse.Job"
            )
        check_names(options, TASK_OPTIONS)
        write_options(options)  # a bad value is an error here, not at the first enqueue
        self.client = client
        functools.update_wrapper(self, handler, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the handler here and now; no job is made."""
        return self.handler(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<pulse.Task {self.name!r}>"

    @overload
    async def enqueue(self: "Task[None]", args: None = None, **options: Unpack[SubmitOptions]) -> str: ...
    @overload
    async def enqueue(self, args: Args, **options: Unpack[SubmitOptions]) -> str: ...
    async def enqueue(self, args: Any = None, **options: Unpack[SubmitOptions]) -> str:
        """Store one job of this task; its id. Options win over those of the task."""
        return await self.client.enqueue(self, args, **options)

    async def enqueue_many(
        self,
        items: Iterable[Args],
        *,
        chunk_size: int = 500,
        on_progress: Callable[[int], None] | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> list[str]:
        """Store many jobs of this task; see `Pulse.enqueue_many`."""
        return await self.client.enqueue_many(self, items, chunk_size=chunk_size, on_progress=on_progress, **options)

    async def schedule(
        self,
        args: Args,
        timing: Timing,
        *,
        name: str | None = None,
        misfire: MisfirePolicy | str | None = None,
        misfire_limit: int | None = None,
        **options: Unpack[TaskOptions],
    ) -> ScheduleInfo:
        """Declare a schedule of this task; see `Pulse.schedule`."""
        return await self.client.schedule(
            self, args, timing, name=name, misfire=misfire, misfire_limit=misfire_limit, **options
        )


class Signature(typing.NamedTuple):
    """What a handler takes."""

    payload: Payload
    takes_args: bool
    takes_job: bool


def is_async(handler: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    call = getattr(handler, "__call__", None)  # noqa: B004 - an object may be callable by an async __call__
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


def read_signature(name: str, handler: Callable[..., Any]) -> Signature:
    """What the handler takes, or a TaskError that says how it should look."""
    if not callable(handler):
        raise TaskError(f"task {name!r}: {handler!r} is not a function")
    function = handler.func if isinstance(handler, functools.partial) else handler
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise TaskError(f"task {name!r}: a handler returns, it does not yield")
    parameters = inspect.signature(handler).parameters.values()
    wanted = [
        parameter
        for parameter in parameters
        if parameter.kind in _POSITIONAL and (parameter.default is parameter.empty or _is_job(parameter))
    ]
    for parameter in parameters:
        keyword_only = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        if keyword_only and parameter.default is parameter.empty:
            raise TaskError(f"task {name!r}: nobody can pass the keyword {parameter.name!r}; give it a default")
    hints = _read_hints(name, function)
    if wanted and _hint(wanted[0], hints) is Job:
        if len(wanted) > 1:
            raise TaskError(f"task {name!r}: the pulse.Job comes second: (args, job)")
        return Signature(NoPayload(name), takes_args=False, takes_job=True)
    if len(wanted) > 2:
        raise TaskError(
            f"task {name!r}: a handler takes (args, job), (args) or nothing, but this one takes {len(wanted)}: "
            "put the arguments into one pydantic model or dataclass"
        )
    if not wanted:
        return Signature(NoPayload(name), takes_args=False, takes_job=False)
    if len(wanted) == 2 and (second := _hint(wanted[1], hints)) not in (Job, Any):
        raise TaskError(
            f"task {name!r}: the second parameter is the pulse.Job, but {wanted[1].name!r} is annotated as {second!r}; "
            "put the arguments into one pydantic model or dataclass"
        )
    annotation = _hint(wanted[0], hints)
    payload = BytesPayload(name) if annotation is bytes else JsonPayload(name, annotation)
    return Signature(payload, takes_args=True, takes_job=len(wanted) == 2)


def _is_job(parameter: inspect.Parameter) -> bool:
    return parameter.annotation in (Job, "Job", "pulse.Job")


def _hint(parameter: inspect.Parameter, hints: dict[str, Any]) -> Any:
    return hints.get(parameter.name, Any)


def _read_hints(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError as error:
        raise TaskError(
            f"task {name!r}: the annotation {error.name!r} can't be found; define it at the top of the module, "
            "above the handler, and not under `if TYPE_CHECKING`"
        ) from None
