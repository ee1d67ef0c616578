"""Paging to the end of many jobs of one moment: no row is skipped or shown twice, and the way back is the same."""

import re

import pytest
from playwright.sync_api import APIRequestContext, Page, expect

from .conftest import OpenWorld
from .world import World

MANY = 2_500
PAGE = 50
MAKE = """
INSERT INTO jobs (id, submitted_at, next_run_at, status, priority, max_attempts, ready, topic, payload, content_type)
SELECT gen_random_uuid(), '2026-01-31T09:00Z', now(), 'PENDING', 0, 5, true, 'many', '{}', 'application/json'
FROM generate_series(1, $1)
"""


@pytest.fixture(scope="module")
def world(open_world: OpenWorld) -> World:
    """All submitted at once."""
    world = open_world()
    world.execute(MAKE, MANY)
    return world


def ids(html: str) -> list[str]:
    """The jobs on a page."""
    return re.findall(r'href="/jobs/([0-9a-f-]{36})"', html)


def link(html: str, rel: str) -> str | None:
    """The page before or after."""
    found = re.search(rf'<a [^>]*rel="{rel}"[^>]*>', html)
    return re.findall(r'href="([^"]+)"', found[0])[0].replace("&amp;", "&") if found else None


def turn(page: Page, name: str) -> None:
    """To the page before or after."""
    address = page.url
    page.get_by_role("link", name=name).click()
    expect(page).not_to_have_url(address)


@pytest.mark.parametrize("query", ["", "status=pending&topic=many"], ids=["all", "some"])
def test_to_the_end_while_more_are_submitted(world: World, visitor: APIRequestContext, query: str) -> None:
    wanted = {str(row["id"]) for row in world.rows("SELECT id FROM jobs WHERE topic = 'many'")}
    seen: list[str] = []
    path: str | None = f"/jobs?{query}"
    while path:
        html = visitor.get(path).text()
        seen += ids(html)
        path = link(html, "next")
        if len(seen) == 10 * PAGE:
            world.pulse.enqueue_many("newcomers", [{}] * PAGE)
    assert len(seen) == len(set(seen))
    newcomers = {str(row["id"]) for row in world.rows("SELECT id FROM jobs WHERE topic = 'newcomers'")}
    assert set(seen) - newcomers == wanted


def test_the_way_back_is_the_same(page: Page) -> None:
    page.goto("/jobs?topic=many")
    forward = []
    for _ in range(5):
        forward.append(ids(page.content()))
        turn(page, "Next")
    for expected in reversed(forward):
        turn(page, "Previous")
        assert ids(page.content()) == expected
    expect(page.get_by_role("link", name="Previous")).to_have_count(0)


def test_from_the_last_page_twenty_pages_can_be_gone_back(world: World, visitor: APIRequestContext) -> None:
    path = "/jobs?topic=many&min_priority=1"
    world.execute("UPDATE jobs SET priority = 1 WHERE seq % 2 = 0")
    pages = []
    while True:
        html = visitor.get(path).text()
        pages.append(ids(html))
        following = link(html, "next")
        if following is None:
            break
        path = following
    for expected in pages[-2:-22:-1]:
        before = link(html, "prev")
        assert before is not None
        html = visitor.get(before).text()
        assert ids(html) == expected
