"""The rename plan: shards that name ranges of manifests, never files.

A worker parses its manifests again, which was measured to cost less than moving entries between
processes, so whoever plans holds a few numbers a manifest and nothing a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ray_committer.protocol.record import ManifestRef


@dataclass(frozen=True, slots=True)
class EntryRange:
    """Entries `low` to `high` (exclusive) of one manifest; `index` is its place in the record."""

    index: int
    manifest: ManifestRef
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Shard:
    """The work of one call to a worker; `sample` destinations of it are named in ``_SUCCESS``."""

    number: int
    ranges: tuple[EntryRange, ...]
    sample: int

    @property
    def files(self) -> int:
        return sum(part.high - part.low for part in self.ranges)


def plan_shards(manifests: Sequence[ManifestRef], *, shard_files: int, sample: int) -> Iterator[Shard]:
    """Cut the entries of `manifests` into shards of `shard_files` files, in order, each entry once.

    Lazy: a shard exists only while it is worked on. The first `sample` entries are to be named.
    """
    number, planned, ranges, room = 0, 0, [], shard_files
    for index, manifest in enumerate(manifests):
        low = 0
        while low < manifest.files:
            high = min(manifest.files, low + room)
            ranges.append(EntryRange(index, manifest, low, high))
            room -= high - low
            low = high
            if room == 0:
                yield Shard(number, tuple(ranges), max(0, sample - planned))
                number, planned, ranges, room = number + 1, planned + shard_files, [], shard_files
    if ranges:
        yield Shard(number, tuple(ranges), max(0, sample - planned))
