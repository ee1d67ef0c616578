"""Values as people type them: durations, moments, ids, statuses, JSON. Each mistake is told with a right example."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import click

STATUSES = ("pending", "running", "completed", "retrying", "dead_lettered", "canceled")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")


def parse_duration(text: str) -> timedelta | None:
    """`500ms`, `30s`, `10m`, `12h`, `7d`, or seconds; None if it is none of them."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        return None
    try:
        return timedelta(seconds=float(found[1]) * _UNITS[found[2] or "s"])
    except OverflowError:
        return None


def parse_moment(text: str) -> datetime:
    """A moment in ISO 8601 that names its zone, or ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} names no time zone: write {text}Z for UTC, or add one such as +02:00")
    return moment


class Duration(click.ParamType[timedelta]):
    """A span of time."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        duration = parse_duration(value)
        if duration is None:
            self.fail(f"{value!r} is not a duration such as 500ms, 30s, 10m, 12h or 7d", param, ctx)
        return duration


class Moment(click.ParamType[datetime]):
    """A point in time."""

    name = "moment"

    def __init__(self, *, ago: bool = False) -> None:
        # Where one looks back, `2h` is two hours ago.
        self._ago = ago

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            if self._ago and (duration := parse_duration(value)) is not None:
                return datetime.now(UTC) - duration
            return parse_moment(value)
        except (ValueError, OverflowError) as error:
            if "time zone" in str(error):
                self.fail(str(error), param, ctx)
            ago = ", or a time ago such as 2h" if self._ago else ""
            self.fail(f"{value!r} is not a moment such as 2026-01-31T09:00Z{ago}", param, ctx)


class Id(click.ParamType[str]):
    """The uuid of a job, a worker or a schedule."""

    def __init__(self, name: str) -> None:
        self.name = name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return str(UUID(value))
        except ValueError:
            where = f"pulse {self.name}s list"
            self.fail(f"{value!r} is not the id of a {self.name}, which is a uuid; find it with `{where}`", param, ctx)


class Status(click.ParamType[str]):
    """A status of jobs, or several with commas between them."""

    name = "status"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        names = [name.strip().lower().replace("-", "_") for name in value.split(",")]
        for name in names:
            if name not in STATUSES:
                self.fail(f"{name!r} is no status; there are {', '.join(STATUSES)}", param, ctx)
        return ",".join(names)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list["click.shell_completion.CompletionItem[Any]"]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(name) for name in STATUSES if name.startswith(incomplete.lower())]


class Json(click.ParamType[Any]):
    """A JSON value."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return read_json(value)
        except ValueError as error:
            self.fail(f"not JSON: {error}; put it in single quotes", param, ctx)


def read_json(text: str) -> Any:
    """The value, or ValueError with the place of the mistake. Only what JSON is: no NaN, no endless number."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_read_float)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in text.strip() else ""
        raise ValueError(f"{error.msg} at {line}column {error.colno}") from None
    except RecursionError:
        raise ValueError("nested too deep") from None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _read_float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:20]} is out of range")
    return number


def join_statuses(given: tuple[str, ...]) -> list[str]:
    """What several --status options name together."""
    return [name.upper() for each in given for name in each.split(",")]
