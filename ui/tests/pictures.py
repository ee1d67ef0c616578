"""The pictures in the docs: a shop on an ordinary day.

PYTHONPATH=tests python -m ui.tests.pictures        writes docs/images/dashboard-*.png
"""

from pathlib import Path
from typing import Literal

from anyio.from_thread import start_blocking_portal
from playwright.sync_api import Browser, ViewportSize

from support.postgres import Databases

from . import shop
from .chromium import running_chromium
from .places import path_of
from .world import World, running_world

IMAGES = Path(__file__).parents[2] / "docs" / "images"
LAPTOP = ViewportSize(width=1280, height=800)
# The page, its screen and its colours, by the name of the picture.
PICTURES: dict[str, tuple[str, ViewportSize, Literal["light", "dark"]]] = {
    "overview-light": ("overview", LAPTOP, "light"),
    "overview-dark": ("overview", LAPTOP, "dark"),
    "jobs": ("jobs", LAPTOP, "light"),
    "job": ("dead job", LAPTOP, "light"),
}


def take(browser: Browser, world: World) -> None:
    """Each as a reader of the docs would see it."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name, (place, screen, colours) in PICTURES.items():
        page = browser.new_page(base_url=world.url, viewport=screen, color_scheme=colours)
        page.goto(path_of(place, world))
        page.screenshot(path=IMAGES / f"dashboard-{name}.png")
        page.close()


def main() -> None:
    """Everything from nothing."""
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
