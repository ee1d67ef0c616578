"""Metrics for Prometheus, in a registry of the process's own."""

from collections.abc import Callable
from functools import cache

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)


class Metrics:
    """What the server counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._calls = Counter(
            "pulse_rpc_calls",
            "RPCs by method and status",
            ["method", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram("pulse_rpc_seconds", "Duration of RPCs by method", ["method"], registry=self.registry)
        self._jobs = Counter(
            "pulse_jobs",
            "What happened to jobs, by topic",
            ["topic", "event"],
            registry=self.registry,
        )
        # What counts for one set of labels is there for good; to find it takes the library longer than to count.
        self._calls_of = cache(self._calls.labels)
        self._seconds_of = cache(self._seconds.labels)

    def called(self, method: str, status: str, seconds: float) -> None:
        """An RPC ended."""
        self._calls_of(method, status).inc()
        self._seconds_of(method).observe(seconds)

    def happened(self, topic: str, event: str, count: int) -> None:
        """Jobs of a topic were submitted, started, completed, failed or dead-lettered."""
        self._jobs.labels(topic, event).inc(count)

    def watch(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """A gauge that is read when it is asked for."""
        Gauge(name, help_text, registry=self.registry).set_function(read)

    def render(self) -> bytes:
        """Everything, in Prometheus's text format."""
        return generate_latest(self.registry)
