"""How many files were in place at which time, as bins of equal width in memory that does not grow.

A shard is reported once, when it ends, but its files were put in place during all of its time. So they
are spread evenly over that time: a steady rate is a flat line, however long the shards are. If there
are too many bins, each two neighbours are merged, so all bins are always equally wide.
"""

from __future__ import annotations

MOST_BINS = 240
FIRST_SECONDS = 0.05


class RateCurve:
    """The curve from `began` on, a time in seconds of any clock, as all times here."""

    def __init__(self, began: float) -> None:
        self._began = self._ended = began
        self._width = FIRST_SECONDS
        self._bins: list[float] = []

    def add(self, files: int, *, ended: float, seconds: float) -> None:
        """Add `files` that were put in place during the `seconds` before `ended`."""
        ended = max(ended, self._began)
        began = max(ended - seconds, self._began)
        self._ended = max(self._ended, ended)
        while self._bin(ended) >= MOST_BINS:
            self._merge()
        last = self._bin(ended)
        self._bins += [0.0] * (last + 1 - len(self._bins))
        if began == ended:
            self._bins[last] += files
            return
        for index in range(self._bin(began), last + 1):
            within = min(ended, self._edge(index + 1)) - max(began, self._edge(index))
            self._bins[index] += files * within / (ended - began)

    def points(self) -> list[tuple[float, float]]:
        """The begin and the end of each bin, with the files in place then; the last bin ends with the
        last file. Files are fractions of a shard, to three digits."""
        if not self._bins:
            return []
        found, done = [(self._began, 0.0)], 0.0
        for index, files in enumerate(self._bins):
            done += files
            found.append((min(self._edge(index + 1), self._ended), round(done, 3)))
        if len(found) > 2 and found[-1][0] - found[-2][0] < self._width / 2:
            del found[-2]  # the last bin is too short for a rate of its own
        return found

    def _bin(self, at: float) -> int:
        return int((at - self._began) / self._width)

    def _edge(self, index: int) -> float:
        return self._began + index * self._width

    def _merge(self) -> None:
        self._width *= 2
        pairs = range(0, len(self._bins), 2)
        self._bins = [sum(self._bins[index : index + 2]) for index in pairs]
