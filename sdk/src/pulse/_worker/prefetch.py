"""How many jobs to hold beyond those that run.

Too few, and a cheap handler waits for the network after every batch. Too many, and jobs queue here behind slow handlers
while other workers have nothing to do. So: what this worker gets done in 50 ms, and nothing while handlers are slow.
"""

from collections.abc import Callable, Sized

WORTH = 0.05
MOST = 2000
# How often it is thought over, in seconds: a change costs a new stream.
THINK_EVERY = 1.0


class Prefetch:
    """Follows the rate at which jobs are started, unless the number is fixed."""

    def __init__(self, fixed: int | None, concurrency: int, started: Callable[[], int], active: Sized) -> None:
        self.value = fixed or 0
        self._is_fixed = fixed is not None
        self._concurrency = concurrency
        self._started = started
        self._active = active
        self._last_look = float("-inf")
        self._last_started = 0

    def retune(self, now: float) -> bool:
        """Think it over; True if the number changed, which takes a new stream to tell the server."""
        elapsed = now - self._last_look
        if self._is_fixed or elapsed < THINK_EVERY:
            return False
        started = self._started()
        rate = (started - self._last_started) / elapsed
        self._last_look, self._last_started = now, started
        wanted = min(MOST, int(rate * WORTH))
        if wanted < self._concurrency / 2:
            wanted = 0  # a slot is busy for more than a tenth of a second with each
        # Grow by leaps. Shrink only when handlers are slow, not when there is little to do.
        if wanted > 2 * self.value or (wanted < self.value / 4 and len(self._active) >= self._concurrency):
            self.value = wanted
            return True
        return False
