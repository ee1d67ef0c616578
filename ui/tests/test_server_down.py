"""The server goes away and comes back: every page says so, and is itself again without anybody's help."""

import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from anyio.from_thread import BlockingPortal
from playwright.sync_api import expect

from support.program import running_pulsed

from .conftest import OpenContext
from .places import ALWAYS
from .watch import Watch
from .world import Dashboard, running_dashboard


class FlakyServer:
    """A `pulsed` process that stops and starts again where it was."""

    def __init__(self, portal: BlockingPortal, dsn: str) -> None:
        self._portal = portal
        self._dsn = dsn
        self._running = ExitStack()
        self._port = 0
        self.start()

    @property
    def address(self) -> str:
        """Where it is, or would be."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Until it serves."""
        process = running_pulsed(dsn=self._dsn, port=self._port)
        self._port = self._running.enter_context(self._portal.wrap_async_context_manager(process)).port

    def stop(self) -> None:
        """Until it is gone."""
        self._running.close()


@pytest.fixture
def server(database_dsn: str, portal: BlockingPortal) -> Iterator[FlakyServer]:
    """A server of the test's own."""
    server = FlakyServer(portal, database_dsn)
    yield server
    server.stop()


@pytest.fixture
def dashboard(server: FlakyServer, portal: BlockingPortal) -> Iterator[Dashboard]:
    """A dashboard for it."""
    with portal.wrap_async_context_manager(running_dashboard(server.address)) as dashboard:
        yield dashboard


def test_every_page_says_so_and_recovers_by_itself(
    server: FlakyServer, dashboard: Dashboard, open_context: OpenContext, watch: Watch
) -> None:
    watch.expect_status(503)
    server.stop()
    context = open_context()
    tabs = {name: context.new_page() for name in ALWAYS}
    for name, tab in tabs.items():
        answer = tab.goto(ALWAYS[name])
        assert answer is not None
        assert answer.status == 503, name
        expect(tab.get_by_role("heading", level=1)).to_have_text("Can't reach the server")
        expect(tab.get_by_role("main")).to_contain_text(server.address)
        expect(tab).to_have_title(re.compile("^Unreachable: "))
    server.start()
    for name, tab in tabs.items():
        expect(tab.get_by_role("heading", level=1)).to_have_text(name.capitalize())
        expect(tab).to_have_title(re.compile(f"^{name.capitalize()}"))
        assert tab.url == dashboard.url + ALWAYS[name]


def test_a_page_that_was_open_says_so_too(
    server: FlakyServer, dashboard: Dashboard, open_context: OpenContext, watch: Watch
) -> None:
    watch.expect_status(503)
    page = open_context().new_page()
    page.goto("/jobs")
    page.get_by_label("Topic", exact=True).fill("what I typed")
    page.get_by_label("Topic", exact=True).fill("")
    page.get_by_label("Topic", exact=True).blur()
    server.stop()
    expect(page.get_by_role("alert").filter(has_text=server.address)).to_be_visible()
    expect(page).to_have_title(re.compile("^Unreachable: "))
    server.start()
    expect(page.get_by_role("heading", name="There are no jobs")).to_be_visible()
    expect(page).to_have_title(re.compile("^Jobs"))


def test_an_action_meanwhile_says_that_nothing_was_done(
    server: FlakyServer, dashboard: Dashboard, open_context: OpenContext, watch: Watch
) -> None:
    watch.expect_status(503)
    page = open_context().new_page()
    page.goto("/")
    page.get_by_role("button", name="Pause dispatch…").click()
    server.stop()
    page.get_by_role("dialog").get_by_role("button", name="Pause dispatch").click()
    expect(page.get_by_role("alert").filter(has_text="Nothing was done")).to_be_visible()
