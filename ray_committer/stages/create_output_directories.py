"""Make the directories of the output: every leaf directory once, and its parents with it.

What the look before the record has shown is not made again; a rename that finds it gone makes it.
Source: Hadoop CreateOutputDirectoriesStage, which deletes a file in the way; here it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from ray_committer.errors import CommitStateUnknownError, mark
from ray_committer.executors.directories import DirectoryCoordinator
from ray_committer.places.choose import needed
from ray_committer.stages.context import JobContext
from ray_committer.work.directory import make_directory
from ray_committer.work.worker import Worker

CLAIM = 100
ROUNDS = 5


def create_output_directories(context: JobContext, there: Iterable[str] = ()) -> int:
    """Make the directories that the coordinator has collected, if the store has any, but for those that
    are `there`; idempotent. The number of leaves is returned. `CommitConflictError` for a file there."""
    if not needed(context.store, (context.job.destination,)):
        return 0
    directories = context.executor.directories
    leaves = directories.plan()
    directories.finish(list(there))
    left = directories.plan()
    width, threads = context.executor.width, context.executor.threads
    share = -(-left // width)
    # As many as a worker makes in parallel: each further claim costs it the time of a request.
    limit = max(1, min(CLAIM, max(share // 4, min(threads, share))))
    work = partial(_make_claimed, directories=directories)
    for _ in range(ROUNDS):
        if not left:
            return leaves
        for _made in context.run(work, [limit] * min(width, left)):
            pass
        left = directories.release()
    if left:
        raise CommitStateUnknownError(
            f"{mark(context.job.destination)}: {left} directories could not be made because workers "
            "were lost repeatedly",
            "run the same command to finish the commit",
        )
    return leaves


def make_parents(context: JobContext, parents: Iterable[str]) -> None:
    """Make what is missing above directories that are put in place whole."""
    for _ in context.run_batches(_make_each, sorted(parents)):
        pass


def _make_each(worker: Worker, paths: Sequence[str]) -> None:
    worker.for_each(partial(make_directory, worker.store), paths)


def _make_claimed(worker: Worker, limit: int, *, directories: DirectoryCoordinator) -> None:
    while not worker.cancelled.is_set() and (claimed := directories.claim(limit)):
        _make_each(worker, claimed)
        directories.finish(claimed)
