"""Run shards of renames, of files or of whole directories: the frame that both stages have."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

from ray_committer.errors import RayCommitterError
from ray_committer.events import FilesRenamed, ShardRenamed
from ray_committer.executors.base import Work
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.iostatistics import IOStatistics, aggregate
from ray_committer.protocol.record import CommitRecord
from ray_committer.protocol.recovery import Proof
from ray_committer.stages.context import JobContext
from ray_committer.stages.run.renamed import Renamed
from ray_committer.stages.run.throttling import ThrottlingWatch
from ray_committer.stores.registry import shown_url
from ray_committer.work.worker import Worker

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Result = TypeVar("Result")

ShardEnd = tuple[ShardRenamed, IOStatistics, RayCommitterError | None]
"""How a shard ended: its event, what was counted, and the error that ended it early."""


class Done(msgspec.Struct, Generic[Item, Answer], frozen=True, gc=False):
    """One rename of a shard, with its answer."""

    item: Item
    answer: Answer
    seconds: float


class Shift:
    """The time in which a worker is busy with one shard: a context manager."""

    def __init__(self, worker: Worker) -> None:
        self.failed: list[tuple[RayCommitterError, float]] = []
        """Errors, each with the seconds of what it ended."""
        self._worker, self._place = worker, worker.where()
        self._seconds = 0.0

    def __enter__(self) -> Shift:
        self._worker.busy.begin(self._place.worker, time.monotonic())
        return self

    def __exit__(self, *_: object) -> None:
        self._seconds = self._worker.busy.end(self._place.worker, time.monotonic())

    def each(self, rename: Callable[[Item], Answer], items: Iterable[Item]) -> list[Done[Item, Answer]]:
        """Do this for each item, in any order; none after the first error, or when cancelled."""

        def do(item: Item) -> Done[Item, Answer] | None:
            # Asked for each: a shard can have hundreds of them to go.
            if self.failed or self._worker.cancelled.is_set():
                return None
            started = time.monotonic()
            try:
                return Done(item, rename(item), time.monotonic() - started)
            except RayCommitterError as e:
                self.failed.append((e, time.monotonic() - started))
                return None

        return [done for done in self._worker.map(do, items) if done is not None]

    def end(
        self,
        renames: Iterable[tuple[int, int, Proof | None]],
        counted: IOStatistics | None = None,
        directories: int = 0,
    ) -> ShardEnd:
        """Sum up some renames: of each its files and bytes, and the proof that it was done before."""
        moved, size, proved = 0, 0, Counter[str]()
        for files, length, proof in renames:
            size += length
            if proof is None:
                moved += files
            else:
                proved[proof.value] += files
        statistics = aggregate(counted or IOStatistics(), self._worker.store.take_statistics())
        failure = self.failed[0][0] if self.failed else None
        if failure is not None:
            failure.locate(shown_url(self._worker.store.spec, ""))
        event = ShardRenamed(
            worker=self._place.worker,
            node=self._place.node,
            process=self._place.process,
            seconds=self._seconds,
            moved=moved,
            bytes=size,
            proved=dict(proved),
            retries=statistics.counters.get(names.STORE_IO_RETRY, 0),
            throttled=statistics.counters.get(names.STORE_IO_THROTTLED, 0),
            error=str(failure) if failure else None,
            directories=directories,
        )
        return event, statistics, failure


def run_shards(
    context: JobContext,
    record: CommitRecord,
    renamed: Renamed,
    work: Work[tuple[ShardEnd, Result]],
    shards: Iterable[object],
) -> Iterator[Result]:
    """Run `work` on shards, adding up in `renamed`; yield what else it returns. After the first error no
    shard is started; the shards in progress end, and then the error is raised."""
    failures: list[RayCommitterError] = []
    throttling = ThrottlingWatch(context)
    # A generator: shards that are not begun when the first one fails are never made.
    ends = context.run(work, (shard for shard in shards if not failures))
    for (event, statistics, failure), result in ends:
        renamed.add(event)
        context.journal.add(statistics)
        if failure is not None:
            failures.append(failure)
        yield result
        context.emit(event)
        context.emit(FilesRenamed(renamed.files, record.files, renamed.bytes, record.bytes))
        throttling.look(statistics)
    if failures:
        raise failures[0]
