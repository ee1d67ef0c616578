"""One job: what it is, what happened to it, what can be done about it."""

import asyncio

from starlette.responses import Response

import pulse
from pulse import JobInfo, JobStatus
from pulse_ui.flash import Flash
from pulse_ui.forms import Form
from pulse_ui.frame import load_frame
from pulse_ui.history import attempts, timeline
from pulse_ui.job_query import read_id, read_priority
from pulse_ui.payloads import show_payload
from pulse_ui.problems import BadField, PageError
from pulse_ui.visit import Visit

# In the metadata of a job that was run again: the job that it repeats.
RERUN_OF = "pulse.rerun_of"
MOST_METADATA = 20


async def show(visit: Visit) -> Response:
    """GET /jobs/{job_id}"""
    job_id = _job_id(visit)
    frame, job, explanation = await asyncio.gather(
        load_frame(visit.client), visit.client.get_job(job_id), visit.client.explain_job(job_id)
    )
    return visit.render(
        "job.html",
        frame,
        job=job,
        explanation=explanation,
        timeline=timeline(job),
        attempts=attempts(job),
        # It never changes: what is on the page already is kept.
        payload=None if visit.is_fragment else show_payload(job.payload),
        rerun_of=_rerun_of(job),
    )


async def download(visit: Visit) -> Response:
    """GET /jobs/{job_id}/payload: its bytes, never shown by the browser itself."""
    job = await visit.client.get_job(_job_id(visit))
    headers = {"Content-Disposition": f'attachment; filename="{job.id}.payload"'}
    return Response(job.payload, media_type="application/octet-stream", headers=headers)


async def cancel(visit: Visit, form: Form) -> Response:
    """POST /jobs/{job_id}/cancel"""
    status = await visit.client.cancel_job(_job_id(visit))
    text = "The job is canceled: it will not run."
    if status is JobStatus.RUNNING:
        text = "The worker was asked to stop. If it finishes first, its result stands."
    return visit.redirect(_page(visit), Flash(text))


async def retry(visit: Visit, form: Form) -> Response:
    """POST /jobs/{job_id}/retry"""
    await visit.client.retry_job(_job_id(visit))
    return visit.redirect(_page(visit), Flash("The job is ready to run again, with fresh attempts."))


async def delete(visit: Visit, form: Form) -> Response:
    """POST /jobs/{job_id}/delete"""
    job_id = _job_id(visit)
    await visit.client.delete_job(job_id)
    return visit.redirect("/jobs", Flash(f"Job {job_id} is deleted."))


async def change_priority(visit: Visit, form: Form) -> Response:
    """POST /jobs/{job_id}/priority"""
    try:
        priority = read_priority(form.get("priority"))
    except ValueError as error:
        raise BadField("priority", str(error)) from None
    await visit.client.update_job_priority(_job_id(visit), priority)
    return visit.redirect(_page(visit), Flash(f"The priority is {priority} now."))


async def run_again(visit: Visit, form: Form) -> Response:
    """POST /jobs/{job_id}/run-again: a new job like this one."""
    job = await visit.client.get_job(_job_id(visit))
    options = job.options
    metadata = dict(options.metadata)
    if len(metadata) < MOST_METADATA or RERUN_OF in metadata:
        metadata[RERUN_OF] = job.id
    given = pulse.SubmitOptions(
        content_type=job.content_type,
        priority=options.priority,
        max_attempts=options.max_attempts,
        backoff=options.backoff,
        tags=options.tags,
        metadata=metadata,
    )
    if options.timeout is not None:
        given["timeout"] = options.timeout
    if options.lease is not None:
        given["lease"] = options.lease
    if options.unique is not None:
        given["unique"] = options.unique
    made = await visit.client.submit(job.topic, job.payload, **given)
    text = f"A new job was submitted: it repeats {job.id}."
    if made.existing:
        text = "Nothing new was submitted: this job has the unique key already."
    return visit.redirect(f"/jobs/{made.job_id}", Flash(text, failed=made.existing))


def _job_id(visit: Visit) -> str:
    text = visit.request.path_params["job_id"]
    try:
        return read_id(text)
    except ValueError as error:
        raise PageError(
            404, "Not here", f"There is no such job: {error}.", "Look for it in the list of jobs."
        ) from None


def _page(visit: Visit) -> str:
    return f"/jobs/{_job_id(visit)}"


def _rerun_of(job: JobInfo) -> str | None:
    """The job that this one repeats; what others wrote there is not taken for one."""
    try:
        return read_id(job.options.metadata.get(RERUN_OF, ""))
    except ValueError:
        return None
