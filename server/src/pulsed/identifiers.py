"""Ids: made here, or read from a request."""

import os
import time
import uuid

from asyncpg.pgproto import pgproto

from pulsed.errors import InvalidArgument


def new_id() -> uuid.UUID:
    """A uuidv7: its order is that of time, so that new rows land side by side in the primary key."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    high = milliseconds << 16 | 0x7000 | random >> 64 & 0x0FFF
    low = 1 << 63 | random & 0x3FFF_FFFF_FFFF_FFFF
    return uuid.UUID(int=high << 64 | low)


def parse_id(field: str, text: str) -> uuid.UUID:
    """The uuid in a request. The driver's own class parses ten times as fast as the standard one."""
    try:
        return pgproto.UUID(text)
    except ValueError:
        raise InvalidArgument(field, f"{text[:50]!r} is not a uuid") from None
