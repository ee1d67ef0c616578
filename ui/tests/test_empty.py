"""A dashboard on the first day: every page says what to do next."""

import pytest
from playwright.sync_api import Page, expect

from .axe import serious_findings
from .places import ALWAYS


@pytest.mark.parametrize("name", ALWAYS)
def test_axe_has_nothing_serious_to_say_by_day_and_by_night(page: Page, name: str) -> None:
    page.goto(ALWAYS[name])
    expect(page.get_by_role("main")).to_be_visible()
    assert serious_findings(page) == []
    page.emulate_media(color_scheme="dark")
    assert serious_findings(page) == []


@pytest.mark.parametrize(
    ("name", "next_step"),
    [
        ("overview", "Nothing has happened yet"),
        ("jobs", "There are no jobs"),
        ("topics", "There are no topics"),
        ("schedules", "There are no schedules"),
        ("workers", "No worker is connected"),
        ("dead letters", "No dead letters"),
    ],
)
def test_an_empty_page_says_what_to_do_next(page: Page, name: str, next_step: str) -> None:
    page.goto(ALWAYS[name])
    empty = page.get_by_role("main").locator("section").filter(has=page.get_by_role("heading", name=next_step))
    expect(empty.get_by_role("paragraph").first).to_be_visible()
