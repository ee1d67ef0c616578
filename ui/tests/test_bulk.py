"""Steps on many jobs: over a selection and over everything that matches, with the count and a question first."""

import pytest
from playwright.sync_api import APIRequestContext, Page, expect

from .conftest import OpenContext
from .watch import Watch
from .world import World

# What each step is taken from, and what it leaves behind.
STEPS = {
    "Retry": ("DEAD_LETTERED", "PENDING", "retried"),
    "Cancel": ("PENDING", "CANCELED", "canceled"),
    "Delete": ("COMPLETED", None, "deleted"),
    "Priority": ("PENDING", "PENDING", "given another priority"),
}
MAKE = """
INSERT INTO jobs (id, submitted_at, next_run_at, finished_at, status, priority, attempts, max_attempts, ready, topic,
  payload, content_type, last_error)
SELECT gen_random_uuid(), now(), now() + interval '1 hour', CASE WHEN $3::job_status <> 'PENDING' THEN now() END, $3,
  0, 1, 5, false, $1, '{}', 'application/json', CASE WHEN $3 = 'DEAD_LETTERED' THEN 'boom' END
FROM generate_series(1, $2)
"""


def make(world: World, topic: str, count: int, status: str) -> None:
    """Jobs by the table: all at one moment, none of them due."""
    world.execute(MAKE, topic, count, status)


def confirm(page: Page, verb: str) -> None:
    """Say yes."""
    page.get_by_role("main").get_by_role("button", name=verb).click()


@pytest.mark.parametrize("step", STEPS)
def test_a_selection(world: World, page: Page, topic: str, step: str) -> None:
    before, after, done = STEPS[step]
    make(world, topic, 4, before)
    page.goto(f"/jobs?topic={topic}")
    for box in page.get_by_role("checkbox", name="Select job").all()[1:3]:
        box.check()
    page.get_by_role("button", name=step, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("2 jobs?")
    if step == "Priority":
        page.get_by_label("New priority").fill("7")
    confirm(page, "Change the priority" if step == "Priority" else step)
    expect(page.get_by_role("status")).to_have_text(f"2 jobs {done}.")
    expect(page).to_have_url(f"/jobs?topic={topic}")
    if step == "Priority":
        query = "SELECT priority, count(*) FROM jobs WHERE topic = $1 GROUP BY 1 ORDER BY 1"
        assert [tuple(row.values()) for row in world.rows(query, topic)] == [(0, 2), (7, 2)]
    else:
        assert world.statuses(topic) == ({before: 2, after: 2} if after else {before: 2})


@pytest.mark.parametrize("step", STEPS)
def test_everything_that_matches_not_only_what_is_in_sight(world: World, page: Page, topic: str, step: str) -> None:
    before, after, done = STEPS[step]
    make(world, topic, 120, before)
    make(world, f"{topic}-other", 3, before)
    page.goto(f"/jobs?topic={topic}&status={before.lower()}")
    page.get_by_text("All that match").first.click()
    page.get_by_role("link", name=f"{step} all that match").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("120 jobs?")
    if step == "Priority":
        page.get_by_label("New priority").fill("-3")
    confirm(page, "Change the priority" if step == "Priority" else step)
    expect(page.get_by_role("status")).to_have_text(f"120 jobs {done}.")
    assert world.statuses(f"{topic}-other") == {before: 3}
    assert world.statuses(topic) == ({after: 120} if after else {})
    if step == "Priority":
        assert world.value("SELECT count(*) FROM jobs WHERE topic = $1 AND priority = -3", topic) == 120


def test_more_than_are_counted(world: World, page: Page, topic: str) -> None:
    make(world, topic, 10_300, "COMPLETED")
    page.goto(f"/jobs?topic={topic}")
    expect(page.get_by_role("navigation", name="Jobs by status")).to_contain_text("1,000+")
    page.get_by_text("All that match").first.click()
    page.get_by_role("link", name="Delete all that match").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Delete more than 10,000 jobs?")
    confirm(page, "Delete")
    expect(page.get_by_role("status")).to_have_text("10,300 jobs deleted.")
    assert world.statuses(topic) == {}


def test_who_leaves_the_question_changes_nothing(world: World, page: Page, topic: str) -> None:
    make(world, topic, 2, "COMPLETED")
    page.goto(f"/jobs?topic={topic}")
    page.get_by_role("checkbox", name="Select all on this page").check()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("link", name="Leave them").click()
    expect(page).to_have_url(f"/jobs?topic={topic}")
    assert world.statuses(topic) == {"COMPLETED": 2}


def test_what_the_step_cannot_be_taken_on_is_named_and_left_alone(world: World, page: Page, topic: str) -> None:
    make(world, topic, 2, "COMPLETED")
    world.pulse.enqueue(topic, {})
    with world.worker(topic) as worker:
        worker.take()
        page.goto(f"/jobs?topic={topic}")
        page.get_by_role("checkbox", name="Select all on this page").check()
        page.get_by_role("button", name="Delete", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Delete 2 jobs?")
        expect(page.get_by_role("main")).to_contain_text("1 selected job can't be deleted now and is left alone")
        confirm(page, "Delete")
        expect(page.get_by_role("status")).to_have_text("2 jobs deleted.")
        assert world.statuses(topic) == {"RUNNING": 1}


def test_running_jobs_are_asked_to_stop(world: World, page: Page, topic: str) -> None:
    world.pulse.enqueue_many(topic, [{}] * 3)
    with world.worker(topic, capacity=1) as worker:
        (running,) = worker.take()
        page.goto(f"/jobs?topic={topic}")
        page.get_by_text("All that match").first.click()
        page.get_by_role("link", name="Cancel all that match").click()
        confirm(page, "Cancel")
        expect(page.get_by_role("status")).to_have_text("3 jobs canceled.")
        assert worker.cancellation().job_id == running.job_id
        assert world.statuses(topic) == {"RUNNING": 1, "CANCELED": 2}
        worker.report_failure(running, "stopped")
        assert world.statuses(topic) == {"CANCELED": 3}


def test_nothing_selected_is_nothing_done(world: World, open_context: OpenContext, watch: Watch, topic: str) -> None:
    make(world, topic, 2, "COMPLETED")
    watch.expect_status(400)
    page = open_context(java_script_enabled=False).new_page()
    page.goto(f"/jobs?topic={topic}")
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("main")).to_contain_text("Nothing is selected")
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)


@pytest.mark.parametrize(
    "query",
    ["action=explode&status=completed", "status=completed", "action=retry&status=completed", "action=delete&id=1"],
)
def test_a_question_that_makes_no_sense_is_refused(visitor: APIRequestContext, query: str) -> None:
    assert visitor.get(f"/jobs/bulk?{query}").status == 400


def test_a_change_between_question_and_answer_is_respected(world: World, page: Page, topic: str) -> None:
    make(world, topic, 3, "DEAD_LETTERED")
    page.goto(f"/jobs/bulk?action=retry&status=dead_lettered&topic={topic}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Retry 3 jobs?")
    world.execute(
        "UPDATE jobs SET status = 'COMPLETED' WHERE ctid = (SELECT min(ctid) FROM jobs WHERE topic = $1)", topic
    )
    confirm(page, "Retry")
    expect(page.get_by_role("status")).to_have_text("2 jobs retried.")
    assert world.statuses(topic) == {"PENDING": 2, "COMPLETED": 1}
