"""What holds for every request: known hosts, no cross-site writes, small bodies, strict headers."""

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pulse_ui.problems import PageError
from pulse_ui.settings import Settings, is_loopback

SAFE_METHODS = ("GET", "HEAD")

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Not "no-referrer": browsers would then hide the origin of our own forms too.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class SecurityHeaders:
    """Adds the headers to every answer. Pages are not stored; a route that says otherwise is left alone."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)


def check_host(headers: Headers, settings: Settings) -> None:
    """Refuse names that are not ours: a foreign name that was made to point here would pass as the same origin."""
    host = (urlsplit(f"//{headers.get('host', '')}").hostname or "").lower()
    by_default = is_loopback(host) or not settings.is_loopback
    if not (host in settings.allowed_hosts if settings.allowed_hosts else by_default):
        raise PageError(
            421,
            "Unknown host name",
            f"This dashboard does not go by the name {host!r}.",
            "If it should, start it with that name in PULSE_UI_ALLOWED_HOSTS.",
        )


def check_origin(headers: Headers) -> None:
    """Refuse a write that another site's page sent. The token in the form is the second lock."""
    site = headers.get("sec-fetch-site", "same-origin")
    origin = headers.get("origin")
    same_origin = origin is None or urlsplit(origin).netloc == headers.get("host")
    if site not in ("same-origin", "none") or not same_origin:
        raise PageError(
            403, "Refused", "This request came from another site, so nothing was done.", "Use the dashboard's own page."
        )
