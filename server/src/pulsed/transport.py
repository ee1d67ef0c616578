"""gRPC over HTTP/2: what stands between the wire and the services.

grpclib reads a message of whatever length the client states, and answers UNKNOWN to whatever goes wrong. Here every
call passes through `Guard` instead: it reads within limits, decodes with the generated codec, and turns errors into
the statuses of the contract.
"""

import asyncio
import logging
import struct
import time
import weakref
from collections.abc import Callable, Collection
from contextlib import aclosing, suppress
from typing import Any, Generic, Self, TypeVar, cast

import grpclib.const
import grpclib.server
from grpclib.config import Configuration
from grpclib.const import Handler, Status
from grpclib.events import RecvRequest, listen
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.protocol import H2Protocol

from pulse_gen.codec import Codec, CodecError
from pulsed.auth import Authenticator, current_user
from pulsed.errors import STATUSES, InvalidArgument, RequestError, ResourceExhausted, Unavailable
from pulsed.metrics import Metrics

logger = logging.getLogger(__name__)

PREFIX = struct.Struct(">?I")
HEALTH = "/grpc.health.v1.Health/"

# A worker that vanished without a word is noticed by an unanswered ping within a minute. grpclib spells its knobs with
# an underscore.
KEEPALIVE = Configuration(
    _keepalive_time=30.0,
    _keepalive_timeout=20.0,
    _keepalive_permit_without_calls=True,
    _http2_max_pings_without_data=0,
    _http2_min_sent_ping_interval_without_data=10.0,
)

Request = TypeVar("Request")
Response = TypeVar("Response")


class BoundedStream(Generic[Request, Response]):
    """A call as the generated services see it, with a limit on what is read."""

    def __init__(
        self,
        stream: "grpclib.server.Stream[Request, Response]",
        request_type: type[Request],
        codec: Codec,
        max_bytes: int,
        turn: "Turn",
    ) -> None:
        self._stream = stream
        self._request_type = request_type
        self._codec = codec
        self._max_bytes = max_bytes
        self._turn = turn
        self.send_message = stream.send_message

    async def recv_message(self) -> Request:
        """The request of a call that has one."""
        request = await self._read()
        if request is None:
            raise InvalidArgument("request", "is missing")
        return request

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Request:
        """The next request of a call that has many; the turn of the one before is over."""
        self._turn.end(Status.OK)
        self._turn.check_open()
        request = await self._read()
        if request is None:
            raise StopAsyncIteration
        self._turn.begin()
        return request

    async def _read(self) -> Request | None:
        """A request, or None after the last. Its stated length is checked before a byte of it is read."""
        wire = self._stream._stream
        try:
            prefix = await wire.recv_data(PREFIX.size)
            if not prefix:
                return None
            compressed, length = PREFIX.unpack(prefix)
            if compressed:
                raise GRPCError(Status.UNIMPLEMENTED, "compressed messages are not supported")
            if length > self._max_bytes:
                raise ResourceExhausted(
                    f"the message states {length} bytes, at most {self._max_bytes} are allowed"
                    " (PULSE_MAX_MESSAGE_BYTES)"
                )
            data = await wire.recv_data(length)
        except AssertionError:
            # How grpclib says that the stream ended early.
            raise InvalidArgument("request", "is truncated") from None
        if len(data) != length:
            raise InvalidArgument("request", "is truncated")
        try:
            request: Request = self._codec.decode(data, self._request_type)
        except CodecError as error:
            raise InvalidArgument("request", str(error)) from None
        return request


class Turn:
    """One request on its way through the server, from its arrival to the answer: counted and timed."""

    def __init__(self, guard: "Guard", name: str, *, counted: bool) -> None:
        self._guard = guard
        self._name = name
        self._counted = counted
        self._began: float | None = None

    def begin(self) -> None:
        """A request arrived."""
        self._began = time.perf_counter()
        self._guard.entered(self._counted)

    def check_open(self) -> None:
        """A server that stops reads no more from calls that stay open, else it might never come to rest."""
        if self._guard.draining:
            raise Unavailable("the server is shutting down; connect again")

    def end(self, status: Status) -> None:
        """It was answered; does nothing if none was under way."""
        if self._began is not None:
            self._guard.left(self._counted, self._name, status, time.perf_counter() - self._began)
            self._began = None


