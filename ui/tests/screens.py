"""The screens that pages must fit, and the pictures of them that are kept as artefacts of the build."""

import os
from pathlib import Path

from playwright.sync_api import Page, ViewportSize

PHONE = ViewportSize(width=360, height=740)
DESK = ViewportSize(width=1280, height=900)
WALL = ViewportSize(width=2560, height=1440)
PICTURES = Path(os.environ.get("PULSE_TEST_SCREENSHOTS") or Path(__file__).parent / "artifacts")


def keep_pictures(page: Page, name: str) -> None:
    """By day, by night and on a phone; the overview also as it hangs on a wall."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    stem = name.replace(" ", "-")
    page.screenshot(path=PICTURES / f"{stem}-light.png", full_page=True)
    page.emulate_media(color_scheme="dark")
    page.screenshot(path=PICTURES / f"{stem}-dark.png", full_page=True)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(PHONE)
    page.screenshot(path=PICTURES / f"{stem}-phone.png", full_page=True)
    if name == "overview":
        page.set_viewport_size(WALL)
        page.screenshot(path=PICTURES / f"{stem}-wall.png")
