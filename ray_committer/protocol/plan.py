"""The rename plan: shards that name ranges of manifests, never files.

Workers parse their manifests again: measurements showed that this costs less than moving entries
between processes. So the planner holds a few numbers per manifest and nothing per file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from ray_committer.protocol.prepared import prepare
from ray_committer.protocol.record import ManifestRef


class EntryRange(msgspec.Struct, frozen=True):
    """Entries `low` to `high` (exclusive) of one manifest; `index` is its place in the record."""

    index: int
    manifest: ManifestRef
    low: int
    high: int


def shard_size(*, threads: int, seconds_a_file: float) -> int:
    """The number of files in a shard: as many as `threads` rename in a tenth of a second.

    Measured with one of four workers eight times slower: shards of 100 files took 1.15 times the ideal,
    of 500 files 1.9 times, of 2,000 files 5 times. A shard has at least two files for each thread: while
    a worker reads the manifest of one shard, its other one keeps all threads at work, also where a
    request takes longer than a tenth of a second. It has never over 1,000 files. A single thread of this
    process, for which no other has to wait, gets as many as it renames in half a second.
    """
    smallest, seconds = max(4, min(1000, 2 * threads)), 0.1 if threads > 1 else 0.5
    return max(smallest, min(1000, int(threads * seconds / max(seconds_a_file, 1e-9))))


class Shard(msgspec.Struct, frozen=True):
    """The work of one call to a worker: `files` files of the job, in the order of its manifests.

    They begin with entry `low` of the first of `manifests`, which is manifest `first` of the record, and
    file `start` of the job. ``_SUCCESS`` names the first `sample` of their destinations. A shard is
    pickled as MessagePack, which takes a thirtieth of the time for 200 tasks with one file each.
    """

    number: int
    start: int
    files: int
    first: int
    manifests: Sequence[ManifestRef]
    low: int
    sample: int

    @property
    def ranges(self) -> list[EntryRange]:
        """The entries of each manifest that has any."""
        found, low, left = [], self.low, self.files
        for index, manifest in enumerate(self.manifests, self.first):
            high = min(manifest.files, low + left)
            if low < high:
                found.append(EntryRange(index, manifest, low, high))
            left -= high - low
            low = 0
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return _decode_shard, (msgspec.msgpack.encode(self),)

    def __str__(self) -> str:
        ranges = self.ranges
        first, last = ranges[0], ranges[-1]
        return (
            f"shard {self.number}, {self.files} files, from file {first.low} of manifest {first.index} "
            f"to file {last.high - 1} of manifest {last.index}"
        )


def _decode_shard(data: bytes) -> Shard:
    return msgspec.msgpack.decode(data, type=Shard)


prepare(Shard)


def plan_shards(
    manifests: Sequence[ManifestRef], *, shard_files: Callable[[], int], sample: int
) -> Iterator[Shard]:
    """Cut the entries of `manifests` into shards, in order, each entry once.

    Lazy: a shard exists only while it is worked on. `shard_files` returns the number of files of each
    new shard. ``_SUCCESS`` names the first `sample` entries.
    """
    ends = _ends(manifests)
    number, start, files = 0, 0, ends[-1] if ends else 0
    while start < files:
        stop = min(files, start + shard_files())
        first, last = bisect_right(ends, start), bisect_left(ends, stop)
        low = start - (ends[first - 1] if first else 0)
        named = max(0, sample - start)
        yield Shard(number, start, stop - start, first, manifests[first : last + 1], low, named)
        number, start = number + 1, stop


def count_by_manifest(
    manifests: Sequence[ManifestRef], spans: Iterable[tuple[int, int]]
) -> Counter[int]:
    """Count the files in `spans` of the job, each from a file to another (exclusive), by manifest."""
    ends, found = _ends(manifests), Counter[int]()
    for start, stop in spans:
        index = bisect_right(ends, start)
        while start < stop:
            found[index] += min(stop, ends[index]) - start
            start, index = ends[index], index + 1
    return found


def _ends(manifests: Sequence[ManifestRef]) -> array[int]:
    """The number of files of the job up to the end of each manifest."""
    return array("q", accumulate(manifest.files for manifest in manifests))
