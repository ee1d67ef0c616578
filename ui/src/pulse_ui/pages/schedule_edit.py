"""Make a schedule, or change one. A mistake comes back at its field, with everything as it was typed."""

import asyncio

from starlette.responses import Response

import pulse
from pulse import ScheduleInfo
from pulse_ui.flash import Flash
from pulse_ui.forms import Form
from pulse_ui.frame import load_frame
from pulse_ui.pages.schedules import schedule_id
from pulse_ui.problems import says
from pulse_ui.schedule_form import DEFAULTS, KINDS, Draft, ScheduleForm, fill
from pulse_ui.visit import Visit


async def show_new(visit: Visit) -> Response:
    """GET /schedules/new; a topic in the query string is filled in."""
    return await _show(visit, ScheduleForm(DEFAULTS | {"topic": visit.request.query_params.get("topic", "")}))


async def show(visit: Visit) -> Response:
    """GET /schedules/{schedule_id}/edit"""
    schedule = await visit.client.get_schedule(schedule_id(visit))
    return await _show(visit, ScheduleForm(fill(schedule), schedule))


async def create(visit: Visit, form: Form) -> Response:
    """POST /schedules"""
    return await _store(visit, ScheduleForm.read(form))


async def update(visit: Visit, form: Form) -> Response:
    """POST /schedules/{schedule_id}"""
    schedule = await visit.client.get_schedule(schedule_id(visit))
    return await _store(visit, ScheduleForm.read(form, schedule))


async def _store(visit: Visit, form: ScheduleForm) -> Response:
    draft = form.check()
    if draft is not None:
        try:
            stored = await _send(visit.client, form.original, draft)
        except (pulse.InvalidArgument, pulse.AlreadyExists) as error:
            form.blame(error, says(error))
        else:
            text = f"{stored.name} is {'changed' if form.original else 'created'}."
            return visit.redirect(f"/schedules/{stored.id}", Flash(text))
    return await _show(visit, form, status=422)


async def _send(client: pulse.Pulse, original: ScheduleInfo | None, draft: Draft) -> ScheduleInfo:
    if original is None:
        return await client.create_schedule(
            draft.topic,
            draft.payload,
            draft.timing,
            name=draft.name,
            misfire=draft.misfire,
            misfire_limit=draft.misfire_limit,
            content_type=draft.content_type,
            **draft.options,
        )
    return await client.update_schedule(
        original.id,
        draft.topic,
        draft.payload,
        draft.timing,
        name=draft.name,
        misfire=draft.misfire,
        misfire_limit=draft.misfire_limit,
        content_type=draft.content_type,
        **draft.options,
    )


async def _show(visit: Visit, form: ScheduleForm, status: int = 200) -> Response:
    frame, topics = await asyncio.gather(load_frame(visit.client), visit.client.topics())
    return visit.render(
        "schedule_edit.html",
        frame,
        status=status,
        form=form,
        kinds=KINDS,
        topics=[topic.name for topic in topics],
    )
