"""The pictures in the docs: a shop on an ordinary day.

PYTHONPATH=tests python -m ui.tests.pictures        writes docs/images/dashboard-*.png
"""

from pathlib import Path

from anyio.from_thread import start_blocking_portal
from playwright.sync_api import Browser

from support.postgres import Databases

from . import shop
from .chromium import running_chromium
from .places import path_of
from .world import World, running_world

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SIZE = {"width": 1280, "height": 800}


def take(browser: Browser, world: World) -> None:
    """Each as a reader of the docs would see it on a laptop."""
    for name, place, colours in (
        ("overview-light", "overview", "light"),
        ("overview-dark", "overview", "dark"),
        ("jobs", "jobs", "light"),
        ("job", "dead job", "light"),
    ):
        page = browser.new_page(base_url=world.url, viewport=SIZE, color_scheme=colours)  # type: ignore[arg-type]
        page.goto(path_of(place, world))
        page.screenshot(path=IMAGES / f"dashboard-{name}.png")
        page.close()


def main() -> None:
    """Everything from nothing."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with (
        start_blocking_portal() as portal,
        Databases().running() as databases,
        databases.migrated() as dsn,
        running_world(portal, dsn) as world,
        running_chromium() as browser,
    ):
        shop.fill(world)
        with shop.at_work(world):
            take(browser, world)


if __name__ == "__main__":
    main()
