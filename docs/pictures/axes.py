"""Axes of charts: where a value is between the ends, and which values have a label.

Most are logarithmic, since a commit takes from milliseconds to days.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_TIMES = (
    (0.001, "1 ms"), (0.01, "10 ms"), (0.1, "0.1 s"), (1, "1 s"), (10, "10 s"), (60, "1 min"),
    (600, "10 min"), (3600, "1 h"), (36_000, "10 h"), (360_000, "100 h"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Axis:
    """Labels at values between the `first` and the `last` one; logarithmic if the first is above 0."""

    ticks: Sequence[tuple[float, str]]
    first: float
    last: float

    def share(self, value: float) -> float:
        """Where a value is, from 0 to 1."""
        first, last = self.first, self.last
        if first > 0:
            value, first, last = (math.log(max(one, first)) for one in (value, first, last))
        return min(1.0, max(0.0, (value - first) / (last - first)))


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis between two places of the drawing."""

    axis: Axis
    begin: float
    end: float

    def place(self, value: float) -> float:
        return self.begin + (self.end - self.begin) * self.axis.share(value)


def time_axis(values: Iterable[float]) -> Axis:
    """A logarithmic axis for some seconds."""
    return _around(_TIMES, values)


def number_axis(values: Iterable[float]) -> Axis:
    """A logarithmic axis for some numbers, from one power of ten to another."""
    return _around([(10.0**power, number_text(10.0**power)) for power in range(-3, 13)], values)


def item_axis(values: Iterable[float]) -> Axis:
    """A logarithmic axis for some whole numbers, from the least to the greatest."""
    found = list(values)
    first, last = min(found), max(2 * min(found), *found)
    base, powers = (10, range(13)) if last > 100 * first else (2, range(40))
    ticks = [base**power for power in powers if first <= base**power <= last]
    return Axis([(one, number_text(one)) for one in ticks], first, last)


def linear_axis(values: Iterable[float], unit: str = "") -> Axis:
    """An axis from 0, for values that can be 0."""
    most = max([*values, 1e-9])
    power = 10.0 ** math.floor(math.log10(most))
    step = next(power * one for one in (0.2, 0.5, 1, 2) if power * one * 5 >= most)
    ticks = [step * number for number in range(math.ceil(most / step) + 1)]
    return Axis([(tick, f"{number_text(tick)} {unit}".strip()) for tick in ticks], 0, ticks[-1])


def number_text(value: float) -> str:
    """A number, in words from a million on."""
    for size, word in ((1e9, "billion"), (1e6, "million")):
        if value >= size:
            return f"{value / size:g} {word}"
    return f"{value:,.6g}"


def _around(ticks: Sequence[tuple[float, str]], values: Iterable[float]) -> Axis:
    """The ticks from the last one below the values to the first one above them."""
    found = list(values)
    first = max((n for n, (tick, _) in enumerate(ticks) if tick <= min(found)), default=0)
    last = next((n for n, (tick, _) in enumerate(ticks) if tick >= max(found)), len(ticks) - 1)
    some = ticks[first : max(last, first + 1) + 1]
    return Axis(some, some[0][0], some[-1][0])
