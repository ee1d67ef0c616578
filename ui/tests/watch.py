"""An eye on everything that a browser does: what no page may ever do fails the test, whatever the test is about."""

import re
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request, Response

# Told by the page itself: where the console's words for it may change, the event does not.
REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", event =>
    console.error(`CSP violation: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`))
"""
REFUSED = re.compile(r"the server responded with a status of (\d+)")


class Watch:
    """Notes complaints in the console, breaches of the policy, requests to other hosts and failures of the server."""

    def __init__(self) -> None:
        self._hosts: set[str] = set()
        self._asked_for: set[int] = set()
        self._away = False
        self.problems: list[str] = []
        self.requests: list[Request] = []

    def expect_status(self, *statuses: int) -> None:
        """These answers are what the test is about; the browser's console tells of them too."""
        self._asked_for.update(statuses)

    def expect_absence(self) -> None:
        """The dashboard itself will be away."""
        self._away = True

    def attach(self, context: BrowserContext, url: str) -> None:
        """Look at every page of a browser context; only the dashboard at `url` may be asked for anything."""
        self._hosts.add(urlsplit(url).netloc)
        context.add_init_script(REPORT_VIOLATIONS)
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self.problems.append(f"uncaught: {error.error}"))
        context.on("request", self._on_request)
        context.on("response", self._on_response)
        context.on("page", self._on_page)

    def _on_page(self, page: Page) -> None:
        page.on("crash", lambda _: self.problems.append("the page crashed"))

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning"):
            return
        if (refused := REFUSED.search(message.text)) and int(refused[1]) in self._asked_for:
            return
        if self._away and ("net::ERR_" in message.text or "Failed to fetch" in message.text):
            return
        self.problems.append(f"console {message.type}: {message.text}")

    def _on_request(self, request: Request) -> None:
        self.requests.append(request)
        parts = urlsplit(request.url)
        if parts.scheme != "data" and parts.netloc not in self._hosts:
            self.problems.append(f"request to another host: {request.url}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 500 and response.status not in self._asked_for:
            self.problems.append(f"{response.status} from {response.request.method} {response.url}")
