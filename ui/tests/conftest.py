"""Chromium on a dashboard on a server: one browser a test process, one world a module, a fresh context a test."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from playwright.sync_api import APIRequestContext, Browser, BrowserContext, Page, expect

from support.postgres import Databases

from .chromium import running_chromium
from .screens import DESK
from .watch import Watch
from .world import PATIENCE, Dashboard, World, running_world

OpenContext = Callable[..., BrowserContext]
OpenWorld = Callable[..., World]


@pytest.fixture(scope="session")
def portal() -> Iterator[BlockingPortal]:
    """An event loop in a thread, for servers and workers that run beside the tests."""
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One for all tests of the process."""
    expect.set_options(timeout=PATIENCE * 1000)
    with running_chromium() as browser:
        yield browser


@pytest.fixture(scope="session", autouse=True)
def bytecode(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where the processes of all runs keep their bytecode: users have it, and it makes a start three times as fast."""
    directory = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        directory = directory.parent
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(directory / "bytecode"))
        yield


@pytest.fixture(scope="module")
def open_world(databases: Databases, portal: BlockingPortal) -> Iterator[OpenWorld]:
    """Makes worlds that last as long as the module."""
    with ExitStack() as stack:

        def open_world(**settings: Any) -> World:
            dsn = stack.enter_context(databases.migrated())
            return stack.enter_context(running_world(portal, dsn, **settings))

        yield open_world


@pytest.fixture(scope="module")
def world(open_world: OpenWorld) -> World:
    """The world of a module's tests, empty at first; modules that need another one replace this."""
    return open_world()


@pytest.fixture
def dashboard(world: World) -> Dashboard:
    """The dashboard that the browser looks at."""
    return world.dashboard


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of the test's own: the world is shared with the module's other tests."""
    return re.sub(r"\W+", "-", request.node.name)[-60:].strip("-")


@pytest.fixture
def watch(dashboard: Dashboard) -> Iterator[Watch]:
    """Fails the test for what no page may do, and for a traceback in the dashboard's log."""
    watch = Watch()
    logged = len(dashboard.log)
    yield watch
    assert watch.problems == []
    assert "Traceback" not in dashboard.log[logged:]


@pytest.fixture
def open_context(browser: Browser, dashboard: Dashboard, watch: Watch) -> Iterator[OpenContext]:
    """Makes browser contexts, watched; options are Playwright's."""
    with ExitStack() as stack:

        def open_context(**options: Any) -> BrowserContext:
            options = {"base_url": dashboard.url, "viewport": DESK} | options
            context = browser.new_context(**options)
            stack.callback(context.close)
            context.set_default_timeout(PATIENCE * 1000)
            watch.attach(context, options["base_url"])
            return context

        yield open_context


@pytest.fixture
def visitor(open_context: OpenContext) -> APIRequestContext:
    """Somebody without a browser, who keeps cookies and sends what the test says."""
    return open_context().request


@pytest.fixture
def page(open_context: OpenContext) -> Page:
    """A page in a context of its own."""
    return open_context().new_page()
