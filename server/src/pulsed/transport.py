"""gRPC over HTTP/2: what stands between the wire and the services.

grpclib reads a message of whatever length the client states, and answers UNKNOWN to whatever goes wrong. Here every
call passes through `Guard` instead: it reads within limits, decodes with the generated codec, and turns errors into
the statuses of the contract.
"""

import asyncio
import logging
import struct
import time
from collections import deque
from collections.abc import Callable, Collection
from contextlib import aclosing, suppress
from datetime import timedelta
from typing import Any, Generic, Self, TypeVar

import grpclib.const
import grpclib.server
from grpclib.const import Handler, Status
from grpclib.events import RecvRequest, listen
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.protocol import Stream

from pulse_gen.codec import Codec, CodecError
from pulsed.auth import Authenticator, current_user
from pulsed.errors import STATUSES, InvalidArgument, RequestError, ResourceExhausted, Unavailable
from pulsed.http2 import GrpcServer, call_deadline
from pulsed.metrics import Metrics

logger = logging.getLogger(__name__)

PREFIX = struct.Struct(">?I")
HEALTH = "/grpc.health.v1.Health/"
# Messages up to this size are read at once, longer ones in pieces of it that are accounted for.
PIECE_BYTES = 1 << 16
# How many messages of the greatest length may be on their way, and for how long.
MESSAGES_ARRIVING = 16
LONGEST_ARRIVAL = timedelta(minutes=1)

# An error travels in a header, and clients take no more than a few kilobytes of those.
LONGEST_ERROR = 600

Request = TypeVar("Request")
Response = TypeVar("Response")


class Room:
    """The memory that messages may take while they arrive, over all calls."""

    def __init__(self, size: int) -> None:
        self._free = size

    def take(self, size: int) -> None:
        """Takes some of it."""
        if size > self._free:
            raise ResourceExhausted("too much is being received at once; try again, or with less")
        self._free -= size

    def give_back(self, size: int) -> None:
        """Returns what was taken."""
        self._free += size


class BoundedStream(Generic[Request, Response]):
    """A call as the generated services see it, with a limit on what is read."""

    def __init__(
        self,
        stream: "grpclib.server.Stream[Request, Response]",
        request_type: type[Request],
        codec: Codec,
        max_bytes: int,
        room: Room,
        turn: "Turn",
    ) -> None:
        self._stream = stream
        self._request_type = request_type
        self._codec = codec
        self._max_bytes = max_bytes
        self._room = room
        self._turn = turn

    async def send_message(self, response: Response) -> None:
        """Sends a response; in a call of many requests each has one, and is over with it."""
        await self._stream.send_message(response)
        self._turn.answered()

    async def recv_message(self) -> Request:
        """The request of a call that has one."""
        request = await self._read()
        if request is None:
            raise InvalidArgument("request", "is missing")
        return request

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Request:
        """The next request of a call that has many."""
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
            data = await (wire.recv_data(length) if length <= PIECE_BYTES else self._recv_pieces(wire, length))
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

    async def _recv_pieces(self, wire: Stream, length: int) -> bytes:
        """A long message: as much of it as has arrived takes room, for a while."""
        pieces = []
        taken = 0
        try:
            async with asyncio.timeout(LONGEST_ARRIVAL.total_seconds()):
                while taken < length:
                    size = min(PIECE_BYTES, length - taken)
                    self._room.take(size)
                    taken += size
                    pieces.append(await wire.recv_data(size))
        except TimeoutError:
            raise ResourceExhausted(f"the message did not arrive within {LONGEST_ARRIVAL}") from None
        finally:
            self._room.give_back(taken)
        return b"".join(pieces)


class Turn:
    """The requests of a call on their way through the server, from arrival to answer: counted and timed."""

    def __init__(self, guard: "Guard", name: str, *, counted: bool, has_many: bool) -> None:
        self._guard = guard
        self._name = name
        self._counted = counted
        self._has_many = has_many
        self._began: deque[float] = deque()
        if not has_many:
            self.begin()

    def begin(self) -> None:
        """A request arrived."""
        self._began.append(time.perf_counter())
        self._guard.entered(self._counted)

    def check_open(self) -> None:
        """A server that stops reads no more from calls that stay open, else it might never come to rest."""
        if self._guard.draining:
            raise Unavailable("the server is shutting down; connect again")

    def answered(self) -> None:
        """A response was sent. Where one request has many, they are over only with the call."""
        if self._has_many:
            self._end_first(Status.OK)

    def end(self, status: Status) -> None:
        """The call is over, and with it what was not answered."""
        while self._began:
            self._end_first(status)

    def _end_first(self, status: Status) -> None:
        self._guard.left(self._counted, self._name, status, time.perf_counter() - self._began.popleft())


class Guard:
    """Wraps every method of the services: limits in, statuses out, counted and timed."""

    def __init__(self, codec: Codec, max_bytes: int, metrics: Metrics) -> None:
        self._codec = codec
        self._max_bytes = max_bytes
        self._room = Room(MESSAGES_ARRIVING * max_bytes)
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
            turn = Turn(self, name, counted=counted, has_many=has_many)
            status = Status.OK
            try:
                async with asyncio.timeout_at(call_deadline.get()) as deadline:
                    await handler.func(self._bound(stream, handler, turn))
            except (asyncio.CancelledError, StreamTerminatedError):
                status = Status.CANCELLED
                raise
            except Exception as error:
                failure = write_error(name, error) if not deadline.expired() else GRPCError(Status.DEADLINE_EXCEEDED)
                status = failure.status
                raise failure from None
            finally:
                turn.end(status)

        return handler._replace(func=call)

    def _bound(self, stream: Any, handler: Handler, turn: Turn) -> BoundedStream[Any, Any]:
        return BoundedStream(stream, handler.request_type, self._codec, self._max_bytes, self._room, turn)

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
        text = str(error)
        return GRPCError(STATUSES[type(error)], text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]}...")
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
