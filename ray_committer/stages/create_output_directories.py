"""Make the directories of the output: every leaf once, parents with it.

The coordinator says which; workers make the requests. Source: Hadoop CreateOutputDirectoriesStage,
which deletes a file that is in the way without a word; here it is refused by name.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from functools import partial

from ray_committer.directories import Directories
from ray_committer.errors import CommitConflictError, CommitStateUnknownError
from ray_committer.protocol.paths import ancestors, is_inside
from ray_committer.stages.check_places import in_the_way
from ray_committer.stages.context import JobContext
from ray_committer.stages.worker import Worker
from ray_committer.stores.base import StoreOperations

CLAIM = 100
ROUNDS = 5


def create_output_directories(context: JobContext, roots: Sequence[str]) -> int:
    """Make what the coordinator has collected; idempotent. Returns the number of leaves.

    A file in the way is deleted if the options say so and it is below one of `roots`, where the job may
    write. A store without directories needs none.
    """
    if not context.store.capabilities.has_directories:
        return 0
    directories = context.executor.directories
    leaves = left = directories.plan()
    width = context.executor.width
    limit = max(1, min(CLAIM, -(-leaves // (4 * width))))
    work = partial(
        _make_claimed,
        directories=directories,
        may_delete=tuple(roots) if context.options.delete_blocking_files else (),
    )
    for _ in range(ROUNDS):
        if not left:
            return leaves
        holders = context.until_cancelled([limit] * min(width, left))
        for _made in context.executor.run(work, holders):
            pass
        context.check_cancelled()
        left = directories.release()
    if left:
        raise CommitStateUnknownError(
            f"{context.job.destination}: {left} directories could not be made because workers were "
            f"lost again and again; run the same command to finish the commit"
        )
    return leaves


def _make_claimed(
    worker: Worker, limit: int, *, directories: Directories, may_delete: tuple[str, ...]
) -> int:
    """Work: claim and make directories until none is left."""
    made = 0
    make = partial(_make, worker.store, may_delete=may_delete)
    while not worker.cancelled.is_set() and (claimed := directories.claim(limit)):
        for _ in worker.map(make, claimed):
            made += 1
        directories.finish(claimed)
    return made


def _make(store: StoreOperations, path: str, *, may_delete: tuple[str, ...]) -> None:
    for is_last in (False, True):
        try:
            store.mkdirs(path)
            return
        except (FileExistsError, FileNotFoundError) as e:  # the latter behind a link to nothing
            blocking = _blocking_file(store, path)
            where = blocking or path
            if is_last or not any(is_inside(where, root) for root in may_delete):
                if blocking is None and isinstance(e, FileNotFoundError):
                    raise _cannot_be_made(path, e) from e
                raise CommitConflictError(
                    f"{where}: {in_the_way(store, where)}; move it away and run the same command, or "
                    f"allow its deletion with delete_blocking_files"
                ) from e
            if blocking is not None:
                _delete_unless_made(store, blocking)
        except OSError as e:
            raise _cannot_be_made(path, e) from e


def _delete_unless_made(store: StoreOperations, blocking: str) -> None:
    """Delete what is in the way, unless another leaf's worker has done so, and made the directory."""
    try:
        store.delete_file(blocking)
    except OSError as e:
        if e.errno not in (errno.EISDIR, errno.ENOTEMPTY):
            raise


def _cannot_be_made(path: str, error: OSError) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        f"{path}: could not be made ({error.strerror or error}); mend that and run the same command"
    )


def _blocking_file(store: StoreOperations, path: str) -> str | None:
    for candidate in (path, *ancestors(path, "/")):
        status = store.get_status(candidate)
        if status is not None:
            return None if status.is_directory else candidate
    return None
