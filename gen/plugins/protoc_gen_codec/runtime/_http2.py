"""HTTP/2 with a short cut for what travels most: a frame that is data and nothing else.

h2 makes objects of every frame, a text for a log that nobody reads, and steps of two state
machines. For a message on a call that stays open that is a fifth of the work on either side, and
all that has to happen is arithmetic: the frame is counted against two windows. Whatever is not as
usual goes through h2 itself: other frames, the end of a stream, a state or a window that does not
allow the frame.
"""

import struct
from typing import Any

from h2.connection import ConnectionState, H2Connection
from h2.events import DataReceived, Event
from h2.stream import H2Stream, StreamState

# Length in two parts (three bytes), type, flags, stream.
HEADER = struct.Struct(">HBBBL")
DATA = 0
NO_FLAGS = 0

MAY_SEND = frozenset([StreamState.OPEN, StreamState.HALF_CLOSED_REMOTE])
MAY_RECEIVE = frozenset([StreamState.OPEN, StreamState.HALF_CLOSED_LOCAL])


class QuickConnection(H2Connection):
    """Sends and receives the same as h2's own, and ends up in the same state."""

    def receive_data(self, data: Any) -> list[Event]:
        """What arrived, as events."""
        events: list[Event] = []
        arriving = self.incoming_buffer._data
        if arriving and self._completes_frame(data):
            data = bytes(arriving) + data
            arriving.clear()
        if not (arriving or self.incoming_buffer._headers_buffer):
            data = memoryview(data)
            while data and (received := self._take_plain_frame(data)):
                events.append(received)
                data = data[HEADER.size + len(received.data) :]
            if not data:
                return events
        return events + super().receive_data(data)

    def _completes_frame(self, data: Any) -> bool:
        """Whether the frame that has begun to arrive is whole with this."""
        arriving = self.incoming_buffer._data
        header = bytes(arriving[: HEADER.size])
        header += data[: HEADER.size - len(header)]
        if len(header) < HEADER.size:
            return False
        high, low, *_ = HEADER.unpack(header)
        whole: int = HEADER.size + (high << 8 | low)
        return len(arriving) + len(data) >= whole

    def _take_plain_frame(self, data: memoryview) -> DataReceived | None:
        """The frame at the begin of data, if that is all it is."""
        if len(data) < HEADER.size:
            return None
        high, low, kind, flags, stream_id = HEADER.unpack_from(data)
        size = high << 8 | low
        end = HEADER.size + size
        stream = self.streams.get(stream_id)
        if (
            kind != DATA
            or flags != NO_FLAGS
            or end > len(data)
            or stream is None
            or not self._may_receive(stream, size)
        ):
            return None
        self._inbound_flow_control_window_manager.window_consumed(size)
        stream._inbound_window_manager.window_consumed(size)
        stream._actual_content_length += size
        received = DataReceived(stream_id=stream_id)
        received.data = bytes(data[HEADER.size : end])
        received.flow_controlled_length = size
        return received

    def send_data(
        self,
        stream_id: int,
        data: Any,
        end_stream: bool = False,
        pad_length: Any = None,
    ) -> None:
        """Puts data among what is to be sent."""
        plain = not end_stream and pad_length is None
        if not (plain and self.send_plain_frame(stream_id, data)):
            super().send_data(stream_id, data, end_stream, pad_length)

    def send_plain_frame(self, stream_id: int, data: bytes) -> bool:
        """Puts data among what is to be sent, if it may be sent now and in one frame."""
        stream = self.streams.get(stream_id)
        size = len(data)
        if stream is None or not self._may_send(stream, size):
            return False
        self.outbound_flow_control_window -= size
        stream.outbound_flow_control_window -= size
        self._data_to_send += HEADER.pack(size >> 8, size & 0xFF, DATA, NO_FLAGS, stream_id)
        self._data_to_send += data
        return True

    def _may_receive(self, stream: H2Stream, size: int) -> bool:
        return (
            self.state_machine.state is not ConnectionState.CLOSED
            and stream.state_machine.state in MAY_RECEIVE
            and bool(stream.state_machine.headers_received)
            and stream._expected_content_length is None
            and size <= self.max_inbound_frame_size
            and size <= self._inbound_flow_control_window_manager.current_window_size
            and size <= stream._inbound_window_manager.current_window_size
        )

    def _may_send(self, stream: H2Stream, size: int) -> bool:
        return (
            self.state_machine.state is not ConnectionState.CLOSED
            and stream.state_machine.state in MAY_SEND
            and size <= self.max_outbound_frame_size
            and size <= self.outbound_flow_control_window
            and size <= stream.outbound_flow_control_window
        )
