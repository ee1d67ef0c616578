"""A gRPC client that knows no manners: it sends whatever bytes a test wants, frame by frame."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import h2.config
import h2.connection
import h2.errors
import h2.events
from grpclib.const import Status

PATIENCE = 20.0
HEADERS = {
    ":method": "POST",
    ":scheme": "http",
    ":authority": "test",
    "te": "trailers",
    "content-type": "application/grpc+proto",
}


def frame(message: bytes = b"", *, compressed: int = 0, length: int | None = None) -> bytes:
    """A message with its prefix of five bytes, which may lie."""
    return struct.pack(">BI", compressed, len(message) if length is None else length) + message


class Answer(NamedTuple):
    """How a call ended."""

    status: Status
    message: str


class RawConnection:
    """One connection. What is sent is in the hands of the caller; what comes back is read for one stream at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(header_encoding="utf-8", validate_outbound_headers=False)
        )
        self._h2.initiate_connection()
        self._headers: dict[int, dict[str, str]] = {}
        self._ended: set[int] = set()

    async def call(self, path: str, body: bytes | None, **headers: str | bytes) -> Answer:
        """Sends a whole call and waits for its end; without a body, headers alone, the stream left open."""
        stream = await self.open(path, **headers)
        if body is not None:
            await self.send(stream, body, end=True)
        return await self.answer(stream)

    async def open(self, path: str, **headers: str | bytes) -> int:
        """Sends the headers of a call."""
        stream = self._h2.get_next_available_stream_id()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        fields: Any = list((HEADERS | {":path": path} | named).items())
        self._h2.send_headers(stream, fields)
        await self._flush()
        return stream

    async def send(self, stream: int, data: bytes, *, end: bool = False) -> None:
        """Sends a part of the body, in as many frames as it takes, or until the server has ended the call."""
        view = memoryview(data)
        while len(view) and stream not in self._ended:
            size = min(self._h2.local_flow_control_window(stream), self._h2.max_outbound_frame_size, len(view))
            if size == 0:
                await self._read()
                continue
            self._h2.send_data(stream, bytes(view[:size]))
            view = view[size:]
            await self._flush()
        if end and stream not in self._ended:
            self._h2.end_stream(stream)
        await self._flush()

    async def answer(self, stream: int) -> Answer:
        """Waits for the end of a stream."""
        async with asyncio.timeout(PATIENCE):
            while stream not in self._ended:
                await self._read()
        headers = self._headers[stream]
        return Answer(Status(int(headers["grpc-status"])), headers.get("grpc-message", ""))

    async def closed(self) -> None:
        """Waits until the other side hangs up; nothing is answered meanwhile, pings neither."""
        async with asyncio.timeout(PATIENCE):
            while await self.reader.read(65536):
                pass

    async def _flush(self) -> None:
        self.writer.write(self._h2.data_to_send())
        await self.writer.drain()

    async def _read(self) -> None:
        data = await self.reader.read(65536)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        for event in self._h2.receive_data(data):
            match event:
                case h2.events.ResponseReceived() | h2.events.TrailersReceived():
                    assert event.stream_id is not None
                    fields: Any = event.headers
                    self._headers.setdefault(event.stream_id, {}).update(fields)
                case h2.events.StreamEnded() | h2.events.StreamReset():
                    assert event.stream_id is not None
                    self._ended.add(event.stream_id)
                case h2.events.DataReceived():
                    assert event.stream_id is not None
                    assert event.flow_controlled_length is not None
                    self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        await self._flush()


@asynccontextmanager
async def raw_connection(port: int) -> AsyncIterator[RawConnection]:
    """A connection to a server on this machine."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    connection = RawConnection(reader, writer)
    try:
        yield connection
    finally:
        writer.close()
