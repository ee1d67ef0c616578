"""The list of jobs: tabs, filters, search, keys."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from playwright.sync_api import APIRequestContext, Locator, Page, expect

import pulse

from .watch import Watch
from .world import World

STATUSES = ("Pending", "Running", "Completed", "Retrying", "Dead lettered", "Canceled")


def rows(page: Page) -> Locator:
    """The rows of jobs."""
    return page.get_by_role("table", name="Jobs").locator("tbody").get_by_role("row")


def shown_ids(page: Page) -> list[str]:
    """The jobs, from the top."""
    return rows(page).get_by_role("link").all_inner_texts()


def tab(page: Page, name: str) -> Locator:
    """The tab of a status."""
    return page.get_by_role("navigation", name="Jobs by status").get_by_role("link", name=name)


def test_each_tab_lists_and_counts_the_jobs_of_its_status(world: World, page: Page, topic: str) -> None:
    with world.worker(topic) as worker:
        for outcome in ("complete", "retry", "die", "cancel", "run"):
            job = world.pulse.enqueue(topic, {"outcome": outcome})
            match outcome:
                case "complete":
                    worker.complete()
                case "retry":
                    worker.fail("later", retry_after=timedelta(hours=1))
                case "die":
                    worker.fail("never", discard=True)
                case "run":
                    worker.take()
                case "cancel":
                    worker.fail("later", retry_after=timedelta(hours=1))
                    world.pulse.cancel_job(job)
        world.pulse.enqueue(topic, {"outcome": "wait"}, delay=3600)
        assert world.statuses(topic) == dict.fromkeys([status.upper().replace(" ", "_") for status in STATUSES], 1)
        page.goto(f"/jobs?topic={topic}")
        expect(rows(page)).to_have_count(6)
        expect(tab(page, "All")).to_contain_text("6")
        for status in STATUSES:
            tab(page, status).click()
            expect(tab(page, status)).to_have_attribute("aria-current", "page")
            expect(tab(page, status)).to_have_text(re.compile(rf"{status}\s*1$"))
            expect(rows(page)).to_have_count(1)
            expect(rows(page).locator("[data-status]")).to_have_text(status)
            expect(page.get_by_label("Topic", exact=True)).to_have_value(topic)


class Three(NamedTuple):
    """Three jobs of a topic; all that can be said of a job is said of the middle one."""

    early: str
    middle: str
    late: str
    schedule: str
    worker: str


@pytest.fixture(scope="module")
def three(world: World) -> Iterator[Three]:
    """Submitted at eight, nine and ten; the middle one failed once and runs again."""
    early = world.pulse.enqueue("three", {"customer": "grace"}, priority=-70, delay=3600)
    rhythm = pulse.Every(timedelta(days=1))
    backoff = pulse.Backoff(base=0.001)
    schedule = world.pulse.create_schedule(
        "three", {"customer": "ada", "n": 1}, rhythm, name="three", priority=70, tags=["eu", "new"], backoff=backoff
    ).id
    middle = world.pulse.trigger_schedule(schedule).job_id
    with world.worker("three") as worker:
        worker.fail("Badly handed in\nat the desk")
        worker.take()
        late = world.pulse.enqueue("three", {"customer": "edsger"}, delay=3600)
        for hour, job in ((8, early), (9, middle), (10, late)):
            moment = datetime(2026, 1, 31, hour, tzinfo=UTC)
            world.execute("UPDATE jobs SET submitted_at = $2 WHERE id = $1", job, moment)
        yield Three(early, middle, late, schedule, worker.id)


FILTERS = {
    "Job id": ("{0.middle}", "middle"),
    "Tag": ("eu", "middle"),
    "Error contains": ("HANDED in", "middle"),
    "Payload contains": ('{{"customer": "ada"}}', "middle"),
    "Held by worker": ("{0.worker}", "middle"),
    "Made by schedule": ("{0.schedule}", "middle"),
    "Submitted after": ("2026-01-31T09:30", "late"),
    "Submitted before": ("2026-01-31T09:30+01:00", "early"),
    "Lowest priority": ("70", "middle"),
    "Highest priority": ("-70", "early"),
}


@pytest.mark.parametrize("label", FILTERS)
def test_every_filter_narrows_the_list_and_its_counts(page: Page, three: Three, label: str) -> None:
    text, name = FILTERS[label]
    text = text.format(three)
    page.goto("/jobs?topic=three")
    expect(rows(page)).to_have_count(3)
    page.get_by_text("More filters").click()
    page.get_by_label(label, exact=True).fill(text)
    page.get_by_role("button", name="Filter").click()
    expect(rows(page)).to_have_count(1)
    assert shown_ids(page) == [getattr(three, name)]
    expect(tab(page, "All")).to_have_text(re.compile(r"All\s*1$"))
    expect(page.get_by_label(label, exact=True)).to_have_value(text)
    page.reload()
    assert shown_ids(page) == [getattr(three, name)]
    page.get_by_role("link", name="Clear filters").click()
    expect(page.get_by_label("Topic", exact=True)).to_have_value("")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("status=sleeping", "status"),
        ("id=17", "id"),
        ("worker=me", "worker"),
        ("schedule=daily", "schedule"),
        ("after=yesterday", "after"),
        ("before=2026-13-01", "before"),
        ("after=1h&after=2h", "after"),
        ("min_priority=high", "min_priority"),
        ("max_priority=99999999999", "max_priority"),
        ("payload={", "payload"),
        ("payload=null", "payload"),
        ("cursor=nonsense", "cursor"),
        ("topic=%00", "topic"),
        ("tag=%00", "tag"),
        ("error=%00", "error"),
        ("topic=" + "x" * 300, "topic"),
    ],
)
def test_a_mistake_in_the_address_is_named(visitor: APIRequestContext, query: str, field: str) -> None:
    answer = visitor.get(f"/jobs?{query}")
    assert answer.status == 400
    assert re.search(rf"<p>{field}: ", answer.text())


def test_after_a_mistake_there_is_a_way_on(page: Page, watch: Watch) -> None:
    watch.expect_status(400)
    page.goto("/jobs?status=sleeping")
    expect(page.get_by_role("main")).to_contain_text("'sleeping' is none of pending, running")
    page.get_by_role("link", name="To the overview").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


def test_the_cursor_of_another_list_is_refused(world: World, page: Page, watch: Watch, topic: str) -> None:
    watch.expect_status(400)
    world.pulse.enqueue_many(topic, [{}] * 60)
    page.goto(f"/jobs?topic={topic}")
    following = page.get_by_role("link", name="Next").get_attribute("href")
    assert following is not None
    answer = page.goto(following.replace(f"topic={topic}", "topic=another"))
    assert answer is not None
    assert answer.status == 400
    expect(page.get_by_role("main")).to_contain_text("cursor")


def test_the_search_knows_jobs_and_topics(world: World, page: Page, topic: str) -> None:
    job = world.pulse.enqueue(topic, {})
    page.goto("/")
    search = page.get_by_label("Find a job or a topic")
    page.keyboard.press("/")
    expect(search).to_be_focused()
    search.fill(f" {job} ")
    search.press("Enter")
    expect(page).to_have_url(f"/jobs/{job}")
    search.fill(topic)
    search.press("Enter")
    expect(rows(page)).to_have_count(1)
    expect(page).to_have_url(f"/jobs?topic={topic}")


def test_keys_move_through_the_rows_and_open_one(world: World, page: Page, topic: str) -> None:
    first, second, third = reversed(world.pulse.enqueue_many(topic, [{}, {}, {}]))
    page.goto(f"/jobs?topic={topic}")
    for key, job in (("j", first), ("j", second), ("j", third), ("k", second)):
        page.keyboard.press(key)
        expect(page.get_by_role("link", name=job)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"/jobs/{second}")


def test_help_tells_the_keys(page: Page) -> None:
    page.goto("/jobs")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_keys_are_letters_while_somebody_types(page: Page) -> None:
    page.goto("/jobs")
    field = page.get_by_label("Topic", exact=True)
    field.click()
    page.keyboard.type("jk/?x")
    expect(field).to_have_value("jk/?x")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_hidden()


def test_times_are_told_both_ways(world: World, page: Page, topic: str) -> None:
    job = world.pulse.enqueue(topic, {})
    world.execute("UPDATE jobs SET submitted_at = $2 WHERE id = $1", job, datetime(2026, 1, 31, 9, 0, tzinfo=UTC))
    page.goto(f"/jobs?topic={topic}")
    submitted = rows(page).locator("time").first
    expect(submitted).to_have_attribute("title", "2026-01-31 09:00:00 UTC")
    expect(submitted).to_have_text(re.compile(r"^\d+d( \d+[hms])? ago$"))
