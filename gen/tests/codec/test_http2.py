"""The short cut through h2 leads to the same place: same bytes, same events, same errors, whatever the peers do."""

import struct
from collections.abc import Callable
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import H2Error
from h2.settings import SettingCodes
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pulse_gen.codec._http2 import QuickConnection

WINDOW = 200
WIDE_WINDOW = 40_000
STREAMS = (1, 3, 5)
# The server has not answered this one yet.
UNANSWERED = 5
UNKNOWN = 99
REQUEST = [(":method", "POST"), (":path", "/"), (":scheme", "http"), (":authority", "pulse")]

Step = tuple[Any, ...]


class Peers:
    """A client and a server with open streams, and bytes on their way between them."""

    def __init__(self, kind: Callable[..., H2Connection], window: int = WINDOW) -> None:
        self.ends = [kind(config=H2Configuration(client_side=side == 0)) for side in (0, 1)]
        self.under_way = [b"", b""]
        for end in self.ends:
            end.initiate_connection()
            end.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.deliver_all()
        for stream in STREAMS:
            length = [("content-length", "50")] if stream == 3 else []
            self.ends[0].send_headers(stream, REQUEST + length)
        self.deliver_all()
        for stream in STREAMS:
            if stream != UNANSWERED:
                self.ends[1].send_headers(stream, [(":status", "200")])
        self.deliver_all()

    def deliver_all(self) -> None:
        for _ in range(4):
            for side in (0, 1):
                self.under_way[side] += self.ends[side].data_to_send()
                if self.under_way[side]:
                    self.take(("deliver", side, 0))

    def take(self, step: Step) -> object:
        """What can be seen of a step: its events, or its error."""
        name, side, *details = step
        end = self.ends[side]
        try:
            match name:
                case "send":
                    stream, size, end_stream = details
                    end.send_data(stream, b"x" * size, end_stream=end_stream)
                case "acknowledge":
                    end.acknowledge_received_data(*details)
                case "reset":
                    end.reset_stream(*details)
                case "ping":
                    end.ping(b"12345678")
                case "close":
                    end.close_connection()
                case "forge":
                    (frame,) = details
                    self.under_way[side] += frame
                case "deliver":
                    (cut,) = details
                    data, self.under_way[side] = self.under_way[side], b""
                    pieces = [piece for piece in (data[:cut], data[cut:]) if piece]
                    events = [event for piece in pieces for event in self.ends[1 - side].receive_data(piece)]
                    return [(repr(event), getattr(event, "data", b"")) for event in events]
        except (H2Error, KeyError, ValueError) as error:
            return type(error).__name__, str(error)
        return None

    def seen(self) -> object:
        """What each end has to send, and room to send more."""
        for side, end in enumerate(self.ends):
            self.under_way[side] += end.data_to_send()
        return self.under_way, [
            (end.state_machine.state, end.outbound_flow_control_window, end.inbound_flow_control_window, {
                number: (
                    stream.state_machine.state, stream.outbound_flow_control_window, stream.inbound_flow_control_window,
                    stream._actual_content_length,
                )
                for number, stream in end.streams.items()
            })
            for end in self.ends
        ]  # fmt: skip


def forge(stream: int, kind: int, flags: int, size: int) -> bytes:
    """A frame as a peer of any kind may send it."""
    return struct.pack(">HBBBL", size >> 8, size & 0xFF, kind, flags, stream) + b"y" * size


# A frame that holds what looks like a frame, for those who lose count.
NESTED = forge(1, 0, 0, 59)[:9] + forge(1, 0, 0, 50)
NESTED_BEGUN = forge(1, 0, 0, 60)[:9] + forge(1, 0, 0, 50)

# A block of headers of which more has to come before anything else may.
HEADERS_BEGUN = forge(7, 1, 0, 1)

