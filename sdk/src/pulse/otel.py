"""OpenTelemetry: the trace goes on from enqueue to handler. Needs the extra `pulse-sdk[otel]`.

p = pulse.Pulse(middleware=[pulse.otel.Tracing()])
"""

from collections.abc import MutableMapping

from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind, Status, StatusCode, TracerProvider

from pulse._job import Job
from pulse._middleware import CallNext, Middleware
from pulse._outcomes import Outcome
from pulse._version import __version__

__all__ = ["Tracing"]


class Tracing(Middleware):
    """A span for each submission and for each attempt, the second a child of the first through the job's metadata."""

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("pulse", __version__, tracer_provider)

    def on_enqueue(self, topic: str, metadata: MutableMapping[str, str]) -> None:
        """Record the submission and put its context into the metadata."""
        attributes = {"messaging.system": "pulse", "messaging.destination.name": topic}
        with self._tracer.start_as_current_span(f"send {topic}", kind=SpanKind.PRODUCER, attributes=attributes):
            propagate.inject(metadata)

    async def around(self, job: Job, call_next: CallNext) -> None:
        """A span around the handler."""
        attributes: dict[str, str | int] = {
            "messaging.system": "pulse",
            "messaging.destination.name": job.topic,
            "messaging.message.id": job.id,
            "pulse.attempt": job.attempt,
        }
        with self._tracer.start_as_current_span(
            f"process {job.topic}",
            context=propagate.extract(dict(job.metadata)),
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                await call_next()
            except Outcome as outcome:
                # Said on purpose, not broken.
                span.set_attribute("pulse.outcome", type(outcome).__name__.lower())
                raise
            except Exception as error:
                span.record_exception(error)
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise
