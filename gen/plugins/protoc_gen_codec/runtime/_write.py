"""What the encoders share: numbers in wire form, and the search for the field that is to blame.

Writers take a field's tag in wire form, empty inside packed lists, and return tag and value.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Any

from ._errors import CodecError

Encode = Callable[[Any], bytes]

# What a value of the wrong type or range raises inside an encoder, one way or another.
WRITE_ERRORS = (
    AttributeError,
    IndexError,
    KeyError,
    OverflowError,
    TypeError,
    ValueError,
    struct.error,
)

pack_fixed32 = struct.Struct("<I").pack
pack_fixed64 = struct.Struct("<Q").pack
pack_sfixed32 = struct.Struct("<i").pack
pack_sfixed64 = struct.Struct("<q").pack
pack_float = struct.Struct("<f").pack
pack_double = struct.Struct("<d").pack


@cache
def prefixes(tag: bytes) -> list[bytes]:
    """The tag followed by one byte, for every byte: the head of most fields without arithmetic.

    Entries from 128 have the continuation bit, and so are the head of two-byte lengths.
    """
    return [tag + bytes((byte,)) for byte in range(256)]


BYTES = prefixes(b"")


def write_uint64(tag: bytes, value: int) -> bytes:
    """A varint of up to 64 bits."""
    if not 0 <= value <= 0xFFFFFFFFFFFFFFFF:
        raise CodecError(f"{value} is out of range for uint64")
    parts = [tag]
    while value > 127:
        parts.append(BYTES[value & 127 | 128])
        value >>= 7
    parts.append(BYTES[value])
    return b"".join(parts)


def write_uint32(tag: bytes, value: int) -> bytes:
    """A varint of up to 32 bits."""
    if not 0 <= value <= 0xFFFFFFFF:
        raise CodecError(f"{value} is out of range for uint32")
    return write_uint64(tag, value)


def write_int64(tag: bytes, value: int) -> bytes:
    """A signed varint of up to 64 bits; a negative one has ten bytes."""
    if not -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        raise CodecError(f"{value} is out of range for int64")
    return write_uint64(tag, value & 0xFFFFFFFFFFFFFFFF)


def write_int32(tag: bytes, value: int) -> bytes:
    """A signed varint of up to 32 bits; a negative one has ten bytes all the same."""
    if not -0x80000000 <= value <= 0x7FFFFFFF:
        raise CodecError(f"{value} is out of range for int32")
    return write_uint64(tag, value & 0xFFFFFFFFFFFFFFFF)


def write_sint64(tag: bytes, value: int) -> bytes:
    """A zigzag varint of up to 64 bits."""
    if not -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        raise CodecError(f"{value} is out of range for sint64")
    return write_uint64(tag, value << 1 if value >= 0 else ~(value << 1))


def write_sint32(tag: bytes, value: int) -> bytes:
    """A zigzag varint of up to 32 bits."""
    if not -0x80000000 <= value <= 0x7FFFFFFF:
        raise CodecError(f"{value} is out of range for sint32")
    return write_sint64(tag, value)


def write_bool(tag: bytes, value: bool) -> bytes:
    """One byte. Only a bool will do: 2 or "no" would be written as something else than meant."""
    if value is not True and value is not False:
        raise TypeError("expected bool")
    return tag + (b"\x01" if value else b"\x00")


def as_bytes(value: object) -> bytes:
    """The value of a bytes field. Other buffers are refused: their len() need not count bytes."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("expected bytes")
    return bytes(value)


def as_list(value: object) -> list[Any]:
    """The value of a repeated field. A lone string is a sequence too, and never what was meant."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise TypeError("expected list")
    return list(value)


def expect(message: object, cls: type[object]) -> None:
    """Refuses what is not a message of the class; instances of subclasses pass."""
    if not isinstance(message, cls):
        raise TypeError(f"expected {cls.__name__}")


def refused(message: Any, encode: Encode, error: Exception) -> CodecError:
    """Names the field because of which `encode` refused the message.

    It takes the message apart and lets the encoder judge the pieces, so that encoders need carry
    no names and no checks along. Slow, and only for messages that can't be sent anyway.
    """
    path, culprit, cause = _culprit(message, encode, error)
    if isinstance(cause, UnicodeEncodeError):
        reason = "text that has no UTF-8 form"
    elif isinstance(cause, CodecError):
        reason = str(cause)
    else:
        reason = f"wrong value of type {type(culprit).__name__}: {cause}"
    return CodecError(f"field {path}: {reason}" if path else reason)


def _culprit(value: Any, encode: Encode, error: Exception) -> tuple[str, Any, Exception]:
    """The path to the smallest piece of `value` that `encode` refuses, the piece, and why."""
    for path, piece, encode_piece in _pieces(value, encode):
        try:
            encode_piece(piece)
        except WRITE_ERRORS as refusal:
            rest, culprit, cause = _culprit(piece, encode_piece, refusal)
            return f"{path}.{rest}" if rest else path, culprit, cause
    return "", value, error


def _pieces(message: Any, encode: Encode) -> Iterator[tuple[str, Any, Encode]]:
    """The values in a message, each with a function that encodes the message with it alone."""
    if not is_dataclass(message) or not _accepts_empty(encode, type(message)):
        return
    for field in fields(message):
        value = getattr(message, field.name, None)
        encode_field = partial(_encode_field, encode, type(message), field.name)
        if field.default_factory is list and isinstance(value, list | tuple):
            for index, item in enumerate(value):
                yield f"{field.name}[{index}]", item, partial(_encode_element, encode_field)
        elif field.default_factory is dict and isinstance(value, dict):
            for key, item in value.items():
                yield f"{field.name}[{key!r}]", item, partial(_encode_entry, encode_field, key)
        else:
            yield field.name, value, encode_field


def _accepts_empty(encode: Encode, cls: type[Any]) -> bool:
    """Whether an empty message of the class passes; if not, the class is what is wrong."""
    try:
        encode(cls())
    except WRITE_ERRORS:
        return False
    return True


def _encode_field(encode: Encode, cls: type[Any], name: str, value: Any) -> bytes:
    message = cls()
    setattr(message, name, value)
    return encode(message)


def _encode_element(encode: Encode, value: Any) -> bytes:
    return encode([value])


def _encode_entry(encode: Encode, key: Any, value: Any) -> bytes:
    return encode({key: value})
