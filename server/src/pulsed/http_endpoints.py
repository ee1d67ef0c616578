"""Liveness, readiness and metrics over plain HTTP, for probes and Prometheus."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pulsed.errors import StartupError
from pulsed.health import Health
from pulsed.metrics import Metrics
from pulsed.settings import parse_address

LONGEST_REQUEST = 8 << 10
TIMEOUT = 5.0
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def answer(target: str, health: Health, metrics: Metrics) -> tuple[str, str, bytes]:
    """Status line, content type and body for a path."""
    match target.partition("?")[0]:
        case "/livez":
            return "200 OK", "text/plain", b"alive\n"
        case "/readyz" if health.ready:
            return "200 OK", "text/plain", b"ready\n"
        case "/readyz":
            return "503 Service Unavailable", "text/plain", b"not ready\n"
        case "/metrics":
            return "200 OK", METRICS_TYPE, metrics.render()
        case _:
            return "404 Not Found", "text/plain", b"try /livez, /readyz or /metrics\n"


@asynccontextmanager
async def serve_http(address: str | None, health: Health, metrics: Metrics) -> AsyncIterator[None]:
    """Serves while the context is open; nothing without an address."""
    if address is None:
        yield
        return

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(TIMEOUT):
                head = await reader.readuntil(b"\r\n\r\n")
                method, _, rest = head.decode("latin-1").partition(" ")
                status, content_type, body = answer(rest.partition(" ")[0], health, metrics)
                if method not in ("GET", "HEAD"):
                    status, content_type, body = "405 Method Not Allowed", "text/plain", b""
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n"
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                    + (body if method == "GET" else b"")
                )
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # A probe that hangs up or talks nonsense gets no answer.
        finally:
            writer.close()

    host, port = parse_address(address)
    try:
        server = await asyncio.start_server(respond, host, port, limit=LONGEST_REQUEST)
    except OSError as error:
        raise StartupError(f"PULSE_METRICS_ADDR: can't listen on {address}: {error.strerror}") from None
    async with server:
        yield
