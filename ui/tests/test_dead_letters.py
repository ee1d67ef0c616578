"""Dead letters: alike errors together, and a group can be retried as one."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from .world import Worker, World


@pytest.fixture
def worker(world: World, topic: str) -> Iterator[Worker]:
    """Somebody to fail."""
    with world.worker(topic) as worker:
        yield worker


def die(world: World, worker: Worker, topic: str, *errors: str) -> None:
    """A dead job for each error."""
    for error in errors:
        world.pulse.enqueue(topic, {})
        worker.fail(error, discard=True)


def group(page: Page, error: str) -> Locator:
    """The row of a group."""
    return page.get_by_role("table", name="Dead letters by error").get_by_role("row").filter(has_text=error)


def test_alike_errors_stand_together(world: World, page: Page, topic: str, worker: Worker) -> None:
    die(world, worker, topic, "order 17 has no customer", "order 18 has no customer", "Traceback:\nTimeoutError: 30 s")
    page.goto(f"/dead-letters?topic={topic}")
    expect(group(page, "order # has no customer").locator("td").first).to_have_text("2")
    expect(group(page, "TimeoutError: # s").locator("td").first).to_have_text("1")
    group(page, "order #").get_by_role("link", name="order # has no customer").click()
    expect(page.get_by_role("table", name="Jobs").locator("tbody").get_by_role("row")).to_have_count(2)


@pytest.mark.parametrize("step", ["Retry", "Delete"])
def test_a_group_is_dealt_with_as_one(world: World, page: Page, topic: str, worker: Worker, step: str) -> None:
    die(world, worker, topic, *(f"order {number} has no customer" for number in range(60)), "another thing")
    world.pulse.pause_dispatch(topic)
    page.goto(f"/dead-letters?topic={topic}")
    group(page, "order #").get_by_role("link", name=f"{step}…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{step} 60 jobs?")
    page.get_by_role("button", name=f"{step} 60 jobs").click()
    expect(page.get_by_role("status")).to_contain_text("60 jobs")
    expect(page).to_have_url(f"/dead-letters?topic={topic}")
    assert world.statuses(topic) == ({"PENDING": 60} if step == "Retry" else {}) | {"DEAD_LETTERED": 1}


def test_all_of_them_can_be_retried(world: World, page: Page, topic: str, worker: Worker) -> None:
    die(world, worker, topic, "one thing", "another thing")
    world.pulse.pause_dispatch(topic)
    page.goto(f"/dead-letters?topic={topic}")
    page.get_by_role("link", name="Retry all…").click()
    page.get_by_role("button", name="Retry 2 jobs").click()
    expect(page.get_by_role("status")).to_have_text("2 jobs retried.")
    assert world.statuses(topic) == {"PENDING": 2}
    expect(page.get_by_role("heading", name="No dead letters")).to_be_visible()


def test_an_error_without_words_is_a_group_too(world: World, page: Page, topic: str, worker: Worker) -> None:
    die(world, worker, topic, "", "17")
    page.goto(f"/dead-letters?topic={topic}")
    expect(group(page, "no error text")).to_be_visible()
    expect(group(page, "#")).to_be_visible()
