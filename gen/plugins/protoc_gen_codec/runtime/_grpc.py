"""grpclib's streams with less to do for each message: nearly all of them are one frame.

grpclib passes what arrives through a queue, as views of pieces, and asks what a frame may hold
before it makes one. With one reader and one piece there is nothing to queue and nothing to put
together, and a frame that may be sent is sent. Whatever is not as usual goes the way of grpclib.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from grpclib.protocol import Buffer, Connection, H2Protocol, Stream

from ._http2 import QuickConnection


class QuickBuffer(Buffer):
    """What arrived on a stream and was not read yet; acknowledged as the reader gets to it."""

    def __init__(self, ack_callback: Callable[[int], None]) -> None:
        self._ack_callback = ack_callback
        self._arrived: deque[tuple[bytes, int]] = deque()
        # The piece that is being read, and how far; several where a read wants more than one holds.
        self._piece: bytes | bytearray = b""
        self._position = 0
        self._eof = False
        self._reader: asyncio.Future[None] | None = None

    def add(self, data: bytes, ack_size: int) -> None:
        """A piece arrived."""
        self._arrived.append((data, ack_size))
        self._wake_reader()

    def eof(self) -> None:
        """No more will come."""
        self._eof = True
        self._wake_reader()

    def unacked_size(self) -> int:
        """How much of it nobody got to. It is forgotten."""
        size = sum(ack_size for _, ack_size in self._arrived)
        self._arrived.clear()
        return size

    async def read(self, size: int) -> bytes:
        """So many bytes; none at the end."""
        assert size >= 0, "Size can not be negative"
        while len(self._piece) - self._position < size:
            if self._arrived:
                self._take_piece()
            elif self._eof:
                if self._position == len(self._piece):
                    return b""
                raise AssertionError("Received less data than expected")
            else:
                await self._wait()
        begin = self._position
        self._position += size
        return bytes(self._piece[begin : self._position])

    def _take_piece(self) -> None:
        data, ack_size = self._arrived.popleft()
        if self._position == len(self._piece):
            self._piece = data
        else:
            if not isinstance(self._piece, bytearray):
                self._piece = bytearray(self._piece)
            del self._piece[: self._position]
            self._piece += data
        self._position = 0
        self._ack_callback(ack_size)

    async def _wait(self) -> None:
        self._reader = asyncio.get_running_loop().create_future()
        await self._reader

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


class QuickStream(Stream):
    """One call."""

    _h2_connection: QuickConnection

    def init_stream(self, stream_id: int, connection: Connection) -> None:
        """Begins it."""
        super().init_stream(stream_id, connection)
        self.buffer = QuickBuffer(partial(connection.ack, stream_id))

    async def send_data(self, data: bytes, end_stream: bool = False) -> None:
        """Sends a message, at once if it may be."""
        connection = self.connection
        if (
            end_stream
            or self.id is None
            or not connection.write_ready.is_set()
            or not self._h2_connection.send_plain_frame(self.id, data)
        ):
            await super().send_data(data, end_stream)
            return
        self._transport.write(self._h2_connection.data_to_send())
        self.data_sent += len(data)
        connection.data_sent += len(data)
        connection.data_send_process()


class QuickStreams(Connection):
    """Makes such streams."""

    _connection: QuickConnection

    def create_stream(self, *, stream_id: int | None = None, wrapper: Any = None) -> Stream:
        """A new one."""
        return QuickStream(self, self._connection, self._transport, stream_id=stream_id, wrapper=wrapper)


class QuickProtocol(H2Protocol):
    """grpclib's protocol on such a connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins a connection."""
        super().connection_made(transport)
        # grpclib asks nobody which classes to use. What it made changes its manners, not its state.
        self.connection.__class__ = QuickStreams
        self.connection._connection.__class__ = QuickConnection
