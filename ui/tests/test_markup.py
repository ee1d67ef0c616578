"""Markup in what people and programs write is shown, and never run."""

import json
from datetime import timedelta
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

import pulse

from .conftest import OpenWorld
from .world import World

EVIL = """<script>window.ran=1</script><img src=x onerror="window.ran=1">"'`&amp;{{7*7}}${7*7}</title></pre>"""


@pytest.fixture(scope="module")
def world(open_world: OpenWorld) -> World:
    """Everything that can be named is named badly."""
    return open_world()


@pytest.fixture
def paths(world: World) -> "Paths":
    """Pages with markup in all places."""
    return Paths(world)


class Paths:
    """Where the markup is."""

    def __init__(self, world: World) -> None:
        evil = pulse.EnqueueOptions(tags=[EVIL], metadata={EVIL: EVIL}, unique=EVIL)
        timing = pulse.Cron("0 3 * * *")
        existing = world.value("SELECT id FROM schedules")
        if existing is None:
            existing = world.pulse.create_schedule(EVIL, {EVIL: EVIL}, timing, name=EVIL, tags=[EVIL]).id
            world.pulse.trigger_schedule(existing)
            with world.worker(EVIL, host=EVIL) as worker:
                worker.fail(EVIL, retry_after=timedelta(hours=1))
                world.pulse.enqueue(EVIL, {EVIL: EVIL}, **evil)
                worker.fail(EVIL, discard=True)
            world.pulse.pause_dispatch(reason=EVIL)
            world.pulse.pause_dispatch(EVIL, reason=EVIL)
            world.pulse.enqueue(EVIL, EVIL.encode(), content_type=EVIL[:50])
        self.schedule = existing
        self.dead = world.value("SELECT id FROM jobs WHERE status = 'DEAD_LETTERED'")
        self.waiting = world.value("SELECT id FROM jobs WHERE status = 'PENDING'")


PAGES = {
    "overview": "/",
    "jobs": "/jobs",
    "jobs of the topic": f"/jobs?topic={quote(EVIL)}",
    "filters": f"/jobs?tag={quote(EVIL)}&error={quote(EVIL)}&payload={quote(json.dumps(EVIL))}",
    "search": f"/jobs?q={quote(EVIL)}",
    "dead job": "/jobs/{paths.dead}",
    "waiting job": "/jobs/{paths.waiting}",
    "bulk": f"/jobs/bulk?action=retry&status=dead_lettered&topic={quote(EVIL)}",
    "topics": "/topics",
    "topics by name": f"/topics?name={quote(EVIL)}",
    "schedules": "/schedules",
    "schedule": "/schedules/{paths.schedule}",
    "edit": "/schedules/{paths.schedule}/edit",
    "new schedule": f"/schedules/new?topic={quote(EVIL)}",
    "workers": f"/workers?topic={quote(EVIL)}",
    "dead letters": "/dead-letters",
    "dead letters of the topic": f"/dead-letters?topic={quote(EVIL)}",
}


@pytest.mark.parametrize("name", PAGES)
def test_it_is_shown_and_not_run(world: World, page: Page, paths: Paths, name: str) -> None:
    path = PAGES[name].replace("{paths.dead}", str(paths.dead)).replace("{paths.waiting}", str(paths.waiting))
    path = path.replace("{paths.schedule}", str(paths.schedule))
    with world.worker(EVIL, host=EVIL):
        page.goto(path)
        expect(page.get_by_role("main")).to_be_visible()
        fields = page.locator("main").locator("input, textarea").evaluate_all("fields => fields.map(f => f.value)")
        assert EVIL in page.locator("main").inner_text() or EVIL in fields
        expect(page.locator("img, main script")).to_have_count(0)
        assert page.evaluate("window.ran") is None
        assert page.evaluate("document.title").endswith(" · pulse")


def test_it_is_told_and_not_run_after_an_action(world: World, page: Page, paths: Paths) -> None:
    page.goto("/topics")
    page.get_by_role("button", name=f"Resume {EVIL}").click()
    expect(page.get_by_role("status")).to_contain_text(f"{EVIL} goes on.")
    assert page.evaluate("window.ran") is None
    world.pulse.pause_dispatch(EVIL, reason=EVIL)


def test_a_mistake_is_quoted_and_not_run(page: Page, watch: "object") -> None:
    answer = page.request.get(f"/jobs?status={quote(EVIL)}")
    assert answer.status == 400
    assert "<script>window" not in answer.text()
