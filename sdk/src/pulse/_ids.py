"""Ids made by the caller: they make a repeated submit harmless."""

import os
import time
from uuid import UUID

# Fills the two fixed fields of a uuidv7: version 7 and variant 2.
_FIXED = 0x7000_8000_0000_0000_0000
_RANDOM = 0x0FFF_3FFF_FFFF_FFFF_FFFF


def new_id() -> str:
    """A uuidv7: its order is that of time, so that new rows land side by side in the primary key."""
    return new_ids(1)[0]


def new_ids(count: int) -> list[str]:
    """Many at once: one read of the clock and one of the system's chance."""
    head = time.time_ns() // 1_000_000 << 80
    chance = os.urandom(10 * count)
    from_bytes = int.from_bytes
    ids = []
    for start in range(0, 10 * count, 10):
        text = f"{head | from_bytes(chance[start : start + 10], 'big') & _RANDOM | _FIXED:032x}"
        ids.append(f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}")
    return ids


def named_id(kind: str, name: str) -> str:
    """Always the same id for the same name: the key of what a program declares at every start."""
    return str(UUID(bytes=_sha1(f"pulse:{kind}:{name}"), version=5))


def _sha1(text: str) -> bytes:
    from hashlib import sha1

    return sha1(text.encode(), usedforsecurity=False).digest()[:16]
