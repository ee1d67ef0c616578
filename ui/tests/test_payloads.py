"""Payloads and errors are shown exactly as they are stored, and copied exactly."""

import json

import pytest
from playwright.sync_api import Page, expect

import pulse

from .conftest import OpenContext
from .world import World

TEXTS = {
    "big integers": '{"id": 12345678901234567890123, "price": 1.10, "exp": 1e400}',
    "duplicate keys": '{"a": 1, "a": 2,   "b" :null}',
    "unicode": '{"name": "Ада ☃ 🎉 e\u0301 \u202e right to left", "nbsp": "\u00a0"}',
    "escapes": '{"newline": "\\n", "unicode": "\\u0041\\/"}',
    "lines": '\n\n{\n\t"a":\r\n  1\n}\n\n',
    "markup": '{"x": "</pre><script>alert(1)</script><b>&amp;&lt;"}',
    "plain": "not JSON at all, 'quoted' \"twice\"",
    "large": json.dumps({"text": "<&> é 12345678901234567890 " * 8000}, ensure_ascii=False),
}


def show(world: World, page: Page, topic: str, payload: bytes, content_type: str = "text/plain") -> None:
    """The page of a job with this payload."""
    page.goto(f"/jobs/{world.pulse.enqueue(topic, payload, content_type=content_type)}")


@pytest.mark.parametrize("kind", TEXTS)
def test_text_is_shown_and_copied_exactly(world: World, open_context: OpenContext, topic: str, kind: str) -> None:
    page = open_context(permissions=["clipboard-read", "clipboard-write"]).new_page()
    show(world, page, topic, TEXTS[kind].encode())
    region = page.get_by_role("region", name="Payload")
    assert region.evaluate("element => element.textContent") == TEXTS[kind]
    page.locator("#payload").get_by_role("button", name="Copy").click()
    expect(page.locator("#payload").get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == TEXTS[kind]


def test_bytes_are_dumped_with_their_size(world: World, page: Page, topic: str) -> None:
    show(world, page, topic, b"\x00\xff\x80 bytes", "application/octet-stream")
    region = page.get_by_role("region", name="Payload")
    expect(region).to_contain_text("00 ff 80 20 62 79 74 65 73")
    expect(page.get_by_role("main")).to_contain_text("9 bytes")


@pytest.mark.parametrize("payload", [b"\x00\xff" * 50_000, TEXTS["large"].encode()], ids=["bytes", "text"])
def test_the_whole_payload_can_be_had_as_a_file(world: World, page: Page, topic: str, payload: bytes) -> None:
    show(world, page, topic, payload, "application/octet-stream")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download all").click()
    assert download.value.path().read_bytes() == payload


def test_an_empty_payload_is_said_to_be_empty(world: World, page: Page, topic: str) -> None:
    show(world, page, topic, b"")
    expect(page.get_by_role("main")).to_contain_text("It is empty.")


def test_errors_are_shown_and_copied_exactly(world: World, open_context: OpenContext, topic: str) -> None:
    error = "\n  indented <b>&lt; 12345678901234567890\n\ttab é 🎉\r\nend\n"
    page = open_context(permissions=["clipboard-read", "clipboard-write"]).new_page()
    job = world.pulse.enqueue(topic, {})
    with world.worker(topic) as worker:
        worker.fail(error, discard=True)
    assert world.pulse.get_job(job).failures[0].error == error
    page.goto(f"/jobs/{job}")
    region = page.get_by_role("region", name="Error of attempt 1")
    assert region.evaluate("element => element.textContent") == error
    page.get_by_role("table", name="Attempts").get_by_role("button", name="Copy").click()
    assert page.evaluate("navigator.clipboard.readText()") == error


def test_an_edit_that_leaves_the_payload_alone_keeps_every_byte(world: World, page: Page, topic: str) -> None:
    payload = b'\r\n{"a": 12345678901234567890,\r\n "a": 1.0}\n\n'
    timing = pulse.Cron("0 3 * * *")
    schedule = world.pulse.create_schedule(topic, payload, timing, name=topic, content_type="application/json")
    page.goto(f"/schedules/{schedule.id}/edit")
    page.get_by_label("Cron expression", exact=True).fill("30 3 * * *")
    page.get_by_role("button", name="Save changes").click()
    expect(page.get_by_role("status")).to_contain_text("changed")
    changed = world.pulse.get_schedule(schedule.id)
    assert changed.payload == payload
    assert changed.timing == pulse.Cron("30 3 * * *")
