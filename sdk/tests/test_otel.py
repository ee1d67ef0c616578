"""The trace goes on from enqueue to handler."""

from collections.abc import Callable
from typing import Any

import pytest

import pulse

pytest.importorskip("opentelemetry.sdk")


async def test_handler_s_span_is_a_child_of_the_submission_s(
    server: Any, running: Callable[..., Any], until_status: Callable[..., Any]
) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from pulse.otel import Tracing

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    client = pulse.Pulse(server.address, middleware=[Tracing(provider)])

    @client.task("t")
    async def handler() -> None: ...

    @client.task("broken", max_attempts=1)
    def broken() -> None:
        raise ValueError("x")

    async with running(client):
        await until_status(client, await handler.enqueue(), "COMPLETED")
        await until_status(client, await broken.enqueue(), "DEAD_LETTERED")
    await client.close()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    for topic in ("t", "broken"):
        process, send = spans[f"process {topic}"], spans[f"send {topic}"]
        assert process.parent is not None
        assert process.parent.span_id == send.context.span_id
    assert not spans["process broken"].status.is_ok
    assert spans["process t"].status.is_unset
