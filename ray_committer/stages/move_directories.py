"""Put whole directories in place, each by one rename, so that readers see all of it or nothing.

What cannot be moved whole, for whatever reason, is left to `rename_files`, which moves it from where it
is. So an error here is only what would stop that, too.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import msgspec

from ray_committer.errors import CommitStateUnknownError, mark
from ray_committer.protocol.record import CommitRecord
from ray_committer.protocol.recovery import Proof
from ray_committer.protocol.whole import ByFile, Move, WholePlan
from ray_committer.stages.context import JobContext
from ray_committer.stages.run.renamed import Renamed, are_all
from ray_committer.stages.run.shards import ShardEnd, Shift, run_shards
from ray_committer.work.batches import places_of_batches
from ray_committer.work.directory import make_directory
from ray_committer.work.move_whole import Left, delete_leftovers, move_whole
from ray_committer.work.worker import Worker


class Moved(msgspec.Struct, frozen=True):
    """What only the driver needs of one call: the numbers of its moves, the files that are in place with
    their directories, and the directories that are `left` to be moved by file."""

    span: tuple[int, int]
    files: int
    left: tuple[Left, ...]


def move_directories(
    context: JobContext, record: CommitRecord, plan: WholePlan, renamed: Renamed
) -> None:
    """Move the directories of the plan, adding up in `renamed`. Idempotent: directories that an earlier
    run moved are proved and counted. After the first error no call is started; those in progress end,
    and then the error is raised."""
    spans, left = list[tuple[int, int]](), dict[str, Left]()
    work = partial(_move_some, tasks=context.job.tasks)
    places = places_of_batches(context.executor, len(plan.moves))
    numbered = ((place.start, plan.moves[place]) for place in places)
    for moved in run_shards(context, record, renamed, work, numbered):
        spans.append(moved.span)
        left |= {stays.source: stays for stays in moved.left}
        renamed.whole_files += moved.files
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


def _move_some(
    worker: Worker, numbered: tuple[int, tuple[Move, ...]], *, tasks: str
) -> tuple[ShardEnd, Moved]:
    """Work: move some directories, with the number of the first; stops at the first error or when
    cancelled."""
    start, moves = numbered

    def make(move: Move) -> Proof | Left | None:
        left = stuck.get(move.source)
        if left is not None:  # as the move does, for the files that follow
            make_directory(worker.store, move.dest)
        return left or move_whole(worker.store, tasks, move)

    with Shift(worker) as shift:
        stuck = delete_leftovers(worker, tasks, moves)
        ended = shift.each(make, moves)
    left = tuple(made.answer for made in ended if isinstance(made.answer, Left))
    renames = [
        (made.item.files, made.item.size, made.answer)
        for made in ended
        if not isinstance(made.answer, Left)
    ]
    files = sum(files for files, _, _ in renames)
    end = shift.end(renames, directories=len(renames))
    return end, Moved((start, start + len(ended)), files, left)


def _tell_of_refusals(context: JobContext, refused: list[Left]) -> None:
    if refused:
        context.notice(
            f"{len(refused)} directories could not be moved whole, so their files are moved one by one: "
            f"{refused[0].words}"
        )
