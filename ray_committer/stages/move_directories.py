"""Put whole directories in place, each by one rename, so that readers see all of it or nothing.

What cannot be moved whole, for whatever reason, is left to `rename_files`, which moves it from where it
is. So an error here is only what would stop that, too.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from ray_committer.errors import CommitStateUnknownError, RayCommitterError, mark
from ray_committer.events import FilesRenamed, ShardRenamed
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.iostatistics import IOStatistics
from ray_committer.protocol.record import CommitRecord
from ray_committer.protocol.recovery import Proof
from ray_committer.protocol.whole import ByFile, Move, WholePlan
from ray_committer.stages.context import JobContext
from ray_committer.stages.rename_files import Renamed, are_all
from ray_committer.stages.run.throttling import ThrottlingWatch
from ray_committer.stores.registry import shown_url
from ray_committer.work.batches import batches
from ray_committer.work.directory import make_directory
from ray_committer.work.move_whole import Left, delete_leftovers, move_whole
from ray_committer.work.worker import Worker


class Moves(msgspec.Struct, frozen=True):
    """The work of one call to a worker: some moves, of which the first has the number `start`."""

    start: int
    moves: tuple[Move, ...]


class Moved(msgspec.Struct, frozen=True):
    """The result of one call: its event, the numbers of its moves, and the directories that are `left`
    to be moved by file; `failure` ended it early."""

    event: ShardRenamed
    span: tuple[int, int]
    left: tuple[Left, ...]
    statistics: IOStatistics
    failure: RayCommitterError | None


def move_directories(
    context: JobContext, record: CommitRecord, plan: WholePlan, renamed: Renamed
) -> None:
    """Move the directories of the plan, adding up in `renamed`. Idempotent: directories that an earlier
    run moved are proved and counted. After the first error no call is started; those in progress end,
    and then the error is raised."""
    failures: list[RayCommitterError] = []
    throttling, spans, left = ThrottlingWatch(context), list[tuple[int, int]](), dict[str, Left]()
    items = (shard for shard in _shards(context, plan.moves) if not failures)
    for result in context.run(partial(_move_shard, tasks=context.job.tasks), items):
        spans.append(result.span)
        left |= {stays.source: stays for stays in result.left}
        renamed.whole_files += result.event.files
        renamed.moved += result.event.moved
        renamed.bytes += result.event.bytes
        renamed.proved.update(result.event.proved)
        context.journal.add(result.statistics)
        if result.failure is not None:
            failures.append(result.failure)
        context.emit(result.event)
        context.emit(FilesRenamed(renamed.files, record.files, renamed.bytes, record.bytes))
        throttling.look(result.statistics)
    if failures:
        raise failures[0]
    # A call that was counted twice must not stand for one that is missing.
    if not are_all(spans, len(plan.moves)):
        raise CommitStateUnknownError(
            f"{mark(context.job.tasks)}: of {len(plan.moves)} directories not each was moved once",
            "nothing was cleaned up, so run the same command again",
        )
    renamed.directories = len(plan.moves) - len(left)
    if renamed.whole_files != record.files:  # others follow, and pass these over
        renamed.in_place = frozenset(move.source for move in plan.moves if move.source not in left)
    renamed.by_file = plan.by_file + Counter(stays.reason for stays in left.values())
    _tell_of_refusals(context, [stays for stays in left.values() if stays.reason is ByFile.REFUSED])


def _shards(context: JobContext, moves: Sequence[Move]) -> Iterator[Moves]:
    start = 0
    for some in batches(context.executor, moves):
        yield Moves(start, some)
        start += len(some)


def _move_shard(worker: Worker, shard: Moves, *, tasks: str) -> Moved:
    """Work: move some directories; stops at the first error or when cancelled."""
    failed: list[RayCommitterError] = []
    place = worker.where()
    worker.busy.begin(place.worker, time.monotonic())

    def make(move: Move) -> tuple[Move, Proof | Left | None] | None:
        if failed or worker.cancelled.is_set():
            return None
        try:
            left = stuck.get(move.source)
            if left is not None:  # as the move does, for the files that follow
                make_directory(worker.store, move.dest)
            return move, left or move_whole(worker.store, tasks, move)
        except RayCommitterError as e:
            failed.append(e)
            return None

    try:
        stuck = delete_leftovers(worker, tasks, shard.moves)
        ended = [outcome for outcome in worker.map(make, shard.moves) if outcome is not None]
    finally:
        seconds = worker.busy.end(place.worker, time.monotonic())
    if failed:
        failed[0].locate(shown_url(worker.store.spec, ""))
    proved = Counter[str]()
    for move, answer in ended:
        if isinstance(answer, Proof):
            proved[answer.value] += move.files
    done = [move for move, answer in ended if not isinstance(answer, Left)]
    statistics = worker.store.take_statistics()
    event = ShardRenamed(
        worker=place.worker,
        node=place.node,
        process=place.process,
        seconds=seconds,
        moved=sum(move.files for move, answer in ended if answer is None),
        bytes=sum(move.size for move in done),
        proved=dict(proved),
        retries=statistics.counters.get(names.STORE_IO_RETRY, 0),
        throttled=statistics.counters.get(names.STORE_IO_THROTTLED, 0),
        error=str(failed[0]) if failed else None,
        directories=len(done),
    )
    left = tuple(answer for _, answer in ended if isinstance(answer, Left))
    span = shard.start, shard.start + len(ended)
    return Moved(event, span, left, statistics, failed[0] if failed else None)


def _tell_of_refusals(context: JobContext, refused: list[Left]) -> None:
    if refused:
        context.notice(
            f"{len(refused)} directories could not be moved whole, so their files are moved one by one: "
            f"{refused[0].words}"
        )
