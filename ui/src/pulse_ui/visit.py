"""One request: who makes it, with whose credentials it reads, and how it is answered."""

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

import pulse
from pulse_ui.assets import Assets
from pulse_ui.flash import Flash
from pulse_ui.forms import Form
from pulse_ui.frame import Frame
from pulse_ui.problems import PageError, Problem
from pulse_ui.sessions import Sessions
from pulse_ui.settings import Settings
from pulse_ui.signing import Signer

THEMES = ("system", "light", "dark")


@dataclass(frozen=True)
class Dashboard:
    """The parts that all requests share."""

    settings: Settings
    signer: Signer
    sessions: Sessions
    assets: Assets
    templates: jinja2.Environment
    # For servers without users.
    anonymous: pulse.Pulse


class Visit:
    """A request, and the way to answer it."""

    def __init__(self, request: Request, dashboard: Dashboard) -> None:
        self.request = request
        self._dashboard = dashboard
        # Cookies know no ports: two dashboards on one machine must not take each other's.
        self._cookie = f"pulse_ui_{request.scope['server'][1]}"
        known = dashboard.signer.unseal("visitor", request.cookies.get(self._cookie))
        self.visitor = known or secrets.token_urlsafe(32)
        self._is_known = known is not None
        session = dashboard.sessions.find(self.visitor)
        self.user = session.user if session else None
        self.client = session.client if session else dashboard.anonymous

    # What templates ask.

    @property
    def is_fragment(self) -> bool:
        """Whether htmx asks for the live part of a page that is there already."""
        return self.request.headers.get("hx-request") == "true"

    @property
    def url(self) -> str:
        """This page, as a link within the dashboard."""
        url = self.request.url
        return f"{quote(url.path)}?{url.query}" if url.query else quote(url.path)

    @property
    def csrf_token(self) -> str:
        """What forms carry to show that this dashboard made them, for this visitor."""
        return self._dashboard.signer.signature("csrf", self.visitor)

    @property
    def theme(self) -> str:
        """The visitor's choice."""
        chosen = self.request.cookies.get("pulse_ui_theme", "")
        return chosen if chosen in THEMES else "system"

    # Answers.

    def render(self, template: str, frame: Frame | None, *, status: int = 200, **context: Any) -> HTMLResponse:
        """A page, or its live part."""
        flash = None
        if not self.is_fragment:
            sealed = self._dashboard.signer.unseal("flash", self.request.cookies.get(f"{self._cookie}_flash"))
            flash = Flash.read(sealed) if sealed else None
        html = self._dashboard.templates.get_template(template).render(
            visit=self,
            frame=frame,
            flash=flash,
            state=frame.state if frame else "unreachable" if status == 503 else "ok",
            layout="fragment.html" if self.is_fragment else "layout.html",
            address=self.client.address,
            now=datetime.now(UTC),
            **context,
        )
        response = HTMLResponse(html, status_code=status)
        if flash is not None:
            response.delete_cookie(f"{self._cookie}_flash")
        if not self._is_known:
            self.set_visitor(response, self.visitor)
        return response

    def render_problem(self, problem: Problem, frame: Frame | None = None) -> Response:
        """A page that says what is wrong."""
        return self.render("problem.html", frame, status=problem.status, problem=problem)

    def redirect(self, to: str, flash: Flash | None = None) -> Response:
        """To another page, with a message for it."""
        response = RedirectResponse(to, status_code=303)
        if flash is not None:
            sealed = self._dashboard.signer.seal("flash", flash.write())
            response.set_cookie(f"{self._cookie}_flash", sealed, max_age=60, **self._cookie_options)
        return response

    def set_visitor(self, response: Response, visitor: str) -> None:
        """From now on the browser is this visitor."""
        sealed = self._dashboard.signer.seal("visitor", visitor)
        response.set_cookie(self._cookie, sealed, **self._cookie_options)

    @property
    def _cookie_options(self) -> dict[str, Any]:
        return {"httponly": True, "samesite": "lax", "secure": self.request.url.scheme == "https"}

    # Forms.

    def check_token(self, form: Form) -> None:
        """Refuse a form that was not made by this dashboard for this visitor."""
        if not self._is_known or not self._dashboard.signer.matches("csrf", self.visitor, form.get("csrf")):
            raise PageError(
                403,
                "Refused",
                "This form is older than your visit, or was not made by this dashboard. Nothing was done.",
                "Open the page again and repeat what you did.",
            )

    def back(self, form: Form) -> str:
        """Where an action leads: the page that its form was on."""
        return local_path(form.get("back")) or "/"

    async def sign_out(self) -> None:
        """Forget the visitor's credentials."""
        await self._dashboard.sessions.close(self.visitor)

    async def sign_in(self, user: str, password: str) -> str:
        """The visitor's new id, or the SDK's error."""
        return await self._dashboard.sessions.open(user, password)


def local_path(text: str) -> str | None:
    """The text if it is a path within the dashboard; anything else could lead away."""
    parts = urlsplit(text)
    is_local = text.startswith("/") and not text.startswith(("//", "/\\")) and not parts.netloc and text.isprintable()
    return text if is_local else None
