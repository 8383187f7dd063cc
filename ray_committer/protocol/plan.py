"""The rename plan: shards that name ranges of packs, never files; and the sizes of all calls.

Workers read packs themselves: measurements showed that this costs less than moving entries between
processes. So the planner holds a few numbers per pack and nothing per file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, count
from typing import Any

import msgspec

from ray_committer.protocol.pack import Pack
from ray_committer.protocol.prepared import prepare

SMALLEST_SHARD, LARGEST_SHARD = 4, 1000
"""The fewest and the most files in a shard, but for the last ones of a job."""
LARGEST_BATCH = 200
_SHARES_OF_BATCHES = 2
"""The rest is always cut into this many batches per worker, so that the last ones end soon."""
_CALL_SECONDS = 0.005
"""Work of this length is not split: a call, its event and its statistics take up to 1 ms."""


def shard_size(*, threads: int, seconds_a_file: float) -> int:
    """The number of files in a shard: as many as `threads` rename in a tenth of a second.

    Measured with one of four workers eight times slower: shards of 100 files took 1.15 times the ideal,
    of 500 files 1.9 times, of 2,000 files 5 times. A shard has at least two files for each thread: while
    a worker reads the pack of one shard, its other one keeps all threads at work, also where a
    request takes longer than a tenth of a second. A single thread of this process, for which no other
    has to wait, gets as many as it renames in half a second.
    """
    # A tenth of a second: the slowest worker's last shard is what the others wait for at the end.
    seconds = 0.1 if threads > 1 else 0.5
    # Not by zero: a test's clock can stand still.
    fitting = int(threads * seconds / max(seconds_a_file, 1e-9))
    # The bound above keeps a shard's results and its retry small, even where renames take microseconds.
    return min(LARGEST_SHARD, max(SMALLEST_SHARD, 2 * threads, fitting))


class ShardSizes:
    """The number of files in the next shard, from the recent time per file: smaller near the end, so
    that the wait for the last is short, more so if the workers `differ` in speed, as on several
    nodes."""

    def __init__(self, *, files: int, threads: int, width: int, differ: bool) -> None:
        self._threads = threads
        self._width = width
        self._shares = 4 if differ else 2
        self._left = files
        self._seconds_a_file = float("inf")

    def next(self, most: int) -> int:
        """The files of the next shard, up to `most`, which are no longer left."""
        # Three sizes: what fits a tenth of a second, what leaves each worker several shares of the rest,
        # and what is worth a call.
        wanted = shard_size(threads=self._threads, seconds_a_file=self._seconds_a_file)
        # Rounded up, and never less than a quarter of the threads: smaller shards would leave most
        # threads of a worker without a file.
        even = max(-(-self._threads // 4), -(-self._left // (self._shares * self._width)))
        # 0 until the first shard has ended, since the time per file is infinite then.
        worth = int(self._threads * _CALL_SECONDS / self._seconds_a_file)
        size = min(most, wanted, max(even, worth))
        self._left -= size
        return size

    def learn(self, seconds_a_file: float) -> None:
        """Note the mean time of the renames of a shard that ended; 0 if it ended before its first."""
        # All of its files were moved by an earlier run: that says nothing about the time of a rename.
        if not seconds_a_file:
            return
        if self._seconds_a_file == float("inf"):
            self._seconds_a_file = seconds_a_file
        # The last ten shards or so count, from any worker: it is the mean over the nodes that the next
        # one needs.
        self._seconds_a_file = 0.9 * self._seconds_a_file + 0.1 * seconds_a_file


def batch_sizes(items: int, *, threads: int, width: int) -> Iterator[int]:
    """The sizes of the batches into which `items` are cut: at most 200, then smaller ones, so that all
    end together. Each has enough for all threads of a worker while there are several items for each. So
    few that the threads work on all at once are cut into one batch per worker."""
    is_once = items <= threads * width
    least = -(-items // width) if is_once else max(1, min(threads, items // (4 * width)))
    while items > 0:
        size = min(items, LARGEST_BATCH, max(least, items // (_SHARES_OF_BATCHES * width)))
        yield size
        items -= size


class Shard(msgspec.Struct, frozen=True):
    """The work of one call to a worker: the entries `low` to `high` of the pack with this `index`, of
    which the first is file `start` of the job. ``_SUCCESS`` names the first `sample` of their
    destinations. It is pickled as MessagePack, which takes a fraction of the time."""

    number: int
    start: int
    index: int
    pack: Pack
    low: int
    high: int
    sample: int

    @property
    def files(self) -> int:
        return self.high - self.low

    def __reduce__(self) -> tuple[Any, ...]:
        return _decode_shard, (msgspec.msgpack.encode(self),)

    def __str__(self) -> str:
        span = f"{self.low} to {self.high - 1}"
        return f"shard {self.number}, {self.files} files, {span} of pack {self.index}"


def _decode_shard(data: bytes) -> Shard:
    return msgspec.msgpack.decode(data, type=Shard)


prepare(Shard)


def plan_shards(
    packs: Sequence[Pack], *, shard_files: Callable[[int], int], sample: int
) -> Iterator[Shard]:
    """Cut the entries of `packs` into shards, in order and lazily, each entry once. `shard_files`
    returns the number of files of a new shard, of so many that are left in its pack. ``_SUCCESS`` names
    the first `sample` entries."""
    numbers, start = count(), 0
    for index, pack in enumerate(packs):
        low = 0
        while low < pack.files:
            high = min(pack.files, low + shard_files(pack.files - low))
            yield Shard(next(numbers), start, index, pack, low, high, max(0, sample - start))
            start, low = start + high - low, high


def count_by_pack(packs: Sequence[Pack], spans: Iterable[tuple[int, int]]) -> Counter[int]:
    """Count the files in `spans` of the job, each from a file to another (exclusive), by pack."""
    ends, by_pack = array("q", accumulate(pack.files for pack in packs)), Counter[int]()
    for start, stop in spans:
        index = bisect_right(ends, start)
        while start < stop:
            by_pack[index] += min(stop, ends[index]) - start
            start, index = ends[index], index + 1
    return by_pack
