"""The dashboard put together: read it from here."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

import pulse
from pulse_ui.assets import Assets
from pulse_ui.guard import SecurityHeaders
from pulse_ui.handling import Action, Page, action, page
from pulse_ui.pages import (
    bulk,
    dead_letters,
    dispatch,
    job,
    jobs,
    overview,
    schedule_edit,
    schedules,
    sign_in,
    topics,
    workers,
)
from pulse_ui.problems import Problem
from pulse_ui.sessions import Sessions
from pulse_ui.settings import Settings
from pulse_ui.signing import Signer
from pulse_ui.templating import make_templates
from pulse_ui.visit import Dashboard, Visit

# A page that waits longer than this for the server says so instead.
CALL_TIMEOUT = 5.0
CALL_RETRIES = 2

PAGES: dict[str, Page] = {
    "/": overview.show,
    "/jobs": jobs.show,
    "/jobs/bulk": bulk.ask,
    "/jobs/{job_id}": job.show,
    "/jobs/{job_id}/payload": job.download,
    "/topics": topics.show,
    "/schedules": schedules.show_all,
    "/schedules/new": schedule_edit.show_new,
    "/schedules/{schedule_id}": schedules.show,
    "/schedules/{schedule_id}/edit": schedule_edit.show,
    "/workers": workers.show,
    "/dead-letters": dead_letters.show,
    "/sign-in": sign_in.show,
}

ACTIONS: dict[str, Action] = {
    "/jobs/bulk": bulk.act,
    "/jobs/{job_id}/cancel": job.cancel,
    "/jobs/{job_id}/retry": job.retry,
    "/jobs/{job_id}/delete": job.delete,
    "/jobs/{job_id}/priority": job.change_priority,
    "/jobs/{job_id}/run-again": job.run_again,
    "/topics/pause": dispatch.pause_topic,
    "/topics/resume": dispatch.resume_topic,
    "/dispatch/pause": dispatch.pause,
    "/dispatch/resume": dispatch.resume,
    "/schedules": schedule_edit.create,
    "/schedules/{schedule_id}": schedule_edit.update,
    "/schedules/{schedule_id}/pause": schedules.pause,
    "/schedules/{schedule_id}/resume": schedules.resume,
    "/schedules/{schedule_id}/run": schedules.run,
    "/schedules/{schedule_id}/delete": schedules.delete,
    "/sign-in": sign_in.sign_in,
    "/sign-out": sign_in.sign_out,
}


def connect(user: str = "", password: str = "") -> pulse.Pulse:
    """A client of the server that the SDK's settings name; without a user it has no credentials.

    Those in the environment are left alone: they would make everybody who opens the dashboard that user.
    """
    return pulse.Pulse(user=user, password=password, timeout=CALL_TIMEOUT, retries=CALL_RETRIES)


def make_app(settings: Settings) -> Starlette:
    """The application; ConfigurationError if the SDK's settings are wrong."""
    assets = Assets()
    dashboard = Dashboard(
        settings=settings,
        signer=Signer(settings.secret),
        sessions=Sessions(connect, settings.session_ttl),
        assets=assets,
        templates=make_templates(assets),
        anonymous=connect(),
    )

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            expiry = group.create_task(dashboard.sessions.expire_for_ever())
            yield
            expiry.cancel()
        await dashboard.sessions.close_all()
        await dashboard.anonymous.close()

    async def show_missing(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        visit = Visit(request, dashboard)
        return visit.render_problem(Problem(error.status_code, error.detail, "The dashboard has no such page."))

    return Starlette(
        routes=[
            Route("/healthz", _healthz),
            Route("/static/{digest}/{name:path}", assets.serve),
            *(Route(path, page(dashboard, handler)) for path, handler in PAGES.items()),
            *(Route(path, action(dashboard, handler), methods=["POST"]) for path, handler in ACTIONS.items()),
        ],
        middleware=[Middleware(SecurityHeaders)],
        exception_handlers={HTTPException: show_missing},
        lifespan=lifespan,
    )


async def _healthz(request: Request) -> Response:
    """The dashboard lives; whether its server does is on every page."""
    return PlainTextResponse("ok\n")
