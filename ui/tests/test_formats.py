"""Numbers, times, payloads and errors as people read them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pulse
from pulse_ui import formats
from pulse_ui.payloads import show_payload

NOON = datetime(2027, 1, 31, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (-3, "0 ms"),
        (0.0004, "0 ms"),
        (0.85, "850 ms"),
        (1, "1 s"),
        (1.24, "1.2 s"),
        (59, "59s"),
        (185, "3m 5s"),
        (3600, "1h"),
        (7800, "2h 10m"),
        (356400, "4d 3h"),
        (86405, "1d 5s"),
    ],
)
def test_spans(seconds: float, text: str) -> None:
    assert formats.span(timedelta(seconds=seconds)) == formats.span(seconds) == text


@given(st.floats(0, 10**9))
def test_a_span_is_never_without_a_unit(seconds: float) -> None:
    assert formats.span(seconds)[-1] in "smhd"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "now"), (-0.4, "now"), (-12, "12s ago"), (-3, "3s ago"), (185, "in 3m 5s"), (-7800, "2h 10m ago")],
)
def test_distances_in_time(seconds: float, text: str) -> None:
    assert formats.relative(NOON + timedelta(seconds=seconds), NOON) == text


def test_counts_say_when_they_stopped_counting() -> None:
    assert formats.capped(pulse.JobCount(count=1234, capped=False)) == "1,234"
    assert formats.capped(pulse.JobCount(count=10000, capped=True)) == "10,000+"
    assert formats.plural(1, "job") == "1 job"
    assert formats.plural(2000, "job") == "2,000 jobs"


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (950, "950"), (1000, "1k"), (1250, "1.2k"), (3_400_000, "3.4M")])
def test_axes(value: int, text: str) -> None:
    assert formats.compact(value) == text


def test_the_last_line_of_a_traceback_stands_for_it() -> None:
    assert formats.last_line("Traceback:\n  File x\nValueError: no\n\n") == "ValueError: no"
    assert formats.last_line(None) == formats.last_line("") == formats.last_line("\n") == ""


@given(st.text())
def test_text_is_shown_as_it_is_or_as_bytes(text: str) -> None:
    shown = show_payload(text.encode())
    assert not shown.is_text or shown.text == text
    assert shown.is_text == all(
        (character >= " " and character != "\x7f") or character in "\t\r\n" for character in text
    )


@given(st.binary(max_size=100))
def test_a_dump_holds_every_byte(payload: bytes) -> None:
    shown = show_payload(b"\xff" + payload)
    codes = "".join(line[10:57] for line in shown.text.splitlines())
    assert bytes.fromhex(codes) == b"\xff" + payload
    assert not shown.is_text
    assert not shown.cut


def test_a_long_dump_says_that_it_is_cut() -> None:
    shown = show_payload(b"\xff" * 100_000)
    assert shown.cut
    assert len(shown.text) < 100_000
