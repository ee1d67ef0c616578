"""The geometry of charts: bars stand where and as high as their numbers say."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulse import Traffic
from pulse_ui.charts import HEIGHT, SPARK_BARS, WIDTH, bar_chart, nice_top, sparkline

MINUTE = timedelta(minutes=1)
COUNTS = st.lists(st.integers(0, 10**9), max_size=100)


def traffic(completed: list[int]) -> list[Traffic]:
    """Minutes in which so many were completed, and twice as many submitted."""
    start = datetime(2027, 1, 1, tzinfo=UTC)
    return [
        Traffic(
            start=start + place * MINUTE, length=MINUTE, submitted=2 * count, completed=count, failed=0, dead_lettered=0
        )
        for place, count in enumerate(completed)
    ]


@given(COUNTS)
def test_bars_stay_within_the_chart_and_in_order(completed: list[int]) -> None:
    chart = bar_chart("jobs", traffic(completed), ("submitted", "completed"))
    assert len(chart.bars) == len(completed)
    assert [bar.x for bar in chart.bars] == sorted(bar.x for bar in chart.bars)
    for bar in chart.bars:
        assert bar.x >= 0
        assert bar.x + bar.width <= WIDTH + 0.01
        for top, height in zip(bar.tops, bar.heights, strict=True):
            assert 0 <= height <= HEIGHT
            assert top + height == pytest.approx(HEIGHT)
    assert chart.totals == (2 * sum(completed), sum(completed))
    assert chart.is_empty == (not any(completed))


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=60))
def test_a_bar_is_as_high_as_its_share_of_the_axis(completed: list[int]) -> None:
    chart = bar_chart("jobs", traffic(completed), ("completed",))
    for bar, count in zip(chart.bars, completed, strict=True):
        assert bar.heights[0] == pytest.approx(HEIGHT * count / chart.top, abs=0.01)


@given(st.integers(0, 10**12))
def test_the_axis_ends_at_a_round_number_just_above(largest: int) -> None:
    top = nice_top(largest)
    assert str(top).rstrip("0") in ("1", "2", "5")
    assert largest <= top
    assert top <= 1 or top < 2.5 * largest


@given(COUNTS)
def test_a_sparkline_is_short_and_reaches_the_top_where_it_is_busiest(counts: list[int]) -> None:
    bars = sparkline(counts)
    assert len(bars) <= SPARK_BARS
    assert all(0 <= bar <= 1 for bar in bars)
    assert not any(counts) or max(bars) == 1
