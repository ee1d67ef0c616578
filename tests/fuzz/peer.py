"""A peer without manners: it writes HTTP/2 frame by frame, right or wrong, and reads what comes back."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import hpack

PATIENCE = 60.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
INFO = "/pulse.v1.StatsService/GetServerInfo"
SUBMIT = "/pulse.v1.JobService/SubmitJob"
STREAM = "/pulse.v1.WorkerService/StreamJobs"

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM = ACK = 0x1
END_HEADERS, PADDED, PRIORITIZED = 0x4, 0x8, 0x20

# The windows of streams are not given back, only that of the connection.
LARGE_WINDOWS = struct.pack(">HI", 4, (1 << 31) - 1)

Fields = list[tuple[bytes, bytes]]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"", *, length: int | None = None) -> bytes:
    """A frame, whose stated length may lie."""
    size = len(payload) if length is None else length
    return struct.pack(">BHBBI", size >> 16, size & 0xFFFF, kind, flags, stream) + payload


def message(body: bytes = b"", *, compressed: int = 0, length: int | None = None) -> bytes:
    """A gRPC message with its prefix, which may lie."""
    return struct.pack(">BI", compressed, len(body) if length is None else length) + body


def fields(path: str = INFO, **changed: str | bytes | None) -> Fields:
    """The headers of a good call, changed or left out by name: `content_type=None`, `_method="GET"` for `:method`."""
    found: dict[str, str | bytes | None] = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "test",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    for name, value in changed.items():
        found[(":" + name[1:] if name.startswith("_") else name).replace("_", "-")] = value
    encoded = {name: value.encode() if isinstance(value, str) else value for name, value in found.items()}
    return [(name.encode(), value) for name, value in encoded.items() if value is not None]


def block(*headers: tuple[bytes, bytes]) -> bytes:
    """Headers as bytes. Nothing goes into the tables, so that blocks are good in any order."""
    never_indexed = [hpack.NeverIndexedHeaderTuple(*pair) for pair in headers]
    return hpack.Encoder().encode(never_indexed, huffman=False)


def headers_frames(stream: int, data: bytes, *, flags: int = 0, size: int = 16_000) -> list[bytes]:
    """A block of headers in frames of at most a size."""
    parts = [data[start : start + size] for start in range(0, len(data), size)]
    kinds = [HEADERS, *[CONTINUATION] * (len(parts) - 1)]
    last = len(parts) - 1
    return [
        frame(kind, (0 if index else flags) | (END_HEADERS if index == last else 0), stream, part)
        for index, (kind, part) in enumerate(zip(kinds, parts, strict=True))
    ]


class Frame(NamedTuple):
    """A frame from the server."""

    kind: int
    flags: int
    stream: int
    payload: bytes


class HungUp(Exception):
    """The server closed the connection."""


class Peer:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.answers: dict[int, dict[bytes, bytes]] = {}
        self.bodies: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.pongs = 0
        self.farewell: int | None = None
        self._next_stream = 1
        self.decoder = hpack.Decoder()
        self.decoder.max_allowed_table_size = 1 << 32  # whatever we told the server

    def send(self, *data: bytes) -> None:
        """Writes; whether it arrives is another matter."""
        if not self.writer.is_closing():
            self.writer.write(b"".join(data))

    def next_stream(self) -> int:
        """An id that was not used yet."""
        self._next_stream += 2
        return self._next_stream - 2

    def open(self, path: str = INFO, **changed: str | bytes | None) -> int:
        """Sends the headers of a call and leaves it open."""
        stream = self.next_stream()
        self.send(*headers_frames(stream, block(*fields(path, **changed))))
        return stream

    async def call(self, path: str = INFO, body: bytes | None = None, **changed: str | bytes | None) -> int:
        """Makes a whole call; its status. HTTP's own status, as a negative number, where gRPC's is missing."""
        stream = self.open(path, **changed)
        self.send(frame(DATA, END_STREAM, stream, message() if body is None else body))
        return await self.status(stream)

    async def status(self, stream: int) -> int:
        """Waits for the end of a call."""
        await self.read_until(lambda: stream in self.ended)
        answer = self.answers.get(stream)
        assert answer is not None, "the call was reset without an answer"
        if b"grpc-status" not in answer:
            return -int(answer[b":status"])
        return int(answer[b"grpc-status"])

    async def hung_up(self) -> None:
        """Waits until the server closes the connection."""
        with suppress(HungUp):
            await self.read_until(lambda: False)

    async def read_until(self, condition: Callable[[], bool]) -> None:
        """Reads, and answers pings, until the condition holds."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._take(await self._read_frame())

    async def _read_frame(self) -> Frame:
        try:
            head = await self.reader.readexactly(9)
            high, low, kind, flags, stream = struct.unpack(">BHBBI", head)
            return Frame(kind, flags, stream, await self.reader.readexactly(high << 16 | low))
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise HungUp from error

    def _take(self, found: Frame) -> None:
        if found.kind == HEADERS:
            decoded = self.decoder.decode(found.payload, raw=True)
            self.answers.setdefault(found.stream, {}).update(decoded)
        if found.kind == DATA and found.payload:
            self.bodies[found.stream] = self.bodies.get(found.stream, b"") + found.payload
            self.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", len(found.payload))))
        if found.kind == RST_STREAM or (found.kind in (HEADERS, DATA) and found.flags & END_STREAM):
            self.ended.add(found.stream)
        if found.kind == GOAWAY:
            self.farewell = int.from_bytes(found.payload[4:8])
        if found.kind == PING and found.flags & ACK:
            self.pongs += 1
        elif found.kind == PING:
            self.send(frame(PING, ACK, 0, found.payload))


@asynccontextmanager
async def peer(port: int, *, settings: bytes = LARGE_WINDOWS) -> AsyncIterator[Peer]:
    """A connection that has said hello."""
    async with silent_peer(port) as found:
        found.send(PREFACE, frame(SETTINGS, 0, 0, settings))
        yield found


@asynccontextmanager
async def silent_peer(port: int) -> AsyncIterator[Peer]:
    """A connection that has said nothing yet; dropped at the end, whatever is in flight."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Peer(reader, writer)
    finally:
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()
