"""Live without harm: what is new appears by itself, and never disturbs the person in front of it.

Where a test is about what does not happen, time is the browser's fake one: ten seconds pass at once.
"""

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from .watch import Watch
from .world import World


def row(page: Page, job: str) -> Locator:
    """The row of a job."""
    return page.get_by_role("row").filter(has_text=job)


def refreshes(watch: Watch) -> int:
    """How often a live part was asked for."""
    return sum("hx-request" in request.headers for request in watch.requests)


def hide(page: Page) -> None:
    """Look at another tab: a browser without a screen has no other way to say so."""
    page.evaluate("Object.defineProperty(document, 'visibilityState', {value: 'hidden', configurable: true})")


def unhide(page: Page) -> None:
    """Come back."""
    page.evaluate("delete document.visibilityState; document.dispatchEvent(new Event('visibilitychange'))")


def leave_in_field(page: Page, text: str) -> None:
    """Type something and go elsewhere."""
    page.get_by_label("Job id").fill(text)
    page.get_by_label("Job id").blur()


def test_what_is_new_appears_by_itself_and_what_changes_changes(world: World, page: Page, topic: str) -> None:
    page.goto(f"/jobs?topic={topic}")
    expect(page.get_by_role("heading", name="No jobs match")).to_be_visible()
    job = world.pulse.enqueue(topic, {})
    expect(row(page, job).locator("[data-status]")).to_have_text("Pending")
    with world.worker(topic) as worker:
        worker.complete()
    expect(row(page, job).locator("[data-status]")).to_have_text("Completed")


# What a person does, and how it ends.
HOLDS: dict[str, tuple[Callable[[Page], None], Callable[[Page], None]]] = {
    "typing": (
        lambda page: page.get_by_label("Topic", exact=True).focus(),
        lambda page: page.get_by_label("Topic", exact=True).blur(),
    ),
    "a field that is filled in": (
        lambda page: leave_in_field(page, "half an id"),
        lambda page: leave_in_field(page, ""),
    ),
    "a selected row": (
        lambda page: page.get_by_role("checkbox", name="Select job").first.check(),
        lambda page: page.get_by_role("checkbox", name="Select job").first.uncheck(),
    ),
    "selected text": (
        lambda page: page.evaluate("getSelection().selectAllChildren(document.querySelector('h1'))"),
        lambda page: page.evaluate("getSelection().removeAllRanges()"),
    ),
    "an open dialog": (
        lambda page: page.keyboard.press("?"),
        lambda page: page.keyboard.press("Escape"),
    ),
    "an open menu": (
        lambda page: page.get_by_text("All that match…").first.click(),
        lambda page: page.get_by_text("All that match…").first.click(),
    ),
    "a hidden tab": (hide, unhide),
    "the switch": (
        lambda page: page.get_by_role("button", name="Live").click(),
        lambda page: page.get_by_role("button", name="Paused").click(),
    ),
}


@pytest.mark.parametrize("hold", HOLDS)
def test_nothing_moves_while_a_person_is_at_it(world: World, page: Page, watch: Watch, topic: str, hold: str) -> None:
    begin, end = HOLDS[hold]
    world.pulse.enqueue(topic, {})
    page.clock.install()
    page.goto(f"/jobs?topic={topic}")
    begin(page)
    before = refreshes(watch)
    job = world.pulse.enqueue(topic, {})
    page.clock.run_for(10_000)
    assert refreshes(watch) == before
    expect(row(page, job)).to_have_count(0)
    end(page)
    with page.expect_response(lambda answer: "hx-request" in answer.request.headers):
        page.clock.run_for(2_500)
    expect(row(page, job)).to_be_visible()


def test_what_is_typed_survives_and_so_does_the_answer_that_comes_meanwhile(
    world: World, page: Page, watch: Watch, topic: str
) -> None:
    held: list[Route] = []
    page.goto(f"/jobs?topic={topic}")
    page.route(
        "**/jobs?*", lambda route: held.append(route) if "hx-request" in route.request.headers else route.continue_()
    )
    with page.expect_request(lambda request: "hx-request" in request.headers):
        job = world.pulse.enqueue(topic, {})
    page.get_by_label("Error contains").press_sequentially("Time")
    with page.expect_response(lambda answer: "hx-request" in answer.request.headers) as answered:
        held[0].continue_()
    assert job in answered.value.text()
    page.get_by_label("Error contains").press_sequentially("out")
    expect(page.get_by_label("Error contains")).to_have_value("Timeout")
    expect(page.get_by_label("Error contains")).to_be_focused()
    expect(row(page, job)).to_have_count(0)


def test_open_details_focus_and_place_survive(world: World, page: Page, topic: str) -> None:
    first = world.pulse.enqueue_many(topic, [{}] * 40)[0]
    page.goto(f"/jobs?topic={topic}")
    page.get_by_text("More filters").click()
    page.get_by_role("link", name=first).focus()
    page.evaluate("scrollTo(0, 400)")
    job = world.pulse.enqueue(topic, {})
    expect(row(page, job)).to_be_visible()
    expect(page.get_by_role("link", name=first)).to_be_focused()
    expect(page.get_by_label("Tag", exact=True)).to_be_visible()
    assert page.evaluate("scrollY") > 300


def test_the_numbers_behind_a_chart_stay_open(world: World, page: Page, topic: str) -> None:
    page.goto("/")
    page.get_by_text("Numbers").first.click()
    table = page.get_by_role("table", name="by time").first
    expect(table).to_be_visible()
    waiting = page.get_by_role("list", name="Jobs by status").get_by_role("link", name="Pending")
    before = waiting.inner_text()
    world.pulse.enqueue(topic, {})
    expect(waiting).not_to_have_text(before, use_inner_text=True)
    expect(table).to_be_visible()


def test_back_forward_and_reload_keep_the_state(world: World, page: Page, topic: str) -> None:
    jobs = world.pulse.enqueue_many(topic, [{}] * 70)
    page.goto("/jobs")
    page.get_by_label("Topic", exact=True).fill(topic)
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_role("checkbox", name="Select job")).to_have_count(20)
    second = page.url
    page.get_by_role("link", name=jobs[0]).click()
    expect(page).to_have_url(f"/jobs/{jobs[0]}")
    page.go_back()
    expect(page).to_have_url(second)
    expect(page.get_by_role("checkbox", name="Select job")).to_have_count(20)
    page.reload()
    expect(page.get_by_role("checkbox", name="Select job")).to_have_count(20)
    page.go_back()
    expect(page.get_by_role("checkbox", name="Select job")).to_have_count(50)
    page.go_forward()
    expect(page).to_have_url(second)
    assert urlsplit(page.url).query.startswith(f"topic={topic}")


def test_a_dashboard_that_is_away_is_told_and_found_again(world: World, page: Page, watch: Watch, topic: str) -> None:
    watch.expect_absence()
    page.goto(f"/jobs?topic={topic}")
    page.route("**/*", lambda route: route.abort())
    notice = page.get_by_role("alert").filter(has_text="The dashboard does not answer")
    expect(notice).to_be_visible()
    page.unroute_all()
    expect(notice).to_be_hidden()
