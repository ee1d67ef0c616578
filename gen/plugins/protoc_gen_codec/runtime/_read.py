"""What the decoders share: numbers off the wire, tags, and the skipping of unknown fields.

Every reader takes the buffer and a position, and returns the value and the position behind it. It
may run past the end of a nested message: the decoder compares positions when it is done. Past the
end of the buffer Python's own IndexError ends it, which the public functions turn into CodecError.
"""

import struct
from collections.abc import Container
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from ._errors import CodecError, truncated

T = TypeVar("T")
E = TypeVar("E", bound=IntEnum)

# What reading past the end of the buffer raises.
READ_ERRORS = (IndexError, struct.error)

# Groups are gone from proto3 but legal as unknown fields. Google's implementation stops here too.
MAX_GROUP_DEPTH = 100

read_fixed32 = struct.Struct("<I").unpack_from
read_fixed64 = struct.Struct("<Q").unpack_from
read_sfixed32 = struct.Struct("<i").unpack_from
read_sfixed64 = struct.Struct("<q").unpack_from
read_float = struct.Struct("<f").unpack_from
read_double = struct.Struct("<d").unpack_from

if TYPE_CHECKING:

    def new(cls: type[T]) -> T:
        """An instance without attributes: the decoder sets every one of them itself."""

else:
    # Four times as fast as the dataclass constructor; the instance is the same in every way.
    new = object.__new__


def members(enum: type[E]) -> dict[int, E]:
    """The members of an enum by number: a dict is ten times as fast as calling the enum."""
    return {member.value: member for member in enum}


def as_input(data: object) -> bytes:
    """The input of a decoder as bytes, because slices of bytes are what strings are made from."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"expected bytes, got {type(data).__name__}")
    return bytes(data)


def read_uint64(data: bytes, pos: int) -> tuple[int, int]:
    """A varint. Ten bytes at most; what is above the 64th bit is dropped."""
    value = data[pos]
    if value < 128:
        return value, pos + 1
    shift = 7
    for at in range(pos + 1, pos + 10):
        byte = data[at]
        # (byte - 1) takes off the continuation bit of the byte before.
        value += (byte - 1) << shift
        if byte < 128:
            return value & 0xFFFFFFFFFFFFFFFF, at + 1
        shift += 7
    raise CodecError("varint longer than 10 bytes")


def read_uint32(data: bytes, pos: int) -> tuple[int, int]:
    """A varint, cut to 32 bits."""
    value, pos = read_uint64(data, pos)
    return value & 0xFFFFFFFF, pos


def read_int64(data: bytes, pos: int) -> tuple[int, int]:
    """A varint as a signed number of 64 bits."""
    value, pos = read_uint64(data, pos)
    return (value ^ 0x8000000000000000) - 0x8000000000000000, pos


def read_int32(data: bytes, pos: int) -> tuple[int, int]:
    """A varint, cut to 32 bits, as a signed number."""
    value, pos = read_uint64(data, pos)
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000, pos


def read_sint64(data: bytes, pos: int) -> tuple[int, int]:
    """A zigzag varint: 0, -1, 1, -2, ..."""
    value, pos = read_uint64(data, pos)
    return (value >> 1) ^ -(value & 1), pos


def read_sint32(data: bytes, pos: int) -> tuple[int, int]:
    """A zigzag varint, cut to 32 bits."""
    value, pos = read_uint32(data, pos)
    return (value >> 1) ^ -(value & 1), pos


def read_bool(data: bytes, pos: int) -> tuple[bool, int]:
    """A varint; everything but zero is true."""
    value, pos = read_uint64(data, pos)
    return value != 0, pos


def read_size(data: bytes, pos: int) -> tuple[int, int]:
    """The length of a string, bytes or message: five bytes and 31 bits at most."""
    value, stop = read_uint64(data, pos)
    if stop - pos > 5 or value > 0x7FFFFFFF:
        raise CodecError("invalid length")
    return value, stop


def read_tag(data: bytes, pos: int) -> tuple[int, int]:
    """Field number and wire type: five bytes and 32 bits at most."""
    tag, stop = read_uint64(data, pos)
    if stop - pos > 5 or tag > 0xFFFFFFFF:
        raise CodecError("invalid tag")
    return tag, stop


def next_known(data: bytes, pos: int, end: int, tag: int, known: Container[int]) -> tuple[int, int]:
    """Skips unknown fields. `tag` was just read; -1 stands for the end of the message.

    Returns the next known tag and the position behind it; -1 if the message ends first.
    """
    while tag >= 0 and tag not in known:
        pos = skip_field(data, pos, end, tag)
        if pos == end:
            return -1, pos
        tag, pos = read_tag(data, pos)
    return tag, pos


def skip_field(data: bytes, pos: int, end: int, tag: int) -> int:
    """The position behind an unknown field whose tag was just read. A group is skipped whole."""
    open_groups: list[int] = []
    while True:
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            raise CodecError("field number 0")
        if wire_type == 3:
            open_groups.append(number)
            if len(open_groups) > MAX_GROUP_DEPTH:
                raise CodecError(f"groups nested deeper than {MAX_GROUP_DEPTH}")
        elif wire_type == 4:
            if not open_groups or open_groups.pop() != number:
                raise CodecError("end of a group that was not begun")
        else:
            pos = skip_value(data, pos, wire_type)
        if pos > end or (open_groups and pos == end):
            raise truncated()
        if not open_groups:
            return pos
        tag, pos = read_tag(data, pos)


def skip_value(data: bytes, pos: int, wire_type: int) -> int:
    """The position behind a value of this wire type."""
    if wire_type == 0:
        return read_uint64(data, pos)[1]
    if wire_type == 1:
        return pos + 8
    if wire_type == 2:
        size, pos = read_size(data, pos)
        return pos + size
    if wire_type == 5:
        return pos + 4
    raise CodecError(f"invalid wire type {wire_type}")
