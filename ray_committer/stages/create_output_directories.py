"""Make the directories of the output: every leaf directory once, and its parents with it.

Source: Hadoop CreateOutputDirectoriesStage, which deletes a file in the way; here it is refused.
"""

from __future__ import annotations

from functools import partial

from ray_committer.errors import CommitConflictError, CommitStateUnknownError, mark
from ray_committer.executors.directories import Directories
from ray_committer.places.choose import needed
from ray_committer.stages.checks.places import blocking_file, in_the_way
from ray_committer.stages.context import JobContext
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.registry import store_command
from ray_committer.work.worker import Worker

CLAIM = 100
ROUNDS = 5


def create_output_directories(context: JobContext) -> int:
    """Make the directories that the coordinator has collected; idempotent. Returns the number of leaves.
    `CommitConflictError` for a file in the way. A store without directories needs none."""
    if not needed(context.store, (context.job.destination,)):
        return 0
    directories = context.executor.directories
    leaves = left = directories.plan()
    width, threads = context.executor.width, context.executor.threads
    share = -(-leaves // width)
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


def _make_claimed(worker: Worker, limit: int, *, directories: Directories) -> int:
    made = 0
    make = partial(_make, worker.store)
    while not worker.cancelled.is_set() and (claimed := directories.claim(limit)):
        for _ in worker.map(make, claimed):
            made += 1
        directories.finish(claimed)
    return made


def _make(store: StoreOperations, path: str) -> None:
    try:
        store.mkdirs(path)
    except (FileExistsError, FileNotFoundError) as e:  # the latter behind a link to nothing
        blocking = blocking_file(store, path)
        if blocking is None and isinstance(e, FileNotFoundError):
            raise _cannot_be_made(path, e) from e
        where = blocking or path
        raise CommitConflictError(
            f"{mark(where)}: {in_the_way(store, where)}",
            "the job's files are kept: give it up with `ray-committer abort DEST --undo`. Only if no "
            "job has committed what is there, remove it and run the same command: "
            f"{store_command(store.spec, 'rm', where)}",
        ) from e
    except OSError as e:
        raise _cannot_be_made(path, e) from e


def _cannot_be_made(path: str, error: OSError) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        f"{mark(path)}: could not be made ({error.strerror or error})",
        "fix that and run the same command",
    )
