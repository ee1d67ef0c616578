"""Timestamp and Duration on the wire, datetime and timedelta in Python.

Python counts microseconds, the wire nanoseconds: what is below one is cut off towards zero.

The times of a queue come in runs: a transaction stamps all its jobs alike, and leases and timeouts
are few. So the last ones are remembered, in both directions; a hit costs a tenth of the arithmetic.
Moments that differ still share their second, whose five bytes are most of the work. The memos are
cleared when full, and hold nothing but immutable values.
"""

from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import TypeVar

from ._errors import CodecError, FieldError, truncated
from ._read import next_known, read_int32, read_int64, read_tag, read_uint64
from ._write import BYTES, write_int64

K = TypeVar("K")
V = TypeVar("V")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MEMO_LIMIT = 1024

# Wire form of the fields, without length, to value.
TIMESTAMPS: dict[bytes, datetime] = {}
DURATIONS: dict[bytes, timedelta] = {}

# Value to wire form, with the length in front. A moment is known by its distance from EPOCH:
# datetimes of one zone compare equal on both sides of a clock change.
TIMESTAMPS_OUT: dict[timedelta, bytes] = {}
DURATIONS_OUT: dict[timedelta, bytes] = {}

# Length, `seconds` of six bytes, and `nanos` of six or, below 2**28, of five.
_USUAL = Struct("B6s6B")
_SHORTER = Struct("B6s5B")

_FIELDS = frozenset((0x08, 0x10))
_MAX_NANOS = 999_999_999

# The bounds that the definitions of the two types give.
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_LONGEST = 315_576_000_000

# Up to here, the year 2106, a float is within a quarter of a microsecond, and fromtimestamp rounds
# it to the right one. It is the quickest way to a datetime; on Windows it takes nothing negative.
_EXACT = 1 << 32

# The field `seconds` alone, for the years from 1978 on, in which it has six bytes.
_SECONDS: dict[bytes, int] = {}
_SECONDS_OUT: dict[int, bytes] = {}
_USUAL_SECONDS = range(1 << 28, _EXACT)


def read_timestamp(data: bytes, pos: int, stop: int, into: datetime | None = None) -> datetime:
    """A Timestamp between two positions, merged into an earlier occurrence of the field."""
    if into is not None:
        return _datetime(*_read_fields(data, pos, stop, *_split(into - EPOCH)))
    known = _SECONDS.get(data[pos : pos + 6])
    if known is not None and stop - pos > 7 and data[pos + 6] == 0x10:
        nanos, after = read_uint64(data, pos + 7)
        if after == stop and nanos <= _MAX_NANOS:
            value = datetime.fromtimestamp(known + nanos // 1000 / 1e6, UTC)
            return _remember(TIMESTAMPS, data[pos:stop], value)
    seconds, nanos = _read_fields(data, pos, stop, 0, 0)
    value = _datetime(seconds, nanos)
    if seconds in _USUAL_SECONDS:
        _remember(_SECONDS, write_int64(b"\x08", seconds), seconds)
    return _remember(TIMESTAMPS, data[pos:stop], value)


def read_duration(data: bytes, pos: int, stop: int, into: timedelta | None = None) -> timedelta:
    """A Duration between two positions, merged into an earlier occurrence of the field."""
    if into is not None:
        return _timedelta(*_read_fields(data, pos, stop, *_split_signed(into)))
    value = _timedelta(*_read_fields(data, pos, stop, 0, 0))
    return _remember(DURATIONS, data[pos:stop], value)


def write_timestamp(value: datetime) -> bytes:
    """Length and fields of a Timestamp. A datetime without zone is no moment: TypeError."""
    offset = value - EPOCH
    seconds, nanos = _split(offset)
    head = _SECONDS_OUT.get(seconds)
    if head is not None and nanos >= 1 << 21:
        b0, b1, b2 = nanos & 127 | 128, nanos >> 7 & 127 | 128, nanos >> 14 & 127 | 128
        if nanos >= 1 << 28:
            wire = _USUAL.pack(12, head, 0x10, b0, b1, b2, nanos >> 21 & 127 | 128, nanos >> 28)
        else:
            wire = _SHORTER.pack(11, head, 0x10, b0, b1, b2, nanos >> 21)
    else:
        if not _FIRST_SECOND <= seconds <= _LAST_SECOND:
            raise CodecError("datetime out of range for Timestamp")
        wire = _write_fields(seconds, nanos)
        if seconds in _USUAL_SECONDS:
            _remember(_SECONDS_OUT, seconds, wire[1:7])
    return _remember(TIMESTAMPS_OUT, offset, wire)


def write_duration(value: timedelta) -> bytes:
    """Length and fields of a Duration; seconds and nanos have the same sign."""
    seconds, nanos = _split_signed(value)
    if not -_LONGEST <= seconds <= _LONGEST:
        raise CodecError("timedelta out of range for Duration")
    return _remember(DURATIONS_OUT, value, _write_fields(seconds, nanos))


def _remember(memo: dict[K, V], key: K, value: V) -> V:
    if len(memo) >= MEMO_LIMIT:
        memo.clear()
    memo[key] = value
    return value


def _datetime(seconds: int, nanos: int) -> datetime:
    if not _FIRST_SECOND <= seconds <= _LAST_SECOND or not 0 <= nanos <= _MAX_NANOS:
        raise FieldError("Timestamp out of range")
    if 0 <= seconds < _EXACT:
        return datetime.fromtimestamp(seconds + nanos // 1000 / 1e6, UTC)
    return EPOCH + timedelta(0, seconds, nanos // 1000)


def _timedelta(seconds: int, nanos: int) -> timedelta:
    if not -_LONGEST <= seconds <= _LONGEST or not -_MAX_NANOS <= nanos <= _MAX_NANOS:
        raise FieldError("Duration out of range")
    if seconds * nanos < 0:
        raise FieldError("Duration of two signs")
    # Integer division rounds down, and we cut towards zero.
    return timedelta(0, seconds, nanos // 1000 if nanos >= 0 else -(-nanos // 1000))


def _split(value: timedelta) -> tuple[int, int]:
    """Whole seconds, rounded down, and the nanoseconds above them."""
    return value.days * 86400 + value.seconds, value.microseconds * 1000


def _split_signed(value: timedelta) -> tuple[int, int]:
    """Whole seconds and nanoseconds, both with the sign of the value."""
    if value.days >= 0:
        return _split(value)
    seconds, nanos = _split(-value)
    return -seconds, -nanos


def _read_fields(data: bytes, pos: int, stop: int, seconds: int, nanos: int) -> tuple[int, int]:
    """The fields of either type, on top of those given."""
    while pos < stop:
        tag = data[pos]
        pos += 1
        if tag not in _FIELDS:
            if tag > 127:
                tag, pos = read_tag(data, pos - 1)
            tag, pos = next_known(data, pos, stop, tag, _FIELDS)
            if tag < 0:
                break
        if tag == 0x08:
            seconds, pos = read_int64(data, pos)
        else:
            nanos, pos = read_int32(data, pos)
    if pos > stop:
        raise truncated()
    return seconds, nanos


def _write_fields(seconds: int, nanos: int) -> bytes:
    """Length and fields of either type."""
    wire = b""
    if seconds:
        wire = write_int64(b"\x08", seconds)
    if nanos:
        wire += write_int64(b"\x10", nanos)
    return BYTES[len(wire)] + wire
