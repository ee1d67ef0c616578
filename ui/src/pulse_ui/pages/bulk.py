"""Steps on many jobs: a page that asks, with the count, and the form that does it."""

import asyncio

from starlette.responses import Response

from pulse_ui.changes import CHANGES, Change, change_all
from pulse_ui.flash import Flash
from pulse_ui.formats import plural
from pulse_ui.forms import Form
from pulse_ui.frame import load_frame
from pulse_ui.job_query import JobQuery, read_priority
from pulse_ui.problems import BadField, PageError
from pulse_ui.visit import Visit, local_path

EXAMPLES = 5


async def ask(visit: Visit) -> Response:
    """GET /jobs/bulk"""
    parameters = visit.request.query_params
    change = _find_change(parameters.get("action", ""))
    asked = JobQuery.read(parameters.multi_items())
    if parameters.get("of") == "selection" and "job_ids" not in asked.conditions:
        # Without ids it would be a step on everything.
        raise PageError(
            400, "Nothing is selected", "Select jobs in the list first.", "Or choose “All that match…” there."
        )
    query = change.narrow(asked)
    frame, count, examples = await asyncio.gather(
        load_frame(visit.client),
        visit.client.count_jobs(**query.conditions),
        visit.client.list_jobs_page(page_size=EXAMPLES, **query.conditions),
    )
    selected = asked.conditions.get("job_ids", ())
    return visit.render(
        "bulk.html",
        frame,
        change=change,
        query=query,
        count=count,
        left_out=len(selected) - count.count if selected else 0,
        examples=examples.items,
        cursor=parameters.get("cursor", ""),
        back=local_path(parameters.get("back", "")) or ("/jobs" if selected else asked.url()),
    )


async def act(visit: Visit, form: Form) -> Response:
    """POST /jobs/bulk"""
    change = _find_change(form.get("action"))
    query = change.narrow(JobQuery.read(form.pairs))
    priority = _read_priority(form.get("priority")) if change.name == "priority" else 0
    progress = await change_all(visit.client, change, query, priority, form.get("cursor"))
    done = f"{plural(progress.affected, 'job')} {change.done}"
    if progress.cursor is not None:
        rest = query.url("/jobs/bulk", action=change.name, cursor=progress.cursor, back=visit.back(form))
        return visit.redirect(rest, Flash(f"{done} so far. There are more: confirm to go on."))
    return visit.redirect(visit.back(form), Flash(f"{done}."))


def _find_change(name: str) -> Change:
    if name not in CHANGES:
        raise BadField("action", f"{name[:40]!r} is none of {', '.join(CHANGES)}")
    return CHANGES[name]


def _read_priority(text: str) -> int:
    try:
        return read_priority(text)
    except ValueError as error:
        raise BadField("priority", str(error)) from None
