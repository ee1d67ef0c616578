"""The overview: one look tells whether the queue is well."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from . import shop
from .conftest import OpenWorld
from .watch import Watch
from .world import World


@pytest.fixture(scope="module")
def world(open_world: OpenWorld) -> Iterator[World]:
    """The shop at work."""
    world = open_world()
    shop.fill(world)
    with shop.at_work(world):
        yield world


def test_counts_by_status_lead_to_the_jobs(world: World, page: Page) -> None:
    page.goto("/")
    tiles = page.get_by_role("list", name="Jobs by status")
    counts = {row["status"]: row["count"] for row in world.rows("SELECT status::text, count(*) FROM jobs GROUP BY 1")}
    for name in ("Pending", "Running", "Retrying", "Dead lettered", "Canceled"):
        count = counts[name.upper().replace(" ", "_")]
        expect(tiles.get_by_role("link", name=name)).to_have_text(re.compile(rf"{name}\s*{count}\s*$"))
    tiles.get_by_role("link", name="Dead lettered").click()
    expect(page).to_have_url("/jobs?status=dead_lettered")


@pytest.mark.parametrize("window", ["1h", "6h", "24h"])
def test_charts_show_the_window_and_their_numbers_stand_behind(world: World, page: Page, window: str) -> None:
    page.goto("/")
    page.get_by_role("navigation", name="Window").get_by_role("link", name=window, exact=True).click()
    expect(page).to_have_url(f"/?window={window}")
    stats = world.pulse.stats(window=int(window[:-1]) * 3600)
    completed = sum(each.completed for each in stats.total.traffic)
    assert completed > 1000
    expect(page.get_by_role("img", name=re.compile(rf"completed {completed:,} jobs in {window}"))).to_be_visible()
    page.get_by_text("Numbers").first.click()
    table = page.get_by_role("table", name="by time").first
    shown = [int(text.replace(",", "")) for text in table.locator("tbody td:last-child").all_inner_texts()]
    assert shown == [each.completed for each in reversed(stats.total.traffic)]


def test_latencies_and_the_oldest_waiting_job(page: Page) -> None:
    page.goto("/")
    for name in ("Oldest waiting", "Wait p50", "Wait p95", "Run p50", "Run p95"):
        fact = page.get_by_role("main").locator("dl div").filter(has_text=name)
        expect(fact.get_by_role("definition")).to_have_text(re.compile(r"^\d"))


def test_top_errors_lead_to_their_jobs(page: Page) -> None:
    page.goto("/")
    errors = page.get_by_role("table", name="Most frequent errors")
    expect(errors.locator("tbody").get_by_role("row")).to_have_count(3)
    errors.get_by_role("link", name="ConnectionResetError").click()
    expect(page.get_by_role("table", name="Jobs").locator("tbody").get_by_role("row")).to_have_count(23)


def test_waiting_jobs_that_nobody_serves_are_told(page: Page) -> None:
    page.goto("/")
    warning = page.get_by_role("region", name="Topics without workers")
    expect(warning).to_contain_text("print-calendar (4 waiting jobs)")
    expect(warning).not_to_contain_text("charge-card")


def test_title_and_icon_show_the_state_as_it_changes(world: World, page: Page, topic: str) -> None:
    page.goto("/workers")
    expect(page).to_have_title("Workers · pulse")
    icon = page.locator("link[rel=icon]")
    expect(icon).to_have_attribute("href", re.compile("ok"))
    world.pulse.pause_dispatch(reason="lunch")
    expect(page).to_have_title("Paused: Workers · pulse")
    expect(icon).to_have_attribute("href", re.compile("paused"))
    world.pulse.resume_dispatch()
    expect(page).to_have_title("Workers · pulse")
    world.pulse.enqueue(topic, {})
    with world.worker(topic) as worker:
        worker.fail("for good", discard=True)
    expect(page).to_have_title("Failing: Workers · pulse")
    expect(icon).to_have_attribute("href", re.compile("failing"))


def test_an_unknown_window_is_named(page: Page, watch: Watch) -> None:
    watch.expect_status(400)
    page.goto("/?window=2h")
    expect(page.get_by_role("main")).to_contain_text("window")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_theme_that_was_chosen_stays(page: Page, theme: str) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="dark" if theme == "light" else "light")
    page.goto("/")
    before = page.evaluate(background)
    page.get_by_label("Theme").select_option(theme)
    page.wait_for_function(f"{background} !== '{before}'")
    chosen = page.evaluate(background)
    page.goto("/jobs")
    assert page.evaluate(background) == chosen
    page.get_by_label("Theme").select_option("system")
    page.wait_for_function(f"{background} !== '{chosen}'")
