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


def answer(request_line: str, health: Health, metrics: Metrics) -> tuple[str, str, bytes]:
    """Status (and what belongs to it alone), content type and body for a request."""
    method, _, rest = request_line.partition(" ")
    target, _, version = rest.partition(" ")
    if not method.isalpha() or not version.startswith("HTTP/1."):
        return "400 Bad Request", "text/plain", b""
    if method not in ("GET", "HEAD"):
        return "405 Method Not Allowed\r\nAllow: GET, HEAD", "text/plain", b""
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
                request_line = head.decode("latin-1").partition("\r\n")[0]
                status, content_type, body = answer(request_line, health, metrics)
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n"
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                    + (b"" if request_line.startswith("HEAD ") else body)
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
