"""Topics: how they are doing, and the switch of each and of everything."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from .world import World


@pytest.fixture(autouse=True)
def everything_goes_on(world: World) -> Iterator[None]:
    """Pauses are not left to the next test."""
    yield
    status = world.pulse.dispatch_status()
    for switch in (status.everything, *status.topics):
        if switch.paused:
            world.pulse.resume_dispatch(switch.topic)


def row(page: Page, topic: str) -> Locator:
    """The row of a topic."""
    named = page.get_by_role("link", name=topic, exact=True)
    return page.get_by_role("table", name="Topics").get_by_role("row").filter(has=named)


def cell(page: Page, topic: str, column: str) -> Locator:
    """One of its figures."""
    return row(page, topic).locator(f"[data-label='{column}']")


def test_figures(world: World, page: Page, topic: str) -> None:
    world.pulse.enqueue_many(topic, [{}] * 4)
    world.pulse.enqueue(topic, {}, delay=3600)
    with world.worker(topic, capacity=3) as worker:
        taken = worker.take(3)
        page.goto("/topics")
        for column, text in (("Ready", "1"), ("Later", "1"), ("Running", "3"), ("Workers", "1 0 slots free")):
            expect(cell(page, topic, column)).to_have_text(text)
        for each in taken:
            worker.report_success(each)
        expect(cell(page, topic, "Running")).to_have_text("1")


def test_a_topic_that_nobody_serves_is_marked(world: World, page: Page, topic: str) -> None:
    world.pulse.enqueue(topic, {})
    page.goto("/topics")
    expect(cell(page, topic, "Workers").locator("[data-status=WARNING]")).to_have_text("None")
    expect(cell(page, topic, "Run p95")).to_have_text("–")
    page.goto("/")
    expect(page.get_by_role("region", name="Topics without workers")).to_contain_text(topic)


def test_pause_and_resume_of_a_topic(world: World, page: Page, topic: str) -> None:
    world.pulse.enqueue(topic, {})
    page.goto("/topics")
    row(page, topic).get_by_role("button", name="Pause…").click()
    question = page.get_by_role("dialog", name=f"Pause {topic}?")
    question.get_by_label("Reason").fill("the bank is away")
    question.get_by_role("button", name="Pause topic").click()
    expect(page.get_by_role("status")).to_contain_text(f"{topic} is paused")
    (switch,) = (each for each in world.pulse.dispatch_status().topics if each.paused)
    assert (switch.topic, switch.reason) == (topic, "the bank is away")
    expect(page.get_by_role("main")).to_contain_text("“the bank is away”")
    assert not world.pulse.dispatch_status().paused
    page.get_by_role("button", name=f"Resume {topic}").click()
    expect(page.get_by_role("status")).to_have_text(f"{topic} goes on.")
    assert not world.pulse.dispatch_status().is_paused(topic)


def test_a_paused_topic_without_jobs_can_be_found_and_resumed(world: World, page: Page, topic: str) -> None:
    world.pulse.pause_dispatch(topic, reason="before the first job")
    page.goto("/topics")
    page.get_by_role("button", name=f"Resume {topic}").click()
    expect(page.get_by_role("status")).to_have_text(f"{topic} goes on.")
    assert not world.pulse.dispatch_status().is_paused(topic)


def test_pause_and_resume_of_everything(world: World, page: Page, topic: str) -> None:
    page.goto("/")
    page.get_by_role("button", name="Pause dispatch…").click()
    page.get_by_label("Reason").fill("moving house")
    page.get_by_role("dialog").get_by_role("button", name="Pause dispatch").click()
    expect(page.get_by_role("status")).to_contain_text("Dispatch is paused")
    status = world.pulse.dispatch_status()
    assert (status.paused, status.reason) == (True, "moving house")
    for path in ("/", "/jobs", "/topics", "/schedules", "/workers", "/dead-letters"):
        page.goto(path)
        banner = page.get_by_role("region", name="Dispatch is paused")
        expect(banner).to_contain_text("moving house")
        expect(page).to_have_title(re.compile("^Paused"))
    banner.get_by_role("button", name="Resume dispatch").click()
    expect(page.get_by_role("status")).to_contain_text("Dispatch goes on.")
    expect(page).to_have_url("/dead-letters")
    assert not world.pulse.dispatch_status().paused


def test_topics_are_found_by_a_part_of_their_name(world: World, page: Page, topic: str) -> None:
    world.pulse.enqueue(topic, {})
    world.pulse.enqueue(f"{topic}-too", {})
    page.goto("/topics")
    page.get_by_label("Name contains").fill("PART_OF_THEIR_NAME-TOO")
    page.get_by_role("button", name="Filter").click()
    expect(row(page, f"{topic}-too")).to_be_visible()
    expect(row(page, topic)).to_have_count(0)
    page.get_by_label("Name contains").fill("nothing like it")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("heading", name="No topic matches")).to_be_visible()
