"""Which jobs a page is about: the query string, checked, in the SDK's words and back."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from pulse import JobFilter, JobStatus
from pulse_ui.problems import BadField

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
INT32 = range(-(2**31) + 1, 2**31)


@dataclass(frozen=True)
class Field:
    """One filter: its name in the address, its name in the SDK, and how its text is read."""

    name: str
    condition: str
    label: str
    read: Callable[[str], Any]
    hint: str = ""
    several: bool = False


def _read_status(text: str) -> JobStatus:
    try:
        return JobStatus(text.strip().upper())
    except ValueError:
        raise ValueError(f"{text!r} is none of {', '.join(JobStatus).lower()}") from None


def _text_up_to(longest: int) -> Callable[[str], str]:
    """Reads texts of so many bytes: the server's rules, told by the field's own name."""

    def read(text: str) -> str:
        if "\0" in text:
            raise ValueError("contains a NUL character")
        if len(text.encode()) > longest:
            raise ValueError(f"is longer than {longest} bytes")
        return text

    return read


def read_id(text: str) -> str:
    """The uuid of a job, worker or schedule, as the server writes it."""
    try:
        return str(UUID(text.strip()))
    except ValueError:
        raise ValueError(f"{text!r} is not a uuid") from None


def read_priority(text: str) -> int:
    """A whole number of 32 bits."""
    try:
        value = int(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not a whole number") from None
    if value not in INT32:
        raise ValueError(f"{text[:40]} is out of range: priorities are 32-bit numbers")
    return value


def read_moment(text: str) -> datetime:
    """A moment such as `2026-01-31T09:00`, UTC unless it names a zone, or a time ago such as `2h`."""
    text = text.strip()
    ago = re.fullmatch(r"(\d{1,6})\s*([smhd])", text)
    if ago:
        return datetime.now(UTC) - timedelta(seconds=int(ago[1]) * UNITS[ago[2]])
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a moment such as 2026-01-31T09:00 (UTC) or a time ago such as 2h") from None


def _read_json(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f'{text[:80]!r} is not JSON such as {{"customer": "ada"}}') from None
    if value is None:
        # The SDK takes None for a condition that is not set, and a bulk step would be about more than was meant.
        raise ValueError("null can't be looked for")
    return value


FIELDS = (
    Field("status", "status", "Status", _read_status, several=True),
    Field("topic", "topic", "Topic", _text_up_to(255), several=True),
    Field("id", "job_ids", "Job id", read_id, "uuid", several=True),
    Field("tag", "tags", "Tag", _text_up_to(100), several=True),
    Field("error", "error_contains", "Error contains", _text_up_to(1000), "text, in any case"),
    Field("payload", "payload_contains", "Payload contains", _read_json, '{"customer": "ada"}'),
    Field("worker", "worker_id", "Held by worker", read_id, "uuid"),
    Field("schedule", "schedule_id", "Made by schedule", read_id, "uuid"),
    Field("after", "submitted_after", "Submitted after", read_moment, "2h or 2026-01-31T09:00"),
    Field("before", "submitted_before", "Submitted before", read_moment, "10m or 2026-01-31T10:00"),
    Field("min_priority", "min_priority", "Lowest priority", read_priority, "0"),
    Field("max_priority", "max_priority", "Highest priority", read_priority, "10"),
)
BY_NAME = {field.name: field for field in FIELDS}


class JobQuery:
    """The filters of an address, as texts and as conditions."""

    def __init__(self, texts: dict[str, list[str]]) -> None:
        self._texts = texts
        self.conditions = JobFilter()
        for name, values in texts.items():
            field = BY_NAME[name]
            try:
                read = [field.read(value) for value in values]
            except ValueError as error:
                raise BadField(name, str(error)) from None
            if len(read) > 1 and not field.several:
                raise BadField(name, "stands there twice")
            # The names of the SDK's conditions stand in FIELDS.
            self.conditions[field.condition] = read if field.several else read[0]  # type: ignore[literal-required]

    @staticmethod
    def read(pairs: Iterable[tuple[str, str]]) -> "JobQuery":
        """From a query string or a form. Empty fields were left empty; a topic of spaces alone is a topic."""
        texts: dict[str, list[str]] = {}
        for name, value in pairs:
            if name in BY_NAME and value:
                texts.setdefault(name, []).append(value)
        return JobQuery(texts)

    def text(self, name: str) -> str:
        """What a field holds, for its input; several values with spaces cannot be typed, and stay in the address."""
        return self._texts.get(name, [""])[0]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """As they came, for hidden fields."""
        return [(name, value) for name, values in self._texts.items() for value in values]

    @property
    def active(self) -> list[tuple[str, str]]:
        """The filters in words, the status aside."""
        return [(BY_NAME[name].label, value) for name, value in self.pairs if name != "status"]

    @property
    def has_more(self) -> bool:
        """Whether there are filters beyond the three that are always in sight."""
        return not self._texts.keys() <= {"status", "topic", "id", "error"}

    @property
    def cleared(self) -> "JobQuery":
        """The same statuses without filters."""
        return JobQuery({name: values for name, values in self._texts.items() if name == "status"})

    @property
    def statuses(self) -> list[JobStatus]:
        """Those asked for; none: all."""
        return [_read_status(text) for text in self._texts.get("status", [])]

    def with_status(self, *statuses: JobStatus) -> "JobQuery":
        """The same filters, for other statuses."""
        others = {name: values for name, values in self._texts.items() if name != "status"}
        return JobQuery({"status": [status.lower() for status in statuses], **others} if statuses else others)

    def url(self, path: str = "/jobs", **more: str) -> str:
        """An address with these filters."""
        query = urlencode([*self.pairs, *more.items()])
        return f"{path}?{query}" if query else path
