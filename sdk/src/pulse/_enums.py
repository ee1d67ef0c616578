"""The enums of the contract as strings: they print, compare and travel as JSON without help."""

from enum import IntEnum, StrEnum
from typing import TypeVar

from pulse._errors import InvalidArgument

Member = TypeVar("Member", bound=StrEnum)
WireMember = TypeVar("WireMember", bound=IntEnum)


class JobStatus(StrEnum):
    """Where a job is in its life."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    RETRYING = "RETRYING"
    DEAD_LETTERED = "DEAD_LETTERED"
    CANCELED = "CANCELED"

    @property
    def finished(self) -> bool:
        """Whether it is for good, unless somebody retries it."""
        return self in (JobStatus.COMPLETED, JobStatus.DEAD_LETTERED, JobStatus.CANCELED)


class BackoffKind(StrEnum):
    """How the wait before the next attempt grows."""

    QUADRATIC = "QUADRATIC"
    FIXED = "FIXED"
    LINEAR = "LINEAR"
    EXPONENTIAL = "EXPONENTIAL"


class HoldReason(StrEnum):
    """What keeps a job where it is."""

    FINISHED = "FINISHED"
    RUNNING = "RUNNING"
    LATER = "LATER"
    PAUSED = "PAUSED"
    NO_WORKER = "NO_WORKER"
    WORKERS_BUSY = "WORKERS_BUSY"
    NONE = "NONE"
    # Something that this SDK is too old to know.
    UNKNOWN = "UNKNOWN"


class MisfirePolicy(StrEnum):
    """What happens to occurrences of a schedule that passed while no server was there."""

    SKIP = "SKIP"
    ONCE = "ONCE"
    ALL = "ALL"


def parse_member(kind: type[Member], name: str, value: str) -> Member:
    """The member of that name, in whatever case, or InvalidArgument with those there are."""
    try:
        return kind(value.upper())
    except (ValueError, AttributeError):
        known = ", ".join(member.lower() for member in kind)
        raise InvalidArgument(f"{name}: {value!r} is none of {known}") from None
