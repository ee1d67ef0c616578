"""Without JavaScript every page can be read and filtered, and every question can be answered."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from . import shop
from .conftest import OpenContext, OpenWorld
from .places import EVERYWHERE, path_of
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
def page(open_context: OpenContext) -> Page:
    """A browser that runs no scripts."""
    return open_context(java_script_enabled=False).new_page()


@pytest.mark.parametrize("name", EVERYWHERE)
def test_every_page_can_be_read(world: World, page: Page, watch: Watch, name: str) -> None:
    if name.startswith("no such"):
        watch.expect_status(404)
    page.goto(path_of(name, world))
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    # What only a script could make work is not offered.
    for button in page.locator("main button:not([popovertarget]):visible").all():
        assert button.evaluate("button => button.form !== null"), button.inner_text()
    expect(page.get_by_role("button", name="Live")).to_be_hidden()
    expect(page.get_by_role("button", name="Copy").first).to_be_hidden()


def test_jobs_can_be_filtered_and_paged(page: Page) -> None:
    page.goto("/jobs")
    page.get_by_label("Topic", exact=True).fill("send-receipt")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name="Completed").click()
    expect(page.get_by_role("checkbox", name="Select job")).to_have_count(50)
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_role("checkbox", name="Select job")).to_have_count(40)
    page.get_by_role("link", name="Previous").click()
    expect(page.get_by_role("checkbox", name="Select job")).to_have_count(50)


def test_a_selection_is_asked_about_and_changed(world: World, page: Page) -> None:
    page.goto("/jobs?topic=resize-photo&status=dead_lettered")
    for box in page.get_by_role("checkbox", name="Select job").all()[:2]:
        box.check()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Delete 2 jobs").click()
    expect(page.get_by_role("status")).to_have_text("2 jobs deleted.")
    assert world.statuses("resize-photo")["DEAD_LETTERED"] == 1


def test_a_job_is_canceled_after_the_question(world: World, page: Page, topic: str) -> None:
    job = world.pulse.enqueue(topic, {})
    page.goto(f"/jobs/{job}")
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="Cancel job").click()
    expect(page.get_by_role("status")).to_contain_text("canceled")
    assert world.statuses(topic) == {"CANCELED": 1}


def test_a_topic_is_paused_with_a_reason(world: World, page: Page) -> None:
    page.goto("/topics?name=print-calendar")
    page.get_by_role("button", name="Pause…").click()
    page.get_by_label("Reason").fill("no paper")
    page.get_by_role("button", name="Pause topic").click()
    expect(page.get_by_role("status")).to_contain_text("print-calendar is paused")
    assert world.pulse.dispatch_status().is_paused("print-calendar")


def test_a_schedule_of_any_kind_is_made(world: World, page: Page, topic: str) -> None:
    page.goto("/schedules/new")
    page.get_by_label("Name", exact=True).fill(topic)
    page.get_by_label("Topic", exact=True).fill("reports")
    page.get_by_label("In a rhythm").check()
    page.get_by_label("Interval").fill("2h")
    page.get_by_role("button", name="Create schedule").click()
    expect(page.get_by_role("status")).to_contain_text("created")
    assert world.value("SELECT every FROM schedules WHERE name = $1", topic).total_seconds() == 7200
