"""Bytes as other implementations, older contracts and attackers send them, and what they mean.

`wires` makes legal bytes that no encoder of ours would write: any order, repetitions, unknown
fields and groups, lists packed or not, numbers with more bytes than they need. `damaged` goes on
from there. `read_by_google` says what is right.
"""

import math
import struct
from functools import cache
from typing import Any

from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]
from hypothesis import strategies as st

from .reference import Case
from .strategies import INT32, INT64, SCALARS, UINT32, UINT64

FIXED = {
    FieldDescriptor.TYPE_FIXED32: "<I",
    FieldDescriptor.TYPE_FIXED64: "<Q",
    FieldDescriptor.TYPE_SFIXED32: "<i",
    FieldDescriptor.TYPE_SFIXED64: "<q",
    FieldDescriptor.TYPE_FLOAT: "<f",
    FieldDescriptor.TYPE_DOUBLE: "<d",
}
LENGTH_PREFIXED = (
    FieldDescriptor.TYPE_STRING,
    FieldDescriptor.TYPE_BYTES,
    FieldDescriptor.TYPE_MESSAGE,
)


def varint(value: int, padding: int = 0) -> bytes:
    """A varint of 64 bits; `padding` adds bytes that say nothing."""
    value &= 2**64 - 1
    wire = bytearray()
    while value > 127:
        wire.append(value & 127 | 128)
        value >>= 7
    wire.append(value)
    for _ in range(min(padding, 10 - len(wire))):
        wire[-1] |= 128
        wire.append(0)
    return bytes(wire)


def tag(number: int, wire_type: int, padding: int = 0) -> bytes:
    """A tag, which never has more than five bytes."""
    plain = varint(number << 3 | wire_type)
    return varint(number << 3 | wire_type, min(padding, 5 - len(plain)))


def sized(value: bytes, padding: int = 0) -> bytes:
    """A value with its length in front."""
    return varint(len(value), min(padding, 4)) + value


PADDING = st.sampled_from([0, 0, 0, 0, 0, 0, 1, 2])


@cache
def wires(descriptor: Any) -> st.SearchStrategy[bytes]:
    """Legal bytes for a message."""
    fields = [_occurrences(field) for field in descriptor.fields]
    # Not in entries of maps: see `drops_entries`.
    unknown = [] if descriptor.GetOptions().map_entry else [unknown_fields()]
    return st.lists(st.one_of([*fields, *unknown]), max_size=8).map(b"".join)


@cache
def unknown_fields(depth: int = 2) -> st.SearchStrategy[bytes]:
    """Fields that no message of ours has, of every wire type."""
    numbers = st.sampled_from([100, 1000, 5000])
    kinds = [
        st.builds(lambda n, v, p: tag(n, 0, p) + varint(v, p), numbers, UINT64, PADDING),
        st.builds(lambda n, v: tag(n, 1) + v, numbers, st.binary(min_size=8, max_size=8)),
        st.builds(lambda n, v, p: tag(n, 2) + sized(v, p), numbers, st.binary(max_size=9), PADDING),
        st.builds(lambda n, v: tag(n, 5) + v, numbers, st.binary(min_size=4, max_size=4)),
    ]
    if depth:
        inner = st.lists(unknown_fields(depth - 1), max_size=2).map(b"".join)
        kinds.append(st.builds(lambda n, v: tag(n, 3) + v + tag(n, 4), numbers, inner))
    return st.one_of(kinds)


def _occurrences(field: Any) -> st.SearchStrategy[bytes]:
    """One occurrence of a field: a value, a run of values, or a value of a wire type not its own."""
    wire_type, values = _values(field)
    number = field.number
    one = st.builds(lambda v, p: tag(number, wire_type, p) + v, values, PADDING)
    stray = st.builds(lambda v: tag(number, (wire_type + 1) % 2) + v, _stray(wire_type))
    found = [one, one, one, one, stray]
    if field.containing_type.GetOptions().map_entry:
        found.remove(stray)
    if field.is_repeated and wire_type != 2:
        runs = st.lists(values, max_size=4).map(b"".join)
        found.append(st.builds(lambda v, p: tag(number, 2, p) + sized(v, p), runs, PADDING))
    return st.one_of(found)


def _stray(wire_type: int) -> st.SearchStrategy[bytes]:
    """A value of wire type 1 in place of 0, 0 in place of 1 and 5, and 1 in place of 2."""
    return st.binary(min_size=8, max_size=8) if wire_type in (0, 2) else UINT64.map(varint)


