"""Ids made by the caller: they make a repeated submit harmless."""

import os
import time
from uuid import UUID


def new_id() -> str:
    """A uuidv7: in the order of time, so that new rows land side by side in the primary key; 72 bits are random."""
    return new_ids(1)[0]


def new_ids(count: int) -> list[str]:
    """Many at once: one read of the clock and one of the system's chance."""
    moment = f"{time.time_ns() // 1_000_000:012x}"
    head = f"{moment[:8]}-{moment[8:]}-7"
    chance = os.urandom(9 * count).hex()
    return [
        f"{head}{chance[at : at + 3]}-8{chance[at + 3 : at + 6]}-{chance[at + 6 : at + 18]}"
        for at in range(0, 18 * count, 18)
    ]


def named_id(kind: str, name: str) -> str:
    """Always the same id for the same name: the key of what a program declares at every start."""
    return str(UUID(bytes=_sha1(f"pulse:{kind}:{name}"), version=5))


def _sha1(text: str) -> bytes:
    from hashlib import sha1

    return sha1(text.encode(), usedforsecurity=False).digest()[:16]
