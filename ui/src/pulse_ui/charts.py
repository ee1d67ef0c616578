"""Charts as bars in an SVG, computed here and drawn by a template; the numbers stand in a table behind."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from pulse import Traffic

WIDTH = 600.0
HEIGHT = 120.0
SPARK_BARS = 30


@dataclass(frozen=True)
class Bar:
    """One span of time: its bars of two series, in the SVG's own units."""

    x: float
    width: float
    tops: tuple[float, ...]
    heights: tuple[float, ...]
    traffic: Traffic


@dataclass(frozen=True)
class Chart:
    """Bars of equal width, and what its axis says."""

    title: str
    series: tuple[str, ...]
    bars: tuple[Bar, ...]
    top: int
    totals: tuple[int, ...]
    length: timedelta

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not any(self.totals)


def bar_chart(title: str, traffic: Sequence[Traffic], series: tuple[str, ...]) -> Chart:
    """A chart of some of the numbers in the traffic, each series drawn over the one before."""
    values = [tuple(int(getattr(each, name)) for name in series) for each in traffic]
    top = nice_top(max((max(each) for each in values), default=0))
    step = WIDTH / max(len(traffic), 1)
    bars = []
    for place, (each, numbers) in enumerate(zip(traffic, values, strict=True)):
        heights = tuple(round(HEIGHT * number / top, 2) for number in numbers)
        tops = tuple(round(HEIGHT - height, 2) for height in heights)
        bars.append(Bar(round(place * step, 2), round(step * 0.8, 2), tops, heights, each))
    return Chart(
        title=title,
        series=series,
        bars=tuple(bars),
        top=top,
        totals=tuple(sum(column) for column in zip(*values, strict=True)) if values else (0,) * len(series),
        length=traffic[0].length if traffic else timedelta(),
    )


def nice_top(largest: int) -> int:
    """The end of an axis: 1, 2 or 5 times a power of ten, not below the largest value."""
    if largest <= 1:
        return 1
    power = 10 ** math.floor(math.log10(largest))
    return next(int(factor * power) for factor in (1, 2, 5, 10) if factor * power >= largest)


def sparkline(values: Sequence[int]) -> list[float]:
    """Heights from 0 to 1 of at most SPARK_BARS bars; neighbours are added up."""
    group = max(1, math.ceil(len(values) / SPARK_BARS))
    sums = [sum(values[place : place + group]) for place in range(0, len(values), group)]
    largest = max(sums, default=0)
    return [round(each / largest, 3) if largest else 0.0 for each in sums]
