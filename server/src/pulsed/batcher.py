"""Grouping: calls that arrive while a statement is under way share the next one."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batcher(Generic[Item, Result]):
    """Hands items to `flush` in groups, one group at a time.

    A lone call is flushed at once; under load the groups grow by themselves. `flush` gets the items of
    whole calls and answers in their order. If it raises, every call of the group gets that error. A caller that
    goes away leaves its items in the group.
    """

    def __init__(self, flush: Callable[[list[Item]], Awaitable[Sequence[Result]]], max_items: int) -> None:
        self._flush = flush
        self._max_items = max_items
        self._waiting: deque[tuple[Sequence[Item], asyncio.Future[Sequence[Result]]]] = deque()
        self._arrived = asyncio.Event()

    async def add(self, items: Sequence[Item]) -> Sequence[Result]:
        """The results for `items`, once their group is through."""
        answer: asyncio.Future[Sequence[Result]] = asyncio.get_running_loop().create_future()
        self._waiting.append((items, answer))
        self._arrived.set()
        return await answer

    async def run(self) -> None:
        """Flushes for ever."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                await self._flush_group()

    async def _flush_group(self) -> None:
        calls = [self._waiting.popleft()]
        items = list(calls[0][0])
        while self._waiting and len(items) + len(self._waiting[0][0]) <= self._max_items:
            calls.append(self._waiting.popleft())
            items += calls[-1][0]
        try:
            results = await self._flush(items)
        except Exception as error:
            for _, answer in calls:
                if not answer.done():
                    answer.set_exception(error)
            return
        start = 0
        for call_items, answer in calls:
            end = start + len(call_items)
            if not answer.done():
                answer.set_result(results[start:end])
            start = end
