"""What holds on every page of a shop that is open: it can be used by everybody, on any screen, by day and by night."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from . import shop
from .axe import serious_findings
from .conftest import OpenWorld
from .places import EVERYWHERE, path_of
from .screens import DESK, PHONE, WALL, keep_pictures
from .watch import Watch
from .world import World


@pytest.fixture(scope="module")
def world(open_world: OpenWorld) -> Iterator[World]:
    """The shop at work."""
    world = open_world()
    shop.fill(world)
    with shop.at_work(world):
        yield world


@pytest.fixture
def visit(page: Page, world: World, watch: Watch) -> "Visit":
    """Opens a page by its name."""
    return Visit(page, world, watch)


class Visit:
    """A page in the shop."""

    def __init__(self, page: Page, world: World, watch: Watch) -> None:
        self._page = page
        self._world = world
        self._watch = watch

    def __call__(self, name: str) -> Page:
        if name.startswith("no such"):
            self._watch.expect_status(404)
        self._page.goto(path_of(name, self._world))
        expect(self._page.get_by_role("main")).to_be_visible()
        return self._page


@pytest.mark.parametrize("name", EVERYWHERE)
def test_axe_has_nothing_serious_to_say_by_day_and_by_night(visit: Visit, name: str) -> None:
    page = visit(name)
    assert serious_findings(page) == []
    page.emulate_media(color_scheme="dark")
    assert serious_findings(page) == []


@pytest.mark.parametrize("name", EVERYWHERE)
def test_nothing_needs_scrolling_sideways_on_any_screen(visit: Visit, name: str) -> None:
    page = visit(name)
    for size in (PHONE, DESK, WALL):
        page.set_viewport_size(size)
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


@pytest.mark.parametrize("name", EVERYWHERE)
def test_pictures_are_kept(visit: Visit, name: str) -> None:
    keep_pictures(visit(name), name)
