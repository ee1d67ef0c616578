"""Workers: who is connected, and what each one holds."""

from playwright.sync_api import Page, expect

from .world import World


def test_a_worker_shows_what_it_is_and_leads_to_what_it_holds(world: World, page: Page, topic: str) -> None:
    world.pulse.enqueue_many(topic, [{}] * 3)
    with world.worker(topic, f"{topic}-too", host="shop-worker-7", capacity=2) as worker:
        worker.take(2)
        page.goto("/workers")
        row = page.get_by_role("row").filter(has_text=worker.id)
        for text in ("shop-worker-7", "2/2", topic, f"{topic}-too"):
            expect(row).to_contain_text(text)
        expect(row.get_by_role("meter")).to_have_accessible_name("2 of 2 slots used")
        row.get_by_role("link", name=worker.id).click()
        expect(page.get_by_role("table", name="Jobs").locator("tbody").get_by_role("row")).to_have_count(2)


def test_workers_of_a_topic_alone(world: World, page: Page, topic: str) -> None:
    with world.worker(topic) as wanted, world.worker("another") as other:
        page.goto("/topics")
        page.get_by_role("row").filter(has_text=topic).get_by_role("link", name="1", exact=True).click()
        expect(page.get_by_role("row").filter(has_text=wanted.id)).to_be_visible()
        expect(page.get_by_role("row").filter(has_text=other.id)).to_have_count(0)


def test_who_comes_and_goes_is_seen_without_a_reload(world: World, page: Page, topic: str) -> None:
    page.goto(f"/workers?topic={topic}")
    expect(page.get_by_role("heading", name="No worker is connected")).to_be_visible()
    with world.worker(topic) as worker:
        expect(page.get_by_role("row").filter(has_text=worker.id)).to_be_visible()
    expect(page.get_by_role("heading", name="No worker is connected")).to_be_visible()
