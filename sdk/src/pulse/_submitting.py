"""From arguments and options to stored jobs."""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from itertools import islice
from typing import Any, Protocol, TypeVar, Unpack

from pulse._connection import Connection
from pulse._errors import InvalidArgument
from pulse._ids import new_id, new_ids
from pulse._middleware import Middleware
from pulse._models import Submitted
from pulse._options import (
    ENQUEUE_OPTIONS,
    SUBMIT_OPTIONS,
    EnqueueOptions,
    SubmitOptions,
    check_names,
    merge_options,
    write_options,
    write_start,
)
from pulse._payload import JSON, encode_unknown
from pulse._task import Task
from pulse_gen.rpc.pulse.v1 import JobSubmission

Args = TypeVar("Args")

MOST_A_CALL = 10_000
# A chunk is cut short when its payloads reach this, well below the 16 MiB that a server reads by default.
BYTES_A_CALL = 4 << 20


class Sink(Protocol):
    """Where submissions go. `pulse.testing` puts another in the place of the server."""

    async def submit(self, job: JobSubmission) -> Submitted:
        """Store one."""

    def submit_batches(self, batches: Iterator[Sequence[JobSubmission]]) -> AsyncGenerator[list[str], None]:
        """Store batches in their order, each whole or not at all; the ids of one after the other."""


class ServerSink:
    """The server. Every submission carries an id, so a repeat after a broken connection is harmless."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def submit(self, job: JobSubmission) -> Submitted:
        """Store one."""
        answer = await self._connection.submit(job)
        return Submitted(job_id=answer.job_id, existing=answer.existing)

    async def submit_batches(self, batches: Iterator[Sequence[JobSubmission]]) -> AsyncGenerator[list[str], None]:
        """Store batches."""
        async with aclosing(self._connection.submit_batches(batches)) as stored:
            async for results in stored:
                yield [result.job_id for result in results]


class Submitting:
    """The producer's part of the client."""

    _sink: Sink
    _tasks: dict[str, Task[Any]]
    middleware: tuple[Middleware, ...]

    async def enqueue(self, task: Task[Args] | str, args: Args | None = None, **options: Unpack[SubmitOptions]) -> str:
        """Store one job and return its id; once this returns, the job will run.

        `task` is a task or its name. A task that this process knows checks the arguments and gives its options as
        defaults; any other name takes what can be written as JSON, or bytes. Where a unique key is taken, the id is
        that of the job that holds it; `submit` tells the difference.
        """
        return (await self.submit(task, args, **options)).job_id

    async def submit(
        self, task: Task[Args] | str, args: Args | None = None, **options: Unpack[SubmitOptions]
    ) -> Submitted:
        """Like `enqueue`, and says whether the job was there already."""
        check_names(options, SUBMIT_OPTIONS)
        topic, known = self.find_task(task)
        payload, content_type = encode_args(topic, known, args)
        merged = self._merge(topic, known, options)
        run_at, delay = write_start(merged)
        job = JobSubmission(
            job_id=options.get("job_id") or new_id(),
            topic=topic,
            payload=payload,
            content_type=options.get("content_type") or content_type,
            options=write_options(merged),
            run_at=run_at,
            delay=delay,
        )
        return await self._sink.submit(job)

    async def enqueue_many(
        self,
        task: Task[Args] | str,
        items: Iterable[Args],
        *,
        chunk_size: int = 500,
        on_progress: Callable[[int], None] | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> list[str]:
        """Store one job for each item, in order, with the same options; their ids.

        They travel in chunks, each stored whole or not at all; `on_progress` is told how many are stored so far.
        An error ends it: what was stored before stays.
        """
        check_names(options, ENQUEUE_OPTIONS)
        if not 1 <= chunk_size <= MOST_A_CALL:
            raise InvalidArgument(f"chunk_size: {chunk_size} is not from 1 to {MOST_A_CALL}")
        topic, known = self.find_task(task)
        merged = self._merge(topic, known, options)
        shared: dict[str, Any] = {"options": write_options(merged)}
        shared["run_at"], shared["delay"] = write_start(merged)
        ids: list[str] = []
        async with aclosing(
            self._sink.submit_batches(_chunks(topic, known, iter(items), chunk_size, shared))
        ) as stored:
            async for batch in stored:
                ids += batch
                if on_progress is not None:
                    on_progress(len(ids))
        return ids

    def find_task(self, task: object) -> tuple[str, Task[Any] | None]:
        """The topic, and the task if this process knows it."""
        if isinstance(task, Task):
            return task.name, task
        if not isinstance(task, str) or not task:
            raise InvalidArgument(f"{task!r} is not a task or the name of one; decorate it with @p.task(name) first")
        return task, self._tasks.get(task)

    def _merge(self, topic: str, known: Task[Any] | None, options: Mapping[str, Any]) -> dict[str, Any]:
        merged = merge_options(known.options if known else {}, options)
        if self.middleware:
            metadata = dict(merged.get("metadata", {}))
            for layer in self.middleware:
                layer.on_enqueue(topic, metadata)
            if metadata:
                merged["metadata"] = metadata
        return merged


def encode_args(topic: str, known: Task[Any] | None, args: Any) -> tuple[bytes, str]:
    """Payload and content type."""
    if known is None:
        return encode_unknown(topic, args)
    payload = known.signature.payload
    return payload.encode(args), payload.content_type


def _chunks(
    topic: str, known: Task[Any] | None, items: Iterator[Any], size: int, shared: dict[str, Any]
) -> Iterator[list[JobSubmission]]:
    """The items as submissions, written when they are asked for."""
    while chunk := _next_chunk(topic, known, items, size, shared):
        yield chunk


def _next_chunk(
    topic: str, known: Task[Any] | None, items: Iterator[Any], size: int, shared: dict[str, Any]
) -> list[JobSubmission]:
    payloads: list[tuple[bytes, str]] = []
    total = 0
    for item in islice(items, size):
        payload = encode_args(topic, known, item)
        payloads.append(payload)
        total += len(payload[0])
        if total >= BYTES_A_CALL:
            break
    return [
        JobSubmission(
            job_id=job_id,
            topic=topic,
            payload=payload,
            content_type="" if content_type == JSON else content_type,  # the contract's default
            **shared,
        )
        for job_id, (payload, content_type) in zip(new_ids(len(payloads)), payloads, strict=True)
    ]