def _values(field: Any) -> tuple[int, st.SearchStrategy[bytes]]:
    """The wire type of a field, and values in wire form."""
    if field.message_type is not None:
        return 2, st.builds(sized, _bodies(field.message_type), PADDING)
    if field.type == FieldDescriptor.TYPE_STRING:
        return 2, st.builds(lambda v, p: sized(v.encode(), p), SCALARS[field.type], PADDING)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return 2, st.builds(sized, SCALARS[field.type], PADDING)
    if field.type in FIXED:
        layout = struct.Struct(FIXED[field.type])
        return 5 if layout.size == 4 else 1, SCALARS[field.type].map(layout.pack)
    # Whatever the type, any 64 bits may come, and the type says what is cut off.
    return 0, st.builds(varint, INT32 | INT64 | UINT32 | UINT64, PADDING)


def drops_entries(case: Case, wire: bytes) -> bool:
    """Whether Google leaves out entries of maps, as it does if they have unknown fields in them.

    The definition of maps says that an entry is a message like any other, and so we keep it.
    """
    return _any_dropped_entry(case.stock.FromString(wire))


def _any_dropped_entry(message: Any) -> bool:
    maps = {
        field.number
        for field in message.DESCRIPTOR.fields
        if field.message_type is not None and field.message_type.GetOptions().map_entry
    }
    if any(one.field_number in maps for one in UnknownFieldSet(message)):
        return True
    return any(_any_dropped_entry(inner) for inner in _submessages(message))


def _bodies(descriptor: Any) -> st.SearchStrategy[bytes]:
    times = {
        "google.protobuf.Timestamp": (-62_135_596_800, 253_402_300_799, 0),
        "google.protobuf.Duration": (0, 315_576_000_000, 0),
    }
    if descriptor.full_name not in times:
        return st.deferred(lambda: wires(descriptor))
    low, high, first = times[descriptor.full_name]
    seconds = st.builds(lambda v, p: tag(1, 0, p) + varint(v, p), st.integers(low, high), PADDING)
    nanos = st.integers(first, 999_999_999).map(lambda v: tag(2, 0) + varint(v))
    return st.lists(seconds | nanos | unknown_fields(), max_size=3).map(b"".join)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """The bytes with something done to them."""
    wire = bytearray(whole)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(wire)))
        match draw(st.sampled_from(["cut", "set", "flip", "insert", "delete", "repeat"])):
            case "cut":
                del wire[at:]
            case "set" if at < len(wire):
                wire[at] = draw(st.sampled_from([0, 1, 2, 3, 4, 7, 10, 127, 128, 255]))
            case "flip" if at < len(wire):
                wire[at] ^= 1 << draw(st.integers(0, 7))
            case "insert":
                wire[at:at] = draw(st.binary(min_size=1, max_size=3))
            case "delete":
                del wire[at : at + draw(st.integers(1, 3))]
            case "repeat":
                wire += wire[at : at + 40]
            case _:
                pass
    return bytes(wire)


def read_by_google(case: Case, wire: bytes) -> bytes | None:
    """What the bytes mean, as deterministic bytes without what we don't keep; None: nothing."""
    try:
        message = case.stock.FromString(wire)
    except DecodeError:
        return None
    message.DiscardUnknownFields()
    _reduce(message)
    canonical: bytes = message.SerializeToString(deterministic=True)
    return canonical


def has_bad_time(case: Case, wire: bytes) -> bool:
    """Whether a Timestamp or Duration breaks the bounds that its definition gives."""
    return _any_bad_time(case.stock.FromString(wire))


def _submessages(message: Any) -> list[Any]:
    found = []
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            found += [item for item in value.values() if hasattr(item, "ListFields")]
        else:
            found += list(value) if field.is_repeated else [value]
    return found


def _reduce(message: Any) -> None:
    """Cuts times to microseconds, as Python has them, and makes all NaN one."""
    name = message.DESCRIPTOR.full_name
    if name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        message.nanos = int(math.copysign(abs(message.nanos) // 1000 * 1000, message.nanos))
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_FLOAT and not field.is_repeated and value != value:
            setattr(message, field.name, math.nan)
        elif field.type == FieldDescriptor.TYPE_FLOAT and field.is_repeated:
            value[:] = [math.nan if item != item else item for item in value]
    for inner in _submessages(message):
        _reduce(inner)


def _any_bad_time(message: Any) -> bool:
    match message.DESCRIPTOR.full_name:
        case "google.protobuf.Timestamp":
            inside = -62_135_596_800 <= message.seconds <= 253_402_300_799
            return not inside or not 0 <= message.nanos <= 999_999_999
        case "google.protobuf.Duration":
            inside = abs(message.seconds) <= 315_576_000_000 and abs(message.nanos) <= 999_999_999
            return not inside or message.seconds * message.nanos < 0
    return any(_any_bad_time(inner) for inner in _submessages(message))
