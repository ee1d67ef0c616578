"""Watches the handlers' loop from another thread, and names the task that blocks it."""

import asyncio
import logging
import sys
import traceback
from collections.abc import Mapping

from pulse._worker.runner import Attempt

logger = logging.getLogger("pulse.worker")

LOOK_EVERY = 0.5


class LoopWatch:
    """Asks the handlers' loop for a sign of life while it has something to do."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        thread_id: int,
        active: Mapping[str, Attempt],
        blocked_after: float,
    ) -> None:
        self._loop = loop
        self._thread_id = thread_id
        self._active = active
        self._blocked_after = blocked_after
        self._answered = True

    async def run(self) -> None:
        """Watch for ever; a handler that blocks is named once."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            if self._answered and self._active:
                self._answered = False
                self._loop.call_soon_threadsafe(self._answer)
                await asyncio.sleep(self._blocked_after)
                if not self._answered:
                    self._warn()

    def _answer(self) -> None:
        self._answered = True

    def _warn(self) -> None:
        attempt = self._find_culprit()
        frame = sys._current_frames().get(self._thread_id)
        stack = "".join(traceback.format_stack(frame)[-3:]).rstrip() if frame else "(unknown)"
        if attempt is None:
            name, extra = " or ".join(sorted({each.job.topic for each in self._copy_active()})), {}
        else:
            name, extra = attempt.job.topic, {"job_id": attempt.job.id, "attempt": attempt.job.attempt}
        logger.warning(
            "%s has blocked the event loop for more than %g s, and all other async handlers with it. Its lease is "
            "kept. Await instead, or make it a plain function, which runs in a thread. It is at:\n%s",
            name,
            self._blocked_after,
            stack,
            extra=extra,
        )

    def _find_culprit(self) -> Attempt | None:
        """The attempt whose slot is executing right now; None if it is a task that a handler started."""
        current = asyncio.current_task(self._loop)
        return next((each for each in self._copy_active() if each.slot is current), None)

    def _copy_active(self) -> list[Attempt]:
        # The other thread may be changing it; a copy of a dict is made in one step.
        return [each for each in dict(self._active).values() if not each.in_pool]
