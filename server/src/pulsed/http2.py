"""HTTP/2 with peers who mean harm, or just do it differently.

grpclib trusts its peers. Its parts get here what they lack:

    Handler    a call with broken headers is answered INVALID_ARGUMENT, where grpclib says UNKNOWN or nothing at all
    Processor  ignores frames of unknown types, as RFC 9113 asks, and hangs up on a peer that floods it with idle ones
    Protocol   takes what a connection sends in bites, so that no peer keeps the event loop from the others
"""

import asyncio
import logging
import re
import socket
import time
import weakref
from collections.abc import Callable, Collection
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, cast

import grpclib.server
from grpclib.config import Configuration
from grpclib.const import Status
from grpclib.metadata import decode_bin_value, encode_grpc_message
from grpclib.protocol import AbstractHandler, Connection, EventsProcessor, Stream
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    PingReceived,
    PriorityUpdated,
    RemoteSettingsChanged,
    StreamReset,
    UnknownFrameReceived,
)
from h2.exceptions import StreamClosedError

from pulse_gen.codec import Codec, QuickProtocol

logger = logging.getLogger(__name__)

Headers = list[tuple[str, str]]

# When the call in progress must be over, by the event loop's clock.
call_deadline: ContextVar[float | None] = ContextVar("call_deadline", default=None)

CONTENT_TYPES = frozenset(["application/grpc", "application/grpc+proto"])
TIMEOUT = re.compile(r"([0-9]{1,8})([HMSmun])")
UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}

# How much of what a connection sent is taken before the others have their turn.
BITE_BYTES = 1 << 13
# h2 refuses a longer frame only once all of it is there, up to 16 MiB later.
LONGEST_FRAME = 9 + (1 << 14)
# Frames that carry no call any further (pings, settings, resets, ...): so many at once, and so many a second.
IDLE_FRAMES = 1000
IDLE_FRAMES_A_SECOND = 100
# How long what was sent may wait to be read.
UNREAD_MILLISECONDS = 50_000
# What we use of the compression table that a peer grants: hpack searches all of it for each header that it writes.
HEADER_TABLE_BYTES = 4096

# A worker that vanished without a word is noticed by an unanswered ping within a minute. grpclib spells its knobs with
# an underscore.
KEEPALIVE = Configuration(
    _keepalive_time=30.0,
    _keepalive_timeout=20.0,
    _keepalive_permit_without_calls=True,
    _http2_max_pings_without_data=0,
    _http2_min_sent_ping_interval_without_data=10.0,
)


class BadHeaders(Exception):
    """The headers of a call are not those of a gRPC call."""

    def __init__(self, http_status: int, message: str) -> None:
        super().__init__(message)
        self.http_status = http_status


def check_headers(headers: Headers) -> float | None:
    """The timeout of a call in seconds, if it has one."""
    named = dict(headers)
    if ":method" not in named or ":path" not in named:
        raise BadHeaders(400, "a call has the headers :method and :path")
    if named.get("content-type") not in CONTENT_TYPES:
        raise BadHeaders(415, "content-type: must be application/grpc or application/grpc+proto")
    if named.get("te") != "trailers":
        raise BadHeaders(400, "te: must be trailers")
    for name, value in headers:
        if name.endswith("-bin"):
            check_binary(name, value)
    timeout = named.get("grpc-timeout")
    if timeout is None:
        return None
    match = TIMEOUT.fullmatch(timeout)
    if match is None:
        raise BadHeaders(200, "grpc-timeout: must be up to eight digits and one of H, M, S, m, u and n")
    return int(match[1]) * UNITS[match[2]]


def check_binary(name: str, value: str) -> None:
    """Refuses what grpclib would fail to decode."""
    try:
        decode_bin_value(value.encode("ascii"))
    except ValueError:
        raise BadHeaders(200, f"{name[:100]}: must be base64") from None


class Handler(grpclib.server.Handler):
    """The calls of one connection."""

    def accept(self, stream: Stream, headers: Headers, release_stream: Callable[[], Any]) -> None:
        """Starts a call."""
        try:
            timeout = check_headers(headers)
        except BadHeaders as problem:
            self.__gc_step__()
            self._tasks[stream] = self.loop.create_task(refuse(stream, problem, release_stream))
            return
        if timeout is None:
            call_deadline.set(None)
        else:
            # Kept from grpclib: it answers UNKNOWN where no time is left by the time it looks.
            headers = [header for header in headers if header[0] != "grpc-timeout"]
            call_deadline.set(self.loop.time() + timeout)
        super().accept(stream, headers, release_stream)


async def refuse(stream: Stream, problem: BadHeaders, release_stream: Callable[[], Any]) -> None:
    """Answers a call that can't be one."""
    headers = [
        (":status", str(problem.http_status)),
        ("content-type", "application/grpc"),
        ("grpc-status", str(Status.INVALID_ARGUMENT.value)),
        ("grpc-message", encode_grpc_message(str(problem))),
    ]
    try:
        with suppress(StreamClosedError):
            await stream.send_headers(headers, end_stream=True)
            if stream.closable:
                stream.reset_nowait()
    finally:
        release_stream()


