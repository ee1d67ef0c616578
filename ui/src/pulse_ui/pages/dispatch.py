"""The switches: pause and resume, for everything and for a topic."""

from starlette.responses import Response

from pulse_ui.flash import Flash
from pulse_ui.forms import Form
from pulse_ui.problems import BadField
from pulse_ui.visit import Visit


async def pause(visit: Visit, form: Form) -> Response:
    """POST /dispatch/pause"""
    await visit.client.pause_dispatch(reason=form.get("reason"))
    return visit.redirect(visit.back(form), Flash("Dispatch is paused: no job starts until it is resumed."))


async def resume(visit: Visit, form: Form) -> Response:
    """POST /dispatch/resume"""
    await visit.client.resume_dispatch()
    text = "Dispatch goes on."
    status = await visit.client.dispatch_status()
    if any(switch.paused for switch in status.topics):
        text += " Topics that were paused on their own still are."
    return visit.redirect(visit.back(form), Flash(text))


async def pause_topic(visit: Visit, form: Form) -> Response:
    """POST /topics/pause"""
    topic = _topic(form)
    await visit.client.pause_dispatch(topic, reason=form.get("reason"))
    return visit.redirect(_back(visit, form), Flash(f"{topic} is paused: none of its jobs start until it is resumed."))


async def resume_topic(visit: Visit, form: Form) -> Response:
    """POST /topics/resume"""
    topic = _topic(form)
    await visit.client.resume_dispatch(topic)
    status = await visit.client.dispatch_status()
    rest = " Dispatch as a whole is still paused." if status.paused else ""
    return visit.redirect(_back(visit, form), Flash(f"{topic} goes on.{rest}"))


def _topic(form: Form) -> str:
    topic = form.raw("topic")
    if not topic:
        # Without one the switch would be that for everything.
        raise BadField("topic", "is missing")
    return topic


def _back(visit: Visit, form: Form) -> str:
    return visit.back(form) if form.get("back") else "/topics"
