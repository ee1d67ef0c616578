"""From routes to handlers: what every page and every action goes through, in one place."""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

import pulse
from pulse_ui.flash import Flash
from pulse_ui.forms import Form, read_form
from pulse_ui.frame import load_frame
from pulse_ui.guard import SAFE_METHODS, check_host, check_origin
from pulse_ui.problems import PageError, Problem, describe, says
from pulse_ui.visit import Dashboard, Visit

logger = logging.getLogger("pulse_ui")

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
Page: TypeAlias = Callable[[Visit], Awaitable[Response]]
Action: TypeAlias = Callable[[Visit, Form], Awaitable[Response]]

FAILED = Problem(500, "The dashboard failed", "Something went wrong in the dashboard; its log says what.")


def page(dashboard: Dashboard, handler: Page) -> Endpoint:
    """An endpoint that reads."""
    return _guarded(dashboard, handler)


def action(dashboard: Dashboard, handler: Action) -> Endpoint:
    """An endpoint that changes something: only for forms of our own; errors are told on the page it came from."""

    async def act(visit: Visit) -> Response:
        check_origin(visit.request.headers)
        form = await read_form(visit.request)
        visit.check_token(form)
        try:
            return await handler(visit, form)
        except pulse.Unauthenticated:
            raise
        except pulse.PulseError as error:
            return visit.redirect(visit.back(form), Flash(f"Nothing was done: {says(error)}", failed=True))
        except PageError as error:
            return visit.redirect(visit.back(form), Flash(f"Nothing was done: {error}", failed=True))

    return _guarded(dashboard, act)


def _guarded(dashboard: Dashboard, handler: Page) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        visit = Visit(request, dashboard)
        try:
            check_host(request.headers, dashboard.settings)
            try:
                return await handler(visit)
            except PageError as error:
                # Whoever has to sign in is asked for that first, whatever else is wrong.
                frame = await load_frame(visit.client) if request.method in SAFE_METHODS else None
                return visit.render_problem(error.problem, frame)
        except PageError as error:
            return visit.render_problem(error.problem)
        except pulse.Unauthenticated:
            return await _ask_to_sign_in(visit)
        except pulse.PulseError as error:
            return visit.render_problem(describe(error, visit.client.address))
        except Exception:
            logger.exception("%s %s failed", request.method, request.url.path)
            return visit.render_problem(FAILED)

    return endpoint


async def _ask_to_sign_in(visit: Visit) -> Response:
    await visit.sign_out()
    wanted = visit.url if visit.request.method == "GET" else "/"
    where = f"/sign-in?next={quote(wanted, safe='')}"
    if visit.is_fragment:
        return Response(status_code=401, headers={"HX-Redirect": where})
    return visit.redirect(where)
