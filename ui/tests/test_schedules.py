"""Schedules: what they will do, and everything that can be done to them."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Locator, Page, expect

import pulse

from .watch import Watch
from .world import World

DAILY = pulse.Cron("0 9 * * *", tz="Europe/Berlin")


def make(world: World, name: str, timing: pulse.Timing = DAILY) -> pulse.ScheduleInfo:
    """A schedule with arguments."""
    return world.pulse.create_schedule("reports", {"daily": True}, timing, name=name)


def state(page: Page) -> Locator:
    """The badge beside the title."""
    return page.get_by_role("heading", level=1).locator("[data-status]")


def act(page: Page, name: str) -> None:
    """Use a button of the page."""
    page.get_by_role("button", name=name, exact=True).click()


def test_the_list_tells_when_each_fires(world: World, page: Page, topic: str) -> None:
    make(world, topic)
    page.goto("/schedules")
    row = page.get_by_role("row").filter(has_text=topic)
    for text in ("every day at 09:00", "0 9 * * *", "Europe/Berlin", "reports", "Active"):
        expect(row).to_contain_text(text)
    row.get_by_role("link", name=topic).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(topic)


def test_the_page_of_one_shows_the_next_five_runs_and_the_last_fires(world: World, page: Page, topic: str) -> None:
    schedule = make(world, topic)
    fired = [world.pulse.trigger_schedule(schedule.id).job_id for _ in range(2)]
    page.goto(f"/schedules/{schedule.id}")
    expect(page.get_by_role("main")).to_contain_text("every day at 09:00")
    runs = page.get_by_role("listitem").locator("time")
    days = [moment.astimezone(ZoneInfo("Europe/Berlin")).date() for moment in schedule.upcoming]
    assert len(days) == 5
    expect(runs).to_have_text([f"{day} 09:00:00 Europe/Berlin" for day in days])
    for job in fired:
        expect(page.get_by_role("table", name="Jobs that it made").get_by_role("link", name=job)).to_be_visible()
    expect(page.get_by_role("region", name="Payload")).to_have_text('{"daily":true}')


def test_create_by_cron(world: World, page: Page, topic: str) -> None:
    page.goto("/schedules")
    page.get_by_role("link", name="New schedule").first.click()
    page.get_by_label("Name", exact=True).fill(topic)
    page.get_by_label("Topic", exact=True).fill("reports")
    page.get_by_label("Payload").fill('{"big": 12345678901234567890}')
    page.get_by_label("Cron expression", exact=True).fill("30 9 * * 1-5")
    page.get_by_label("Time zone").fill("Europe/Lisbon")
    page.get_by_label("Priority").fill("5")
    page.get_by_label("Attempts").fill("9")
    page.get_by_label("Time limit").fill("30s")
    page.get_by_label("Tags").fill("eu, daily")
    page.get_by_label("Missed runs").select_option("Fire all of them")
    page.get_by_label("At most").fill("7")
    act(page, "Create schedule")
    expect(page.get_by_role("status")).to_have_text(f"{topic} is created.")
    made = world.pulse.get_schedule(page.url.rpartition("/")[2])
    assert made.timing == pulse.Cron("30 9 * * 1-5", tz="Europe/Lisbon")
    assert made.payload == b'{"big": 12345678901234567890}'
    assert (made.name, made.topic, made.content_type) == (topic, "reports", "application/json")
    assert (made.misfire_policy, made.misfire_limit) == (pulse.MisfirePolicy.ALL, 7)
    options = made.options
    assert (options.priority, options.max_attempts, options.timeout) == (5, 9, timedelta(seconds=30))
    assert options.tags == ("eu", "daily")


@pytest.mark.parametrize("kind", ["rhythm", "once"])
def test_create_of_the_other_kinds(world: World, page: Page, topic: str, kind: str) -> None:
    moment = datetime(2030, 1, 31, 9, 0, tzinfo=UTC)
    page.goto("/schedules/new?topic=reports")
    expect(page.get_by_label("Topic", exact=True)).to_have_value("reports")
    page.get_by_label("Name", exact=True).fill(topic)
    if kind == "rhythm":
        page.get_by_label("In a rhythm").check()
        page.get_by_label("Interval").fill("12h")
        page.get_by_label("First run").fill("2030-01-31T09:00")
    else:
        page.get_by_label("Once").check()
        page.get_by_label("Moment").fill("2030-01-31T10:00+01:00")
    act(page, "Create schedule")
    expect(page.get_by_role("status")).to_have_text(f"{topic} is created.")
    made = world.pulse.get_schedule(page.url.rpartition("/")[2])
    assert made.timing == (pulse.Every(timedelta(hours=12), start=moment) if kind == "rhythm" else pulse.At(moment))


MISTAKES = {
    "Name": ("", "is needed"),
    "Topic": ("", "is needed"),
    "Payload": ('{"a": ', "is not JSON"),
    "Cron expression": ("every day", "is not a cron expression"),
    "Time zone": ("Europe/Atlantis", "is not a known time zone"),
    "Priority": ("high", "is not a whole number"),
    "Attempts": ("0", "is not a whole number from 1 to 1000"),
    "Time limit": ("soon", "is not a duration"),
    "At most": ("-1", "is not a whole number"),
    "Tags": ("x" * 1000, "is 1000 bytes long"),
}


@pytest.mark.parametrize("label", MISTAKES)
def test_a_mistake_is_told_at_its_field_and_what_was_typed_stays(
    world: World, page: Page, watch: Watch, topic: str, label: str
) -> None:
    watch.expect_status(422)
    wrong, text = MISTAKES[label]
    typed = {"Name": topic, "Topic": "reports", "Cron expression": "0 4 * * *", "Time zone": "Europe/Paris"}
    typed |= {"Payload": '{"kept":   1}', "Tags": "kept", label: wrong}
    page.goto("/schedules/new")
    for name, value in typed.items():
        page.get_by_label(name, exact=True).fill(value)
    act(page, "Create schedule")
    expect(page.get_by_role("alert").filter(has_text="Nothing was stored")).to_be_visible()
    field = page.get_by_label(label, exact=True)
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_accessible_description(re.compile(re.escape(text)))
    for name, value in typed.items():
        expect(page.get_by_label(name, exact=True)).to_have_value(value)
    assert world.value("SELECT count(*) FROM schedules WHERE name = $1", topic) == 0


def test_a_name_that_is_taken_is_told_at_its_field(world: World, page: Page, watch: Watch, topic: str) -> None:
    watch.expect_status(422)
    make(world, topic)
    page.goto("/schedules/new?topic=reports")
    page.get_by_label("Name", exact=True).fill(topic)
    page.get_by_label("Cron expression", exact=True).fill("0 4 * * *")
    act(page, "Create schedule")
    expect(page.get_by_label("Name", exact=True)).to_have_accessible_description("Name is taken by another schedule")


def test_edit_replaces_what_was_changed_and_keeps_the_rest(world: World, page: Page, topic: str) -> None:
    timing = pulse.Every(timedelta(minutes=90), start=datetime(2030, 1, 1, 0, 0, 0, 123456, tzinfo=UTC))
    schedule = world.pulse.create_schedule(
        "reports",
        {"n": 1},
        timing,
        name=topic,
        misfire="skip",
        priority=3,
        metadata={"trace": "1"},
        backoff=pulse.Backoff(pulse.BackoffKind.FIXED, base=5),
        unique="one at a time",
        lease=60,
    )
    page.goto(f"/schedules/{schedule.id}")
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Attempts").fill("2")
    act(page, "Save changes")
    expect(page.get_by_role("status")).to_have_text(f"{topic} is changed.")
    changed = world.pulse.get_schedule(schedule.id)
    assert changed.options.max_attempts == 2
    for name in ("priority", "metadata", "backoff", "unique", "lease", "tags", "timeout"):
        assert getattr(changed.options, name) == getattr(schedule.options, name), name
    assert (changed.timing, changed.payload) == (timing, schedule.payload)
    assert (changed.misfire_policy, changed.misfire_limit) == (schedule.misfire_policy, schedule.misfire_limit)


def test_pause_and_resume(world: World, page: Page, topic: str) -> None:
    schedule = make(world, topic)
    page.goto(f"/schedules/{schedule.id}")
    act(page, "Pause")
    expect(page.get_by_role("status")).to_contain_text("The schedule is paused.")
    expect(state(page)).to_have_text("Paused")
    assert world.pulse.get_schedule(schedule.id).paused
    act(page, "Resume")
    expect(page.get_by_role("status")).to_contain_text("The schedule goes on; it next fires at")
    expect(state(page)).to_have_text("Active")
    assert not world.pulse.get_schedule(schedule.id).paused


def test_run_now_makes_one_job(world: World, page: Page, topic: str) -> None:
    schedule = make(world, topic)
    page.goto(f"/schedules/{schedule.id}")
    act(page, "Run now")
    expect(page.get_by_role("status")).to_contain_text("One job was made now")
    (job,) = world.rows("SELECT id, topic FROM jobs WHERE schedule_id = $1", schedule.id)
    assert job["topic"] == "reports"
    page.get_by_role("status").get_by_role("link", name="Look at the job").click()
    expect(page).to_have_url(f"/jobs/{job['id']}")


def test_delete_asks_first(world: World, page: Page, topic: str) -> None:
    schedule = make(world, topic)
    page.goto(f"/schedules/{schedule.id}")
    act(page, "Delete…")
    assert world.pulse.get_schedule(schedule.id).name == topic
    act(page, "Delete schedule")
    expect(page.get_by_role("status")).to_have_text("The schedule is deleted. The jobs that it made stay.")
    expect(page).to_have_url("/schedules")
    assert world.value("SELECT count(*) FROM schedules WHERE name = $1", topic) == 0


def test_many_schedules_are_paged(world: World, page: Page, topic: str) -> None:
    names = [f"{topic} {number:03}" for number in range(120)]
    for name in names:
        make(world, name)
    seen: list[str] = []
    page.goto("/schedules")
    while True:
        seen += page.get_by_role("table", name="Schedules").locator("tbody tr td:first-child").all_inner_texts()
        following = page.get_by_role("link", name="Next", exact=True)
        if not following.count():
            break
        following.click()
        expect(page.get_by_role("link", name="Previous")).to_be_visible()
    assert [name for name in seen if name.startswith(topic)] == names
    assert len(seen) == len(set(seen))
