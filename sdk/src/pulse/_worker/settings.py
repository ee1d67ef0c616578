"""How a worker works."""

from dataclasses import dataclass

from pulse._errors import ConfigurationError

MOST_HELD = 100_000


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """Checked once, then passed on as one value."""

    # Handlers at once.
    concurrency: int = 10
    # Jobs held beyond those that run, so that a cheap handler need not wait for the next; None: by what handlers take.
    prefetch: int | None = None
    # How long a stop waits for running handlers, in seconds.
    drain_timeout: float = 30.0
    # How long the first connection may take before `run` gives up, in seconds. Later ones are tried for ever.
    connect_timeout: float = 30.0
    # How long a handler may block the event loop before a warning names it, in seconds.
    blocked_after: float = 1.0
    # Processes for tasks that ask for one; None: one a core.
    processes: int | None = None

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ConfigurationError(f"concurrency={self.concurrency}: at least one handler must run")
        if self.prefetch is not None and self.prefetch < 0:
            raise ConfigurationError(f"prefetch={self.prefetch}: it can't be negative")
        if self.concurrency + (self.prefetch or 0) > MOST_HELD:
            raise ConfigurationError(f"concurrency and prefetch: a worker holds at most {MOST_HELD} jobs")
        if self.drain_timeout < 0 or self.connect_timeout <= 0 or self.blocked_after <= 0:
            raise ConfigurationError("drain_timeout, connect_timeout and blocked_after: give seconds above zero")
