"""Threads and processes for plain functions."""

import asyncio
import contextvars
import importlib
import multiprocessing
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from queue import SimpleQueue
from typing import Any

_Work = tuple[Future[Any], Callable[[], Any]]


class ThreadPool:
    """Threads that are made when they are needed.

    They are daemons, unlike those of concurrent.futures: after a second signal a process must end, whatever its
    handlers are doing.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)

    def run(self, function: Callable[[], Any]) -> "asyncio.Future[Any]":
        """The result of a function that runs in a thread, within the caller's context."""
        future: Future[Any] = Future()
        self._work.put((future, partial(contextvars.copy_context().run, function)))
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._size:
            name = f"pulse handler {len(self._threads) + 1}"
            thread = threading.Thread(target=self._serve, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        return asyncio.wrap_future(future)

    def close(self) -> None:
        """Let the threads end after what they are doing."""
        for _ in self._threads:
            self._work.put(None)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            future, function = work
            if future.set_running_or_notify_cancel():
                try:
                    result = function()
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
            del work, future, function
            self._idle.release()


class ProcessPool:
    """Processes for work that would keep a core busy. One that dies takes its job's attempt with it, and no more."""

    def __init__(self, size: int | None) -> None:
        self._size = size
        self._pool: ProcessPoolExecutor | None = None

    async def run(self, handler: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """The result of a handler that runs in another process."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self._size, mp_context=multiprocessing.get_context("spawn"), initializer=_leave_signals_to_the_parent
            )
        pool = self._pool
        try:
            return await asyncio.get_running_loop().run_in_executor(
                pool, _call_by_name, handler.__module__, handler.__qualname__, args
            )
        except BrokenProcessPool:
            if self._pool is pool:
                self._pool = None
            raise RuntimeError("the process that ran this job died") from None

    def close(self) -> None:
        """End the processes; by now nobody waits for what they do."""
        if self._pool is None:
            return
        processes = list((getattr(self._pool, "_processes", None) or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()


def _leave_signals_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _call_by_name(module: str, name: str, args: tuple[Any, ...]) -> Any:
    """Run in the child. The decorated name is a Task there, and not the function that pickle would look for."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return getattr(found, "handler", found)(*args)
