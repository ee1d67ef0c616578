"""Which jobs a list, a count or a bulk step is about."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from pulse._convert import STATUS_TO_WIRE
from pulse._enums import JobStatus, parse_member
from pulse._errors import InvalidArgument
from pulse._options import check_moment, check_names
from pulse_gen.rpc.pulse import v1 as wire


class JobFilter(TypedDict, total=False):
    """Conditions that must all hold; what is left out matches everything."""

    # One status, or any of several.
    status: JobStatus | str | Sequence[JobStatus | str]
    # One topic, or any of several.
    topic: str | Sequence[str]
    # Any of these ids, at most 1,000.
    job_ids: Sequence[str]
    # All of these tags.
    tags: Sequence[str]
    schedule_id: str
    # Held by this worker now.
    worker_id: str
    # The latest error contains this text, in whatever case.
    error_contains: str
    submitted_after: datetime
    submitted_before: datetime
    min_priority: int
    max_priority: int
    # The payload is JSON and contains this value: an object with some of its fields, for instance.
    payload_contains: Any


_NAMES = frozenset(JobFilter.__annotations__)


def write_filter(conditions: Mapping[str, Any]) -> wire.JobFilter:
    """The wire form, or InvalidArgument that names the condition."""
    check_names(conditions, _NAMES)
    given = {name: value for name, value in conditions.items() if value is not None}
    for name in ("submitted_after", "submitted_before"):
        if name in given:
            check_moment(name, given[name])
    return wire.JobFilter(
        statuses=[
            STATUS_TO_WIRE[parse_member(JobStatus, "status", status)] for status in _several(given.get("status", ()))
        ],
        topics=_several(given.get("topic", ())),
        job_ids=_several(given.get("job_ids", ())),
        tags=_several(given.get("tags", ())),
        schedule_id=given.get("schedule_id", ""),
        worker_id=given.get("worker_id", ""),
        error_contains=given.get("error_contains", ""),
        submitted_after=given.get("submitted_after"),
        submitted_before=given.get("submitted_before"),
        min_priority=given.get("min_priority"),
        max_priority=given.get("max_priority"),
        payload_contains=_write_json(given["payload_contains"]) if "payload_contains" in given else "",
    )


def _several(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _write_json(value: Any) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"payload_contains: can't be written as JSON: {error}") from None
