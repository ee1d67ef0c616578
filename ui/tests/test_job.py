"""One job: what its page shows, and what can be done from there."""

import re
from datetime import timedelta

import pytest
from playwright.sync_api import Locator, Page, expect

import pulse

from .watch import Watch
from .world import World


def act(page: Page, name: str) -> None:
    """Use a button of the page."""
    page.get_by_role("button", name=name, exact=True).click()


def status(page: Page) -> Locator:
    """The badge beside the title."""
    return page.get_by_role("heading", level=1).locator("[data-status]")


def test_a_dead_job_shows_all_that_happened_to_it(world: World, page: Page, topic: str) -> None:
    job = world.pulse.enqueue(topic, {"n": 1}, max_attempts=2, tags=["eu"], backoff=pulse.Backoff(base=0.001))
    with world.worker(topic) as worker:
        worker.fail("ValueError: first")
        worker.fail("Traceback:\n  File x\nValueError: <second>")
        page.goto(f"/jobs/{job}")
        expect(status(page)).to_have_text("Dead lettered")
        for attempt, error in ((1, "ValueError: first"), (2, "Traceback:\n  File x\nValueError: <second>")):
            expect(page.get_by_label(f"Error of attempt {attempt}")).to_have_text(error, use_inner_text=True)
        attempts = page.get_by_role("table", name="Attempts")
        expect(attempts.get_by_role("row").filter(has_text="Failed")).to_have_count(2)
        expect(attempts).to_contain_text(worker.id)
        main = page.get_by_role("main")
        for fact in ("2 of 2 spent", "eu", "Submitted", "Attempt 1 failed", "Attempt 2 started", job):
            expect(main).to_contain_text(fact)


def test_a_running_job_shows_who_has_it_and_until_when(world: World, page: Page, topic: str) -> None:
    job = world.pulse.enqueue(topic, {})
    with world.worker(topic) as worker:
        worker.take()
        page.goto(f"/jobs/{job}")
        expect(status(page)).to_have_text("Running")
        lease = world.pulse.get_job(job).lease_until
        assert lease is not None
        expect(page.get_by_role("main")).to_contain_text(f"{lease:%Y-%m-%d %H:%M:%S} UTC")
        expect(page.get_by_role("region", name="Why it is where it is")).to_contain_text(worker.id)
        countdown = page.locator("[data-until]")
        expect(countdown).to_have_text(re.compile(r"\d+s"))
        seen = countdown.inner_text()
        expect(countdown).not_to_have_text(seen)  # it counts by itself


def test_a_retrying_job_shows_its_next_retry(world: World, page: Page, topic: str) -> None:
    job = world.pulse.enqueue(topic, {})
    with world.worker(topic) as worker:
        worker.fail("not yet", retry_after=timedelta(minutes=30))
    page.goto(f"/jobs/{job}")
    expect(page.get_by_role("main")).to_contain_text("Next retry")
    expect(page.get_by_role("main")).to_contain_text(re.compile(r"in (29m|30m)"))


@pytest.mark.parametrize("reason", ["no worker", "paused", "later"])
def test_it_says_why_a_job_does_not_run(world: World, page: Page, topic: str, reason: str) -> None:
    job = world.pulse.enqueue(topic, {}, delay=3600 if reason == "later" else 0)
    if reason == "paused":
        world.pulse.pause_dispatch(topic, reason="spring cleaning")
    page.goto(f"/jobs/{job}")
    explained = page.get_by_role("region", name="Why it is where it is")
    expect(explained).to_contain_text(world.pulse.explain_job(job).text.split(" in ")[0][:40])
    expect(explained).to_contain_text({"no worker": "worker", "paused": "spring cleaning", "later": "UTC"}[reason])


def test_lineage_leads_to_the_schedule(world: World, page: Page, topic: str) -> None:
    schedule = world.pulse.create_schedule(topic, {}, pulse.Every(timedelta(days=1)), name=topic)
    job = world.pulse.trigger_schedule(schedule.id).job_id
    page.goto(f"/jobs/{job}")
    page.get_by_role("link", name="made by a schedule").click()
    expect(page).to_have_url(f"/schedules/{schedule.id}")


def test_cancel_of_a_waiting_job(world: World, page: Page, topic: str) -> None:
    job = world.pulse.enqueue(topic, {})
    page.goto(f"/jobs/{job}")
    act(page, "Cancel…")
    expect(page.get_by_role("dialog", name="Cancel this job?")).to_be_visible()
    assert world.statuses(topic) == {"PENDING": 1}
    act(page, "Cancel job")
    expect(page.get_by_role("status")).to_have_text("The job is canceled: it will not run.")
    expect(status(page)).to_have_text("Canceled")
    assert world.statuses(topic) == {"CANCELED": 1}


