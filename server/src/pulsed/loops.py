"""Background loops that outlive every fault of the database."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta

logger = logging.getLogger(__name__)

LONGEST_BACKOFF = 10.0


class Failures:
    """Counts consecutive failures of one activity: how long to wait, and one log line for each spell."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0

    def failed(self, error: BaseException) -> float:
        """Notes a failure; the seconds to wait: full jitter under a bound that doubles."""
        if self._count == 0:
            logger.warning("%s failed, trying on", self._name, extra={"error": f"{type(error).__name__}: {error}"})
        self._count += 1
        return random.uniform(0.05, min(LONGEST_BACKOFF, 0.1 * 2**self._count))

    def succeeded(self) -> None:
        """Notes a success."""
        if self._count:
            logger.info("%s works again", self._name, extra={"failures": self._count})
            self._count = 0


async def run_forever(
    name: str,
    step: Callable[[], Awaitable[object]],
    interval: timedelta,
    wake: asyncio.Event | None = None,
) -> None:
    """Calls `step` every `interval`, and at once when `wake` is set. A failing step is tried again, later and later."""
    failures = Failures(name)
    wake = wake or asyncio.Event()
    while True:
        wake.clear()
        try:
            await step()
        except Exception as error:
            await asyncio.sleep(failures.failed(error))
            continue
        failures.succeeded()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(interval.total_seconds()):
                await wake.wait()