class Guard:
    """Wraps every method of the services: limits in, statuses out, counted and timed."""

    def __init__(self, codec: Codec, max_bytes: int, metrics: Metrics) -> None:
        self._codec = codec
        self._max_bytes = max_bytes
        self._metrics = metrics
        self._in_progress = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.draining = False

    def wrap(self, path: str, handler: Handler) -> Handler:
        """The handler, guarded."""
        name = path.removeprefix("/")
        # Watches of the health last as long as their client: a stop that waits for them waits in vain.
        counted = not path.startswith(HEALTH)
        # A call of many requests stays open between them.
        has_many = handler.cardinality.client_streaming

        async def call(stream: Any) -> None:
            turn = Turn(self, name, counted=counted)
            status = Status.OK
            try:
                if not has_many:
                    turn.begin()
                await handler.func(BoundedStream(stream, handler.request_type, self._codec, self._max_bytes, turn))
            except (asyncio.CancelledError, StreamTerminatedError):
                status = Status.CANCELLED
                raise
            except Exception as error:
                failure = write_error(name, error)
                status = failure.status
                raise failure from None
            finally:
                turn.end(status)

        return handler._replace(func=call)

    def entered(self, counted: bool) -> None:
        """A request is under way."""
        self._in_progress += counted
        if counted:
            self._idle.clear()

    def left(self, counted: bool, name: str, status: Status, seconds: float) -> None:
        """It no longer is."""
        self._in_progress -= counted
        if not self._in_progress:
            self._idle.set()
        self._metrics.called(name, status.name, seconds)

    async def wait_idle(self) -> None:
        """Until no call is in progress, health checks aside."""
        await self._idle.wait()


def write_error(method: str, error: Exception) -> GRPCError:
    """An error as it travels. What nobody foresaw is logged and told as INTERNAL, without details."""
    if isinstance(error, GRPCError):
        return error
    if isinstance(error, RequestError):
        return GRPCError(STATUSES[type(error)], str(error))
    logger.error("call failed", extra={"method": method}, exc_info=error)
    return GRPCError(Status.INTERNAL, "the server failed; its log says why")


class GuardedService:
    """A generated service with every method wrapped."""

    def __init__(self, service: Any, guard: Guard) -> None:
        self._service = service
        self._guard = guard
        service._call_rpc_handler_server_stream = send_stream

    def __mapping__(self) -> dict[str, Handler]:
        mapping: dict[str, Handler] = self._service.__mapping__()
        return {path: self._guard.wrap(path, handler) for path, handler in mapping.items()}


async def send_stream(handler: Callable[[Any], Any], stream: Any, request: Any) -> None:
    """Sends what a streaming method yields, and closes it whatever happens, so that a gone worker is let go at once."""
    async with aclosing(handler(request)) as responses:
        async for response in responses:
            await stream.send_message(response)


class GrpcServer(grpclib.server.Server):
    """grpclib's server with a bound on connections and a stop that lets calls finish."""

    def __init__(self, services: Collection[Any], codec: Codec, max_connections: int) -> None:
        super().__init__(services, codec=codec, config=KEEPALIVE)
        self._max_connections = max_connections
        self._protocols: weakref.WeakSet[H2Protocol] = weakref.WeakSet()

    def _protocol_factory(self) -> H2Protocol:
        protocol = super()._protocol_factory()
        open_handlers = sum(not handler.closing for handler in self._handlers)
        if open_handlers > self._max_connections:
            return Refusal(protocol)
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
                protocol.processor.close("the server stopped")


class Refusal(H2Protocol):
    """A connection too many: closed as soon as it is made."""

    def __init__(self, refused: H2Protocol) -> None:
        super().__init__(refused.handler, refused.config, refused.h2_config)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        logger.warning("connection refused: PULSE_MAX_CONNECTIONS is reached")
        self.processor.close("too many connections")


def make_server(
    services: Collection[Any],
    *,
    authenticator: Authenticator,
    guard: Guard,
    codec: Codec,
    max_connections: int,
) -> GrpcServer:
    """The server for services, each guarded; callers are authenticated on the headers, health checks aside."""
    server = GrpcServer([GuardedService(each, guard) for each in services], codec, max_connections)

    async def authenticate(event: RecvRequest) -> None:
        if event.method_name.startswith(HEALTH):
            return
        header = event.metadata.get("authorization")
        try:
            current_user.set(await authenticator.authenticate(str(header) if header else None))
        except RequestError as error:
            raise write_error(event.method_name, error) from None

    listen(server, RecvRequest, authenticate)
    return server


async def stop_server(server: GrpcServer, guard: Guard, timeout: float) -> None:
    """Lets calls in progress finish within a bound, then ends."""
    server.stop_accepting()
    guard.draining = True
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            await guard.wait_idle()
    server.close()
    server.hang_up()
    await server.wait_closed()
