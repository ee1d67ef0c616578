"""Quick streams behave as those of grpclib, whatever arrives and however it is read."""

import asyncio
import struct
from typing import Any

import pytest
from grpclib.client import Handler
from grpclib.config import Configuration
from grpclib.protocol import Buffer, H2Protocol, Stream
from h2.config import H2Configuration
from hypothesis import example, given
from hypothesis import strategies as st

from pulse_gen.codec import QuickProtocol, _grpc
from pulse_gen.codec._grpc import QuickBuffer

WINDOW = 100
FRAME = 16384
REQUEST = [(":method", "POST"), (":path", "/"), (":scheme", "http"), (":authority", "pulse")]

Step = tuple[Any, ...]

steps = st.one_of(
    st.tuples(st.just("add"), st.binary(min_size=1, max_size=12)),
    st.tuples(st.just("add"), st.binary(min_size=1, max_size=12), st.binary(min_size=1, max_size=12)),
    st.tuples(st.just("read"), st.integers(0, 20)),
    st.tuples(st.just("eof")),
    st.tuples(st.just("cancel")),
    st.tuples(st.just("forget")),
)


class Reader:
    """One buffer and who reads from it: one read at a time."""

    def __init__(self, kind: type[Buffer]) -> None:
        self.acknowledged: list[int] = []
        self.buffer = kind(self.acknowledged.append)
        self.reading: asyncio.Task[bytes] | None = None
        self.ended = False

    async def take(self, step: Step) -> object:
        """What can be seen of a step."""
        name, *details = step
        forgotten = None
        match name:
            case "add" if not self.ended:
                for piece in details:
                    self.buffer.add(piece, len(piece) + 1)
            case "read" if self.reading is None:
                self.reading = asyncio.create_task(self.buffer.read(details[0]))
            case "eof" if not self.ended:
                self.ended = True
                self.buffer.eof()
            case "cancel" if self.reading is not None:
                self.reading.cancel()
            case "forget":
                forgotten = self.buffer.unacked_size()
        await settle()
        return forgotten, self.outcome(), list(self.acknowledged)

    def outcome(self) -> object:
        """What the read brought, if it is over."""
        if self.reading is None or not self.reading.done():
            return None
        reading, self.reading = self.reading, None
        try:
            return reading.result()
        except (AssertionError, asyncio.CancelledError) as error:
            return type(error), str(error)


async def settle() -> None:
    """Lets everything that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def seen_of(kind: type[Buffer], taken: list[Step]) -> list[object]:
    """What can be seen, step by step."""
    reader = Reader(kind)
    seen = [await reader.take(step) for step in taken]
    if reader.reading is not None:
        reader.reading.cancel()
    return seen


@given(st.lists(steps, max_size=20))
@example([("add", b"head and body"), ("read", 5), ("read", 8)])
@example([("add", b"abc"), ("read", 1), ("add", b"def"), ("read", 4), ("read", 1)])
@example([("add", b"abc"), ("read", 5), ("cancel",), ("read", 3)])
@example([("add", b"abc"), ("read", 5), ("eof",)])
def test_a_buffer_gives_what_that_of_grpclib_gives(taken: list[Step]) -> None:
    # At the end of a stream, what is forgotten takes the end along in grpclib: nobody reads on after that.
    if ("forget",) in taken and ("eof",) in taken:
        taken = [step for step in taken if step != ("forget",)]

    async def compare() -> None:
        assert await seen_of(QuickBuffer, taken) == await seen_of(Buffer, taken)

    asyncio.run(compare())


def test_a_message_in_small_pieces_is_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0

    class Counted(bytearray):
        def __init__(self, begin: bytes) -> None:
            nonlocal made
            made += 1
            super().__init__(begin)

    monkeypatch.setattr(_grpc, "bytearray", Counted, raising=False)
    buffer = QuickBuffer(lambda size: None)
    for _ in range(1000):
        buffer.add(b"x", 1)
    assert asyncio.run(buffer.read(1000)) == b"x" * 1000
    assert made == 1


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False


sends = st.one_of(
    st.tuples(st.just("send"), st.integers(1, 40) | st.sampled_from([WINDOW, FRAME, FRAME + 1]), st.just(False)),
    st.tuples(st.just("send"), st.integers(1, 40), st.booleans()),
    st.tuples(st.just("window"), st.integers(1, 3 * FRAME)),
    st.tuples(st.just("pause")),
    st.tuples(st.just("resume")),
)


async def sent_by(kind: type[H2Protocol], taken: list[Step]) -> list[Any]:
    """What is on the wire after each step, and how much was counted as sent. A call is begun before the first."""
    protocol = kind(Handler(), Configuration().__for_client__(), H2Configuration(client_side=True))
    wire = Wire()
    protocol.connection_made(wire)
    stream = protocol.connection.create_stream()
    await stream.send_request(REQUEST, _processor=protocol.processor)
    protocol.connection._connection.streams[1].outbound_flow_control_window = WINDOW
    seen: list[object] = []
    sending: list[asyncio.Task[None]] = []
    ended = False
    for name, *details in taken:
        match name:
            case "send" if not ended:
                size, ended = details
                sending.append(asyncio.create_task(stream.send_data(b"x" * size, end_stream=ended)))
            case "window":
                protocol.data_received(struct.pack(">HBBBLL", 0, 4, 8, 0, 1, *details))
            case "pause":
                protocol.pause_writing()
            case "resume":
                protocol.resume_writing()
        await settle()
        seen.append((wire.written, stream.data_sent, protocol.connection.data_sent, [each.done() for each in sending]))
        if not all(each.done() for each in sending):
            ended = True  # one at a time: the next would overtake it
    for task in sending:
        task.cancel()
    await asyncio.gather(*sending, return_exceptions=True)
    return seen


@given(st.lists(sends, max_size=8))
@example([("send", 10, False), ("send", 10, True)])
@example([("pause",), ("send", 10, False), ("resume",)])
@example([("send", WINDOW + 1, False), ("window", 20)])
@example([("window", 3 * FRAME), ("send", FRAME + 1, False)])
def test_a_stream_sends_what_that_of_grpclib_sends(taken: list[Step]) -> None:
    async def compare() -> None:
        assert await sent_by(QuickProtocol, taken) == await sent_by(H2Protocol, taken)

    asyncio.run(compare())


def test_every_stream_of_a_quick_protocol_has_a_quick_buffer() -> None:
    async def begin() -> Buffer:
        protocol = QuickProtocol(Handler(), Configuration().__for_client__(), H2Configuration(client_side=True))
        protocol.connection_made(Wire())
        return protocol.connection.create_stream(stream_id=1).buffer

    assert isinstance(asyncio.run(begin()), QuickBuffer)


def test_a_message_that_may_be_sent_takes_the_short_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    async def long_way(*_: object) -> None:
        raise AssertionError("the long way")

    monkeypatch.setattr(Stream, "send_data", long_way)
    ((written, sent, *_),) = asyncio.run(sent_by(QuickProtocol, [("send", 10, False)]))
    assert written.endswith(b"x" * 10)
    assert sent == 10
