"""The form of a schedule: from a schedule to fields, and from fields to the SDK's arguments or the mistakes in them."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

import pulse
from pulse import MisfirePolicy, ScheduleInfo
from pulse_ui.forms import Form
from pulse_ui.job_query import UNITS, read_moment, read_priority
from pulse_ui.payloads import read_text

JSON = "application/json"
KINDS = {"cron": "By cron", "every": "In a rhythm", "at": "Once"}
DEFAULTS = {
    "name": "",
    "topic": "",
    "payload": "null",
    "kind": "cron",
    "cron": "",
    "tz": "UTC",
    "every": "",
    "start": "",
    "at": "",
    "priority": "0",
    "max_attempts": "5",
    "timeout": "",
    "tags": "",
    "misfire": "once",
    "misfire_limit": "100",
}
# What the server says about a field, by its name there, and the field here.
SERVER_FIELDS = {
    "payload": "payload",
    "name": "name",
    "topic": "topic",
    "expression": "cron",
    "cron": "cron",
    "timezone": "tz",
    "interval": "every",
    "every": "every",
    "start": "start",
    "at": "at",
    "max_attempts": "max_attempts",
    "priority": "priority",
    "timeout": "timeout",
    "tags": "tags",
    "misfire_limit": "misfire_limit",
}

Value = TypeVar("Value")


@dataclass(frozen=True)
class Draft:
    """A definition that can be sent."""

    topic: str
    payload: bytes
    timing: pulse.Timing
    name: str
    misfire: MisfirePolicy
    misfire_limit: int
    content_type: str
    options: pulse.TaskOptions


def fill(schedule: ScheduleInfo) -> dict[str, str]:
    """The fields of a schedule that is there."""
    fields = DEFAULTS | {
        "name": schedule.name,
        "topic": schedule.topic,
        "payload": read_text(schedule.payload) or "",
        "priority": str(schedule.options.priority),
        "max_attempts": str(schedule.options.max_attempts),
        "timeout": _write_duration(schedule.options.timeout),
        "tags": ", ".join(schedule.options.tags),
        "misfire": schedule.misfire_policy.lower(),
        "misfire_limit": str(schedule.misfire_limit or 100),
    }
    match schedule.timing:
        case pulse.Cron(expression, tz):
            return fields | {"kind": "cron", "cron": expression, "tz": tz}
        case pulse.Every(interval, start):
            span = interval if isinstance(interval, timedelta) else timedelta(seconds=interval)
            return fields | {
                "kind": "every",
                "every": _write_duration(span),
                "start": _write_moment(start) if start else "",
            }
        case pulse.At(moment):
            return fields | {"kind": "at", "at": _write_moment(moment)}


class ScheduleForm:
    """What was typed, and what is wrong with it: `errors` by the name of the field."""

    def __init__(self, fields: Mapping[str, str], original: ScheduleInfo | None = None) -> None:
        self.fields = dict(fields)
        self.errors: dict[str, str] = {}
        self.original = original

    @staticmethod
    def read(form: Form, original: ScheduleInfo | None = None) -> "ScheduleForm":
        """From what a browser posted."""
        texts = {name: form.raw(name) if name == "payload" else form.get(name) for name in DEFAULTS}
        return ScheduleForm(texts, original)

    @property
    def payload_is_binary(self) -> bool:
        """Whether the payload can't be shown in a field, and stays as it is."""
        return self.original is not None and read_text(self.original.payload) is None

    def check(self) -> Draft | None:
        """The definition, or None and the errors."""
        name, topic = (self._take(each, _read_text) for each in ("name", "topic"))
        payload = self._take_payload()
        timing = self._take_timing()
        options = self._take_options()
        misfire = self._take("misfire", _read_misfire)
        limit = self._take("misfire_limit", _read_count)
        if self.errors:
            return None
        assert name and topic and payload is not None and timing and misfire and limit  # noqa: PT018 - one fact
        content_type = self.original.content_type if self.original else JSON
        return Draft(topic, payload, timing, name, misfire, limit, content_type, options)

    def blame(self, error: pulse.PulseError, text: str) -> None:
        """Put what the server said at the field that it is about; at the top where that is not known."""
        if isinstance(error, pulse.AlreadyExists):
            self.errors["name"] = "is taken by another schedule"
            return
        path, separator, rest = text.partition(":")
        field = SERVER_FIELDS.get(path.strip().rpartition(".")[2]) if separator else None
        self.errors[field or ""] = rest.strip() if field else text

    def _take(self, field: str, read: Callable[[str], Value]) -> Value | None:
        try:
            return read(self.fields[field])
        except ValueError as error:
            self.errors[field] = str(error)
            return None

    def _take_payload(self) -> bytes | None:
        original = self.original
        if original is not None:
            text = read_text(original.payload)
            # A browser changes the ends of lines: what was not touched stays byte for byte.
            if text is None or text.replace("\r\n", "\n") == self.fields["payload"]:
                return original.payload
            if original.content_type != JSON:
                return self.fields["payload"].encode()
        return self._take("payload", _read_json_text)

    def _take_timing(self) -> pulse.Timing | None:
        match self.fields["kind"]:
            case "cron":
                expression, tz = self._take("cron", _read_text), self._take("tz", _read_text)
                return pulse.Cron(expression, tz) if expression and tz else None
            case "every":
                interval = self._take("every", _read_duration)
                start = self._take("start", read_moment) if self.fields["start"] else None
                return pulse.Every(interval, start) if interval else None
            case "at":
                moment: datetime | None = self._take("at", read_moment)
                return pulse.At(moment) if moment else None
            case other:
                self.errors["kind"] = f"{other[:40]!r} is none of {', '.join(KINDS)}"
                return None

    def _take_options(self) -> pulse.TaskOptions:
        """Those of the form over those that a schedule has and the form does not show."""
        kept: Any = {}
        if self.original is not None:
            has = self.original.options
            kept = {"backoff": has.backoff, "metadata": has.metadata, "lease": has.lease, "unique": has.unique}
        given = {
            "priority": self._take("priority", read_priority),
            "max_attempts": self._take("max_attempts", _read_count),
            "timeout": self._take("timeout", _read_duration) if self.fields["timeout"] else None,
            "tags": [tag.strip() for tag in self.fields["tags"].split(",") if tag.strip()],
        }
        set_ones = {name: value for name, value in (kept | given).items() if value is not None}
        return cast(pulse.TaskOptions, set_ones)


