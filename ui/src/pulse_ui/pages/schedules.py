"""Schedules: the list, one of them, and what can be done to it."""

import asyncio

from starlette.responses import Response

import pulse
from pulse_ui.flash import Flash
from pulse_ui.formats import absolute
from pulse_ui.forms import Form
from pulse_ui.frame import load_frame
from pulse_ui.job_query import read_id
from pulse_ui.paging import read_place
from pulse_ui.payloads import show_payload
from pulse_ui.problems import BadField, PageError
from pulse_ui.visit import Visit

PAGE_SIZE = 50
FIRES_SHOWN = 20


async def show_all(visit: Visit) -> Response:
    """GET /schedules"""
    place = read_place(visit.request.query_params)
    try:
        frame, page = await asyncio.gather(
            load_frame(visit.client), visit.client.list_schedules_page(page_size=PAGE_SIZE, page_token=place.cursor)
        )
    except pulse.InvalidArgument as error:
        raise BadField("cursor", "is not one of this list; start again with the first page") from error
    return visit.render(
        "schedules.html", frame, schedules=page.items, place=place.turn("/schedules", page.next_page_token)
    )


async def show(visit: Visit) -> Response:
    """GET /schedules/{schedule_id}"""
    wanted = schedule_id(visit)
    frame, schedule, fires = await asyncio.gather(
        load_frame(visit.client),
        visit.client.get_schedule(wanted),
        visit.client.list_schedule_fires_page(wanted, page_size=FIRES_SHOWN),
    )
    payload = show_payload(schedule.payload)
    return visit.render("schedule.html", frame, schedule=schedule, fires=fires, payload=payload)


async def pause(visit: Visit, form: Form) -> Response:
    """POST /schedules/{schedule_id}/pause"""
    await visit.client.pause_schedule(schedule_id(visit))
    text = "The schedule is paused. What it misses meanwhile is not made up for."
    return visit.redirect(_page(visit), Flash(text))


async def resume(visit: Visit, form: Form) -> Response:
    """POST /schedules/{schedule_id}/resume"""
    next_run_at = await visit.client.resume_schedule(schedule_id(visit))
    following = f"it next fires at {absolute(next_run_at)}" if next_run_at else "but has no more occurrences"
    return visit.redirect(_page(visit), Flash(f"The schedule goes on; {following}."))


async def run(visit: Visit, form: Form) -> Response:
    """POST /schedules/{schedule_id}/run"""
    made = await visit.client.trigger_schedule(schedule_id(visit))
    text = "One job was made now, beside the occurrences."
    if made.existing:
        text = "Nothing was made: a job holds its unique key already."
    flash = Flash(text, failed=made.existing, href=f"/jobs/{made.job_id}", link="Look at the job")
    return visit.redirect(_page(visit), flash)


async def delete(visit: Visit, form: Form) -> Response:
    """POST /schedules/{schedule_id}/delete"""
    await visit.client.delete_schedule(schedule_id(visit))
    return visit.redirect("/schedules", Flash("The schedule is deleted. The jobs that it made stay."))


def schedule_id(visit: Visit) -> str:
    """The id in the path."""
    try:
        return read_id(visit.request.path_params["schedule_id"])
    except ValueError as error:
        raise PageError(404, "Not here", f"There is no such schedule: {error}.") from None


def _page(visit: Visit) -> str:
    return f"/schedules/{schedule_id(visit)}"