class Processor(EventsProcessor):
    """What happens on one connection."""

    def __init__(self, handler: AbstractHandler, connection: Connection) -> None:
        super().__init__(handler, connection)
        self.processors |= dict.fromkeys((UnknownFrameReceived, PingReceived, PriorityUpdated), self.process_idle_frame)
        self._h2 = connection._connection
        self._allowance = float(IDLE_FRAMES)
        self._counted_at = time.monotonic()

    def hang_up(self, code: ErrorCodes, reason: str) -> None:
        """Ends the connection and tells the peer why."""
        self._h2.close_connection(code, reason.encode())
        self.close(reason)

    def close(self, reason: str = "Connection closed") -> None:
        """Ends the connection; if h2 has a last word on it, that is sent."""
        if not self.connection.is_closing():
            self.connection.flush()
        super().close(reason)

    def register(self, stream: Stream) -> Callable[[], None]:
        """Keeps a stream. What is returned lets go of it, unless a reset has done so."""
        release = super().register(stream)

        def release_once() -> None:
            if stream.id in self.streams:
                release()

        return release_once

    def process_stream_reset(self, event: StreamReset) -> None:
        """Lets go of the stream here: a call that is canceled before its first step never does."""
        super().process_stream_reset(event)
        stream = self.streams.pop(event.stream_id, None)
        if stream is not None:
            self.connection.ack(event.stream_id, stream.buffer.unacked_size())
        if event.remote_reset:
            self.process_idle_frame(event)

    def process_data_received(self, event: DataReceived) -> None:
        """Leaves out empty frames, which grpclib takes for the end of the stream."""
        if event.flow_controlled_length:
            super().process_data_received(event)
        elif not event.stream_ended:
            self.process_idle_frame(event)

    def process_remote_settings_changed(self, event: RemoteSettingsChanged) -> None:
        """Takes the peer's settings, but no larger table than is good for us."""
        super().process_remote_settings_changed(event)
        encoder = self._h2.encoder
        encoder.header_table_size = min(encoder.header_table_size, HEADER_TABLE_BYTES)
        self.process_idle_frame(event)

    def process_idle_frame(self, event: Event) -> None:
        """Counts a frame that makes work and carries no call any further."""
        now = time.monotonic()
        earned = (now - self._counted_at) * IDLE_FRAMES_A_SECOND
        self._counted_at = now
        self._allowance = min(IDLE_FRAMES, self._allowance + earned) - 1
        if self._allowance < 0:
            self.hang_up(ErrorCodes.ENHANCE_YOUR_CALM, "too many frames that carry nothing")


class Protocol(QuickProtocol):
    """One connection."""

    processor: Processor

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins it."""
        super().connection_made(transport)
        self.processor = Processor(self.handler, self.connection)
        self._loop = asyncio.get_running_loop()
        self._transport = cast(asyncio.Transport, transport)
        self._unparsed: bytearray = self.connection._connection.incoming_buffer._data
        limit_unread(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        """Takes what arrived."""
        if len(data) <= BITE_BYTES:
            self._take(data)
        else:
            self._transport.pause_reading()
            self._take_bites(memoryview(data))

    def _take_bites(self, data: memoryview) -> None:
        """Takes one bite now, and the next one after the others had their turn."""
        if self.connection.is_closing():
            return
        self._take(data[:BITE_BYTES])
        if len(data) > BITE_BYTES:
            self._loop.call_soon(self._take_bites, data[BITE_BYTES:])
        elif not self.connection.is_closing():
            self._transport.resume_reading()

    def _take(self, data: bytes | memoryview) -> None:
        try:
            super().data_received(cast(bytes, data))
        except Exception:  # a fault of ours: without its connection, the peer can't wait for ever
            self.processor.close("the server failed")
            raise
        if len(self._unparsed) > LONGEST_FRAME and not self.connection.is_closing():
            self.processor.hang_up(ErrorCodes.FRAME_SIZE_ERROR, "the frame is too long")


def limit_unread(sock: socket.socket | None) -> None:
    """Lets the kernel drop a peer that reads nothing of what waits for it: a close alone would wait for that, too."""
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6) and hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MILLISECONDS)


class GrpcServer(grpclib.server.Server):
    """grpclib's server with a bound on connections and a stop that lets calls finish."""

    def __init__(self, services: Collection[Any], codec: Codec, max_connections: int) -> None:
        super().__init__(services, codec=codec, config=KEEPALIVE)
        self._max_connections = max_connections
        self._protocols: weakref.WeakSet[Protocol] = weakref.WeakSet()
        # grpclib's ASCII fails on some bytes, and takes the connection along; no byte is wrong here.
        self._h2_config.header_encoding = "latin-1"

    def _protocol_factory(self) -> Protocol:
        self.__gc_step__()
        handler = Handler(self._mapping, self._codec, self._status_details_codec, self.__dispatch__)
        self._handlers.add(handler)
        open_handlers = sum(not each.closing for each in self._handlers)
        if open_handlers > self._max_connections:
            return Refusal(handler, self._config, self._h2_config)
        protocol = Protocol(handler, self._config, self._h2_config)
        self._protocols.add(protocol)
        return protocol

    @property
    def port(self) -> int:
        """The port that it listens on."""
        # uvloop's server has the sockets of asyncio's without being one.
        port: int = cast(asyncio.Server, self._server).sockets[0].getsockname()[1]
        return port

    def stop_accepting(self) -> None:
        """Refuses new connections; calls in progress go on."""
        if self._server is not None:
            self._server.close()

    def hang_up(self) -> None:
        """Closes what connections are left: from Python 3.12 on, asyncio waits for them, and clients keep theirs."""
        for protocol in list(self._protocols):
            if hasattr(protocol, "processor"):  # it has none before a TLS handshake is through
                protocol.processor.hang_up(ErrorCodes.NO_ERROR, "the server stopped")


class Refusal(Protocol):
    """A connection too many: closed as soon as it is made."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        logger.warning("connection refused: PULSE_MAX_CONNECTIONS is reached")
        self.processor.hang_up(ErrorCodes.ENHANCE_YOUR_CALM, "too many connections")