def _read_text(text: str) -> str:
    if not text:
        raise ValueError("is needed")
    return text


def _read_json_text(text: str) -> bytes:
    """The text as it is: only checked, never written anew."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise ValueError("is nested too deep") from None
    return text.encode()


def _read_duration(text: str) -> timedelta:
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)\s*([smhd])?", text)
    if match is None or float(match[1]) == 0:
        raise ValueError(f"{text[:40]!r} is not a duration such as 30s, 10m, 12h or 7d")
    try:
        return timedelta(seconds=float(match[1]) * UNITS[match[2] or "s"])
    except OverflowError:
        raise ValueError("is longer than can be counted") from None


def _write_duration(span: timedelta | None) -> str:
    if span is None:
        return ""
    seconds = span.total_seconds()
    for unit, size in sorted(UNITS.items(), key=lambda pair: -pair[1]):
        if seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds}s"


def _write_moment(moment: datetime) -> str:
    """To the last digit: an edit must not move it."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _read_count(text: str) -> int:
    if not re.fullmatch(r"\d{1,4}", text) or not 1 <= int(text) <= 1000:
        raise ValueError(f"{text[:40]!r} is not a whole number from 1 to 1000")
    return int(text)


def _read_misfire(text: str) -> MisfirePolicy:
    try:
        return MisfirePolicy(text.upper())
    except ValueError:
        raise ValueError(f"{text[:40]!r} is none of skip, once, all") from None
