"""A web application that enqueues: `uvicorn web_app:app`. FastAPI looks the same: an app with a lifespan."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import pulse

p = pulse.Pulse(timeout=5)


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """One client for the whole application; its connection is opened by the first request that needs it."""
    async with p:
        yield


async def sign_up(request: Request) -> JSONResponse:
    """Answers at once; the mail is sent by a worker, once, however often the form is sent."""
    address = (await request.json())["email"]
    try:
        welcome = await p.submit("send-email", {"to": address, "subject": "Welcome"}, unique=address)
    except pulse.Unavailable:
        return JSONResponse({"error": "try again in a moment"}, status_code=503)
    return JSONResponse({"job": welcome.job_id, "already": welcome.existing}, status_code=202)


async def show_job(request: Request) -> JSONResponse:
    """What became of it."""
    try:
        job = await p.get_job(request.path_params["job_id"])
    except (pulse.NotFound, pulse.InvalidArgument):
        return JSONResponse({"error": "no such job"}, status_code=404)
    return JSONResponse({"status": job.status, "attempts": job.attempts})


app = Starlette(
    routes=[Route("/sign-up", sign_up, methods=["POST"]), Route("/jobs/{job_id}", show_job)], lifespan=lifespan
)