def test_cancel_of_a_running_job_reaches_its_worker(world: World, page: Page, topic: str) -> None:
    job = world.pulse.enqueue(topic, {})
    with world.worker(topic) as worker:
        (running,) = worker.take()
        page.goto(f"/jobs/{job}")
        act(page, "Cancel…")
        act(page, "Cancel job")
        expect(page.get_by_role("status")).to_contain_text("asked to stop")
        assert worker.cancellation().job_id == job
        worker.report_failure(running, "stopped as told")
        expect(status(page)).to_have_text("Canceled")  # without a reload
        assert world.statuses(topic) == {"CANCELED": 1}


def test_who_thinks_again_leaves_the_job_alone(world: World, page: Page, topic: str) -> None:
    job = world.pulse.enqueue(topic, {})
    page.goto(f"/jobs/{job}")
    for button in ("Cancel…", "Delete…"):
        act(page, button)
        page.get_by_role("dialog").get_by_role("button", name="Leave it").click()
        expect(page.get_by_role("dialog")).to_have_count(0)
    assert world.statuses(topic) == {"PENDING": 1}


def test_retry_now_of_a_dead_job(world: World, page: Page, topic: str) -> None:
    job = world.pulse.enqueue(topic, {})
    with world.worker(topic) as worker:
        worker.fail("for good", discard=True)
    page.goto(f"/jobs/{job}")
    act(page, "Retry now")
    expect(page.get_by_role("status")).to_have_text("The job is ready to run again, with fresh attempts.")
    found = world.pulse.get_job(job)
    assert (found.status, found.attempts_spent) == (pulse.JobStatus.PENDING, 0)


def test_run_again_makes_a_new_job_like_it(world: World, page: Page, topic: str) -> None:
    payload = b'{"big": 12345678901234567890, "big": 1}'
    options = pulse.SubmitOptions(
        priority=3,
        max_attempts=7,
        tags=["a", "b"],
        metadata={"trace": "1"},
        timeout=30,
        content_type="application/json",
    )
    job = world.pulse.enqueue(topic, payload, **options)
    with world.worker(topic) as worker:
        worker.complete()
    page.goto(f"/jobs/{job}")
    act(page, "Run again as a new job")
    expect(page.get_by_role("status")).to_contain_text("A new job was submitted")
    again = world.pulse.get_job(page.url.rpartition("/")[2])
    old = world.pulse.get_job(job)
    assert again.id != job
    assert old.status is pulse.JobStatus.COMPLETED
    assert (again.topic, again.payload, again.content_type) == (topic, payload, "application/json")
    for name in ("priority", "max_attempts", "tags", "timeout", "backoff", "lease"):
        assert getattr(again.options, name) == getattr(old.options, name), name
    assert again.options.metadata["trace"] == "1"
    page.get_by_role("link", name=job).click()
    expect(page).to_have_url(f"/jobs/{job}")


def test_change_of_priority(world: World, page: Page, topic: str) -> None:
    job = world.pulse.enqueue(topic, {}, priority=1)
    page.goto(f"/jobs/{job}")
    page.get_by_label("Priority", exact=True).fill("-42")
    act(page, "Change priority")
    expect(page.get_by_role("status")).to_have_text("The priority is -42 now.")
    assert world.pulse.get_job(job).priority == -42


def test_delete(world: World, page: Page, watch: Watch, topic: str) -> None:
    job = world.pulse.enqueue(topic, {})
    page.goto(f"/jobs/{job}")
    act(page, "Delete…")
    act(page, "Delete job")
    expect(page.get_by_role("status")).to_have_text(f"Job {job} is deleted.")
    assert world.statuses(topic) == {}
    watch.expect_status(404)
    answer = page.goto(f"/jobs/{job}")
    assert answer is not None
    assert answer.status == 404
    expect(page.get_by_role("heading", level=1)).to_have_text("Not here")


def test_an_action_that_came_too_late_says_why_nothing_was_done(world: World, page: Page, topic: str) -> None:
    job = world.pulse.enqueue(topic, {})
    page.goto(f"/jobs/{job}")
    act(page, "Cancel…")  # while it is open the page stands still
    with world.worker(topic) as worker:
        worker.complete()
    act(page, "Cancel job")
    expect(page.get_by_role("alert").filter(has_text="Nothing was done")).to_contain_text("COMPLETED")
    assert world.statuses(topic) == {"COMPLETED": 1}


def test_a_message_is_told_once(world: World, page: Page, topic: str) -> None:
    job = world.pulse.enqueue(topic, {})
    page.goto(f"/jobs/{job}")
    act(page, "Run again as a new job")
    expect(page.get_by_role("status")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_role("status")).to_have_count(0)


@pytest.mark.parametrize("path", ["/jobs/17", "/jobs/0199a111-0000-7000-8000-0000000000ff", "/schedules/x", "/nowhere"])
def test_what_is_not_there_is_a_page_that_says_so(page: Page, watch: Watch, path: str) -> None:
    watch.expect_status(404)
    answer = page.goto(path)
    assert answer is not None
    assert answer.status == 404
    expect(page.get_by_role("link", name="To the overview")).to_be_visible()
