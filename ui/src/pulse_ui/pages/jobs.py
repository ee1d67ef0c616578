"""The list of jobs: tabs by status, filters, pages."""

import asyncio
from uuid import UUID

from starlette.responses import Response

import pulse
from pulse import JobStatus
from pulse_ui.changes import CHANGES
from pulse_ui.frame import load_frame
from pulse_ui.job_query import FIELDS, JobQuery
from pulse_ui.paging import read_place
from pulse_ui.problems import BadField
from pulse_ui.visit import Visit

PAGE_SIZE = 50
COUNT_PATIENCE = 1.0
MOST_COUNTED = 1000


async def show(visit: Visit) -> Response:
    """GET /jobs"""
    parameters = visit.request.query_params
    if search := parameters.get("q", "").strip():
        return visit.redirect(_search(search))
    query = JobQuery.read(parameters.multi_items())
    place = read_place(parameters)
    tabs = [query.with_status(), *(query.with_status(status) for status in JobStatus)]
    try:
        frame, page, topics, counts = await asyncio.gather(
            load_frame(visit.client),
            visit.client.list_jobs_page(page_size=PAGE_SIZE, page_token=place.cursor, **query.conditions),
            _topic_names(visit),
            asyncio.gather(*(_count(visit, tab) for tab in tabs)),
        )
    except pulse.InvalidArgument as error:
        if place.cursor and "page_token" in str(error):
            raise BadField("cursor", "does not belong to these filters; start again with the first page") from None
        raise
    return visit.render(
        "jobs.html",
        frame,
        query=query,
        fields=[field for field in FIELDS if field.name not in ("status", "topic")],
        topics=topics,
        tabs=list(zip([None, *JobStatus], tabs, counts, strict=True)),
        changes=[change for change in CHANGES.values() if change.suits(query.statuses)],
        jobs=page.items,
        place=place.turn(query.url(), page.next_page_token),
    )


async def _count(visit: Visit, query: JobQuery) -> pulse.JobCount | None:
    """How many there are; None if that takes long: no list waits for its numbers."""
    try:
        async with asyncio.timeout(COUNT_PATIENCE):
            return await visit.client.count_jobs(limit=MOST_COUNTED, **query.conditions)
    except TimeoutError:
        return None


async def _topic_names(visit: Visit) -> list[str]:
    """What the field of the topic suggests; a refresh leaves the fields alone."""
    return [] if visit.is_fragment else [topic.name for topic in await visit.client.topics()]


def _search(text: str) -> str:
    """The search box knows jobs by their id and topics by their name."""
    try:
        return f"/jobs/{UUID(text)}"
    except ValueError:
        return JobQuery({"topic": [text]}).url()
