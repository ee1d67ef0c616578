"""Hooks around what every job goes through: its submission and its handler."""

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import TypeAlias

from pulse._job import Job

CallNext: TypeAlias = Callable[[], Awaitable[None]]


class Middleware:
    """Override what you need; the defaults do nothing. The first middleware is the outermost."""

    def on_enqueue(self, topic: str, metadata: MutableMapping[str, str]) -> None:
        """Before a job, or a chunk of many, is stored. What is added to `metadata` travels to the handler."""

    async def around(self, job: Job, call_next: CallNext) -> None:
        """Around a handler, on the worker's event loop, for plain functions too.

        What it raises counts as raised by the handler; what it swallows counts as success. To skip the handler,
        return without calling `call_next`.
        """
        await call_next()


def chain(middleware: Sequence[Middleware], job: Job, handler: CallNext) -> CallNext:
    """The handler inside all of them."""
    call = handler
    for layer in reversed(middleware):
        call = _wrap(layer, job, call)
    return call


def _wrap(layer: Middleware, job: Job, call_next: CallNext) -> CallNext:
    async def call() -> None:
        await layer.around(job, call_next)

    return call
