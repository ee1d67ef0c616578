"""Reading changes nothing: every link is followed, and the database is as it was."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import APIRequestContext

from . import shop
from .conftest import OpenWorld
from .crawler import crawl
from .places import EVERYWHERE, path_of
from .world import World

# These change by themselves: who is connected, and what happened in each minute.
RESTLESS = ("workers", "topic_minutes")


@pytest.fixture(scope="module")
def world(open_world: OpenWorld) -> Iterator[World]:
    """The shop at work, with a little of everything."""
    world = open_world()
    shop.fill(world, most=2)
    with shop.at_work(world):
        world.pulse.pause_dispatch("charge-card", reason="the bank is away")
        yield world


def dump(world: World) -> dict[str, list[dict[str, object]]]:
    """Every row of every table, heartbeats aside."""
    tables = world.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
    names = [row["tablename"] for row in tables if row["tablename"] not in RESTLESS]
    return {name: world.rows(f"SELECT * FROM {name} ORDER BY {name}::text") for name in names}


def test_following_every_link_changes_nothing_and_leads_nowhere_in_vain(
    visitor: APIRequestContext, world: World
) -> None:
    before = dump(world)
    assert {"jobs", "schedules", "dispatch_control"} <= set(before)
    answers = list(crawl(visitor, f"{world.url}/", most=3000))
    answers += [visitor.get(path_of(name, world)) for name in EVERYWHERE]
    assert [f"{each.status} {each.url}" for each in answers if each.status >= 400][1:] == []
    assert len(answers) > 50
    assert dump(world) == before
