"""The browser."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    # Nothing but this machine can be reached: a request to elsewhere finds nobody.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


@contextmanager
def running_chromium() -> Iterator[Browser]:
    """Debian's Chromium, not one that Playwright brings: without its windows, which cost three times as much."""
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    assert chromium, "no Chromium here: python3 noxfile.py -s ui installs it, and so does apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield browser
        browser.close()