sides = st.integers(0, 1)
streams = st.sampled_from([*STREAMS, UNKNOWN])
sizes = st.one_of(st.integers(0, 120), st.integers(WINDOW - 1, WINDOW + 1), st.sampled_from([16384, 16385]))
steps = st.one_of(
    st.tuples(st.just("send"), sides, streams, sizes, st.booleans() | st.just(False)),
    st.tuples(st.just("deliver"), sides, st.just(0) | st.integers(0, 150)),
    st.tuples(st.just("deliver"), sides, st.just(0)),
    st.tuples(st.just("acknowledge"), sides, st.integers(0, 150), streams),
    st.tuples(
        st.just("forge"),
        sides,
        st.builds(forge, streams, st.sampled_from([0, 0, 0, 6, 99]), st.sampled_from([0, 0, 1, 8]), sizes),
    ),
    st.tuples(st.sampled_from(["ping", "close"]), sides),
    st.tuples(st.just("reset"), sides, streams),
)


@settings(max_examples=1000, deadline=None)
@given(st.lists(steps, max_size=12), st.sampled_from([WINDOW, WIDE_WINDOW]))
@example([("send", 1, UNANSWERED, 10, False), ("deliver", 1, 0)], WINDOW)
@example([("forge", 0, NESTED), ("deliver", 0, 9)], WINDOW)
@example([("forge", 0, NESTED_BEGUN), ("deliver", 0, 9), ("forge", 0, b"y"), ("deliver", 0, 0)], WINDOW)
@example([("forge", 0, forge(1, 0, 0, 16385)), ("deliver", 0, 0)], WIDE_WINDOW)
@example([("send", 0, 1, 16385, False)], WIDE_WINDOW)
@example([("send", 0, 1, 100, False), ("deliver", 0, 105), ("deliver", 0, 0)], WINDOW)
@example([("forge", 0, HEADERS_BEGUN), ("deliver", 0, 0), ("send", 0, 1, 10, False), ("deliver", 0, 0)], WINDOW)
@example([("forge", 0, forge(1, 0, 0, WINDOW + 1)), ("deliver", 0, 0)], WINDOW)
@example([("send", 0, 3, 51, False), ("deliver", 0, 0)], WINDOW)
def test_the_short_cut_can_not_be_told_from_the_long_way(taken: list[Step], window: int) -> None:
    stock, quick = Peers(H2Connection, window), Peers(QuickConnection, window)
    for step in taken:
        assert quick.take(step) == stock.take(step), step
        assert quick.seen() == stock.seen(), step


def forbid(*_: object) -> None:
    raise AssertionError("the long way")


def test_a_plain_frame_takes_the_short_cut(monkeypatch: Any) -> None:
    peers = Peers(QuickConnection)
    monkeypatch.setattr(H2Connection, "send_data", forbid)
    monkeypatch.setattr(H2Connection, "receive_data", forbid)
    for side in (0, 1):
        peers.take(("send", side, 1, 100, False))
        peers.seen()
        assert "DataReceived" in str(peers.take(("deliver", side, 0)))


def test_plain_frames_at_once_and_in_pieces_take_the_short_cut(monkeypatch: Any) -> None:
    peers = Peers(QuickConnection)
    monkeypatch.setattr(H2Connection, "_receive_frame", forbid)
    for cut in (0, 5, 60, 70):
        for stream in (1, 5):
            peers.take(("send", 0, stream, 50, False))
        peers.seen()
        assert str(peers.take(("deliver", 0, cut))).count("DataReceived") == 2


def test_a_frame_that_comes_byte_by_byte_is_put_together_once() -> None:
    connection = Peers(QuickConnection, WIDE_WINDOW).ends[1]
    copied = 0

    class Counted(bytearray):
        def __bytes__(self) -> bytes:
            nonlocal copied
            copied += len(self)
            return bytes(memoryview(self))

    connection.incoming_buffer._data = Counted()
    frame = forge(1, 0, 0, 10_000)
    events = [event for byte in frame for event in connection.receive_data(bytes([byte]))]
    assert len(events) == 1
    assert copied < 2 * len(frame)
