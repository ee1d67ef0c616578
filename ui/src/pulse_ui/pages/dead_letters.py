"""The dead letters, alike ones together."""

import asyncio
from collections.abc import Sequence

from starlette.responses import Response

from pulse import ErrorGroup, JobStatus
from pulse_ui.frame import load_frame
from pulse_ui.job_query import JobQuery
from pulse_ui.visit import Visit

# What the server writes for a number or an id, which differ within a group.
VARIABLE = "#"


async def show(visit: Visit) -> Response:
    """GET /dead-letters"""
    topic = visit.request.query_params.get("topic", "")
    everything = JobQuery({"status": [JobStatus.DEAD_LETTERED.lower()]} | ({"topic": [topic]} if topic else {}))
    frame, count, groups = await asyncio.gather(
        load_frame(visit.client),
        visit.client.count_jobs(**everything.conditions),
        visit.client.errors(topic=topic or None),
    )
    return visit.render(
        "dead_letters.html",
        frame,
        topic=topic,
        count=count,
        everything=everything,
        groups=[(group, find_group(group)) for group in groups],
    )


def find_group(group: ErrorGroup) -> JobQuery:
    """The filter for a group: its topic, and the longest part of its error that is the same in all of them."""
    texts = {"status": [JobStatus.DEAD_LETTERED.lower()], "topic": [group.topic]}
    part = _longest(group.summary.split(VARIABLE))
    return JobQuery(texts | ({"error": [part]} if part else {}))


def _longest(parts: Sequence[str]) -> str:
    return max(parts, key=len)
