"""IOStatistics as Hadoop's committers exchange them: counters, gauges, extrema and means.

Only measured values are kept; Hadoop writes every known name with a zero. Durations are in
milliseconds. Source: Hadoop ``IOStatisticsSnapshot``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec


class Mean(msgspec.Struct, frozen=True):
    """A mean as its parts: `samples` (count) and their `sum`."""

    samples: int = 0
    sum: int = 0


class IOStatistics(msgspec.Struct, frozen=True):
    """One snapshot; each map has the statistic's name as key and its value as value."""

    counters: dict[str, int] = {}
    gauges: dict[str, int] = {}
    minimums: dict[str, int] = {}
    maximums: dict[str, int] = {}
    meanstatistics: dict[str, Mean] = {}


Names = tuple[tuple[str, ...], ...]


class PackedStatistics(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A snapshot in a few bytes: its `values`, beside the `names`, which many snapshots share."""

    names: Names = ((), (), (), (), ())
    values: bytes = b"[]"

    @property
    def statistics(self) -> IOStatistics:
        """The snapshot."""
        values = iter(_VALUES.decode(self.values))
        *simple, means = self.names
        counters, gauges, minimums, maximums = (
            {name: next(values) for name in named} for named in simple
        )
        averages = {name: Mean(next(values), next(values)) for name in means}
        return IOStatistics(counters, gauges, minimums, maximums, averages)


_VALUES = msgspec.json.Decoder(list[int])


def packed(snapshot: IOStatistics, known: dict[Names, Names]) -> PackedStatistics:
    """Pack a snapshot; its names are added to those that are `known`, if they are not among these."""
    simple = (snapshot.counters, snapshot.gauges, snapshot.minimums, snapshot.maximums)
    means = snapshot.meanstatistics
    names = (*map(tuple, simple), tuple(means))
    values = [value for counts in simple for value in counts.values()]
    for mean in means.values():
        values += (mean.samples, mean.sum)
    return PackedStatistics(known.setdefault(names, names), msgspec.json.encode(values))


def duration(name: str, milliseconds: int, *, failed: bool = False) -> IOStatistics:
    """One timed operation, under Hadoop's names (``k``, ``k.failures``, ``k.mean``...)."""
    key = f"{name}.failures" if failed else name
    counters = {name: 1, key: 1}
    return IOStatistics(
        counters=counters,
        minimums={f"{key}.min": milliseconds},
        maximums={f"{key}.max": milliseconds},
        meanstatistics={f"{key}.mean": Mean(1, milliseconds)},
    )


class Durations:
    """Sums of the durations of many operations. Not thread-safe."""

    def __init__(self) -> None:
        self._timed: dict[str, _Timed] = {}

    def add(self, name: str, seconds: Sequence[float], *, failed: bool = False) -> None:
        """Record operations of one name; the times of failed ones are kept apart, as Hadoop does."""
        if not seconds:
            return
        key = f"{name}.failures" if failed else name
        self._timed.setdefault(key, _Timed(name)).add(seconds)

    def statistics(self) -> IOStatistics:
        """Everything recorded, in milliseconds; the counter of a name also counts failed operations."""
        snapshot = IOStatistics()
        for key, timed in self._timed.items():
            for counter in dict.fromkeys((timed.name, key)):
                snapshot.counters[counter] = snapshot.counters.get(counter, 0) + timed.count
            snapshot.minimums[f"{key}.min"] = round(timed.shortest * 1000)
            snapshot.maximums[f"{key}.max"] = round(timed.longest * 1000)
            snapshot.meanstatistics[f"{key}.mean"] = Mean(timed.count, round(timed.sum * 1000))
        return snapshot


@dataclass(slots=True)
class _Timed:
    name: str
    count: int = 0
    sum: float = 0.0
    longest: float = 0.0
    shortest: float = float("inf")

    def add(self, seconds: Sequence[float]) -> None:
        self.count += len(seconds)
        self.sum += sum(seconds)
        self.longest = max(self.longest, *seconds)
        self.shortest = min(self.shortest, *seconds)


def count(name: str, value: int) -> IOStatistics:
    """A snapshot with one counter."""
    return IOStatistics(counters={name: value})


def sample(name: str, value: int) -> IOStatistics:
    """A snapshot with one value of a statistic that Hadoop samples: its sum, extrema and mean."""
    values = {name: value}
    return IOStatistics(
        counters=values, minimums=values, maximums=values, meanstatistics={name: Mean(1, value)}
    )


def aggregate(*snapshots: IOStatistics) -> IOStatistics:
    """Merge snapshots: sums of counters, gauges and means, extrema of extrema. Hadoop writes -1 for an
    extremum without a sample, so -1 counts as absent."""
    totals = Totals()
    for snapshot in snapshots:
        totals.add(snapshot)
    return totals.statistics


class Totals:
    """Merges many snapshots, one by one; `statistics` are those so far. Not thread-safe."""

    def __init__(self) -> None:
        self.statistics = IOStatistics({}, {}, {}, {}, {})

    def add(self, snapshot: IOStatistics) -> None:
        """Merge a snapshot."""
        totals = self.statistics
        for sums, values in (
            (totals.counters, snapshot.counters),
            (totals.gauges, snapshot.gauges),
        ):
            for name, value in values.items():
                sums[name] = sums.get(name, 0) + value
        for extrema, values, choose in (
            (totals.minimums, snapshot.minimums, min),
            (totals.maximums, snapshot.maximums, max),
        ):
            for name, value in values.items():
                if value != -1:
                    extrema[name] = choose(extrema.get(name, value), value)
        for name, mean in snapshot.meanstatistics.items():
            known = totals.meanstatistics.get(name)
            if known is not None:
                mean = Mean(known.samples + mean.samples, known.sum + mean.sum)
            totals.meanstatistics[name] = mean
