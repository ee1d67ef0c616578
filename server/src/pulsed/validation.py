"""The rules of the contract, checked at the edge: after this, every value fits its column.

Each function returns the checked value or raises InvalidArgument, which names the field.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from pulsed.errors import InvalidArgument

LONGEST = timedelta(days=366)
DAY = timedelta(days=1)
# The driver takes the ends of Python's calendar for infinite, and nothing can be reckoned with that.
EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
LATEST = datetime(9000, 1, 1, tzinfo=UTC)
INT32_MAX = 2**31 - 1
JSON = "application/json"


def check_text(field: str, text: str, *, longest: int, shortest: int = 0) -> str:
    """Text without NUL, of so many bytes. That it is UTF-8 was checked when it was decoded."""
    if "\0" in text:
        raise InvalidArgument(field, "contains a NUL character")
    size = len(text) if text.isascii() else len(text.encode())
    if size < shortest:
        raise InvalidArgument(field, "is empty")
    if size > longest:
        raise InvalidArgument(field, f"is {size} bytes long, at most {longest} are allowed")
    return text


def check_topic(field: str, topic: str) -> str:
    """A topic's name."""
    return check_text(field, topic, longest=255, shortest=1)


def check_duration(
    field: str, value: timedelta | None, *, longest: timedelta, shortest: timedelta = timedelta(0)
) -> timedelta | None:
    """A duration within bounds, or nothing."""
    if value is None:
        return None
    if value < shortest:
        raise InvalidArgument(
            field, f"is {value.total_seconds():g} s, at least {shortest.total_seconds():g} s are needed"
        )
    if value > longest:
        raise InvalidArgument(
            field, f"is {value.total_seconds():g} s, at most {longest.total_seconds():g} s are allowed"
        )
    return value


def check_moment(field: str, value: datetime | None) -> datetime | None:
    """A moment that can be reckoned with, or nothing."""
    if value is not None and not EARLIEST <= value < LATEST:
        raise InvalidArgument(field, f"is {value:%Y-%m-%d}, it must be from {EARLIEST.year} to {LATEST.year}")
    return value


def check_priority(field: str, priority: int) -> int:
    """A priority whose negative is one too."""
    if not -INT32_MAX <= priority <= INT32_MAX:
        raise InvalidArgument(field, f"{priority} is out of range")
    return priority


def check_count(field: str, value: int, *, most: int, default: int) -> int:
    """A number from 1 to `most`; 0 is the default."""
    if value == 0:
        return default
    if not 1 <= value <= most:
        raise InvalidArgument(field, f"is {value}, it must be from 1 to {most}")
    return value


def check_batch(field: str, items: Sequence[object], *, most: int) -> None:
    """A list with something in it, and not too much."""
    if not items:
        raise InvalidArgument(field, "is empty")
    if len(items) > most:
        raise InvalidArgument(field, f"has {len(items)} entries, at most {most} are allowed")


def check_payload(field: str, payload: bytes, content_type: str, *, longest: int) -> bytes:
    """A payload that is not too large and, where it claims to be JSON, is at least text."""
    if len(payload) > longest:
        raise InvalidArgument(field, f"is {len(payload)} bytes long, at most {longest} are allowed")
    if content_type == JSON:
        if 0 in payload:
            raise InvalidArgument(field, f"contains a NUL byte, although it is {JSON}")
        try:
            payload.decode()
        except UnicodeDecodeError:
            raise InvalidArgument(field, f"is not UTF-8, although it is {JSON}") from None
    return payload


def check_content_type(field: str, content_type: str) -> str:
    """A content type, JSON unless given."""
    if not content_type or content_type == JSON:
        return JSON
    return check_text(field, content_type, longest=255)


def check_tags(field: str, tags: Sequence[str]) -> Sequence[str]:
    """Few and short."""
    if len(tags) > 20:
        raise InvalidArgument(field, f"has {len(tags)} entries, at most 20 are allowed")
    for tag in tags:
        check_text(field, tag, longest=100, shortest=1)
    return tags


def check_metadata(field: str, metadata: Mapping[str, str]) -> Mapping[str, str]:
    """Few and short."""
    if len(metadata) > 20:
        raise InvalidArgument(field, f"has {len(metadata)} entries, at most 20 are allowed")
    for key, value in metadata.items():
        check_text(f"{field} key", key, longest=100, shortest=1)
        check_text(f"{field}[{key!r}]", value, longest=1000)
    return metadata


def safe_text(text: str, longest: int) -> str:
    """Text that a worker reports, made to fit: a report must not be refused for the spelling of its error."""
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    encoded = text.encode(errors="replace")
    if len(encoded) <= longest:
        return text
    mark = "\n... cut"
    return encoded[: longest - len(mark)].decode(errors="ignore") + mark
