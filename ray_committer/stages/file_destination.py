"""Let an overwrite replace a destination that is a file, although its directory is needed at set-up.

Set-up renames the file to a hidden name beside it. The clean-up of the committed job deletes it, and an
abort renames it back, also if the set-up or an earlier abort was cut off. So nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ray_committer.errors import CommitConflictError
from ray_committer.job_files.settle import settle
from ray_committer.protocol.paths import JobAttempt, join, parent
from ray_committer.stages.check_places import blocking_file
from ray_committer.stores.base import StoreOperations, move_directory


def hidden_name(job: JobAttempt) -> str:
    """The path of the file while the job is neither committed nor aborted."""
    name = job.destination.rpartition("/")[2]
    return join(parent(job.destination), f".{name}.replaced-by-{job.job_id}")


@contextmanager
def blocking_file_named(store: StoreOperations, job: JobAttempt) -> Iterator[None]:
    """Raise `CommitConflictError` if the block meets a file in the place of a directory of the job."""
    try:
        yield
    except NotADirectoryError as e:
        raise _no_directory(blocking_file(store, job.directory) or job.directory, "a file") from e


@contextmanager
def hidden_destination(
    store: StoreOperations, job: JobAttempt, *, replaces_it: bool
) -> Iterator[list[str]]:
    """Hide the file at the destination, if there is one; put it back if the block fails.

    The value is a list of warnings. `CommitConflictError` if the job does not replace the file, or if it
    is a symbolic link: what it leads to may be a directory that is missing only now.
    """
    if not _hide(store, job, replaces_it=replaces_it):
        yield []
        return
    try:
        yield [
            f"{job.destination}: was a file, which is kept as {hidden_name(job)} until this job is "
            f"committed or aborted"
        ]
    except BaseException:
        restore_hidden_file(store, job)
        raise


def _hide(store: StoreOperations, job: JobAttempt, *, replaces_it: bool) -> bool:
    path = job.destination
    status = store.get_status(path)
    if status is None or status.is_directory:
        return False
    if status.is_link or not replaces_it:
        raise _no_directory(path, "a link" if status.is_link else "a file")
    if store.capabilities.completes_uploads:  # it cannot be hidden, and names below it can be written
        raise _no_directory(path, "a file")
    hidden = hidden_name(job)
    try:
        settle(
            lambda: store.rename(path, hidden, status.version), lambda: store.get_status(path) is None
        )
    except (FileNotFoundError, IsADirectoryError):  # another job has hidden it
        return False
    moved = store.get_status(hidden)
    if moved is not None and moved.is_directory:  # that job has also made its directory
        move_directory(store, hidden, path)
        return False
    return True


def _no_directory(path: str, kind: str) -> CommitConflictError:
    return CommitConflictError(
        f"{path}: is {kind} where the job needs a directory",
        "nothing was changed: move it away, or write to another destination",
    )


def delete_hidden_file(store: StoreOperations, job: JobAttempt) -> None:
    """Delete the file that this job has replaced; idempotent."""
    store.delete_file(hidden_name(job))


def restore_hidden_file(store: StoreOperations, job: JobAttempt) -> str | None:
    """Rename the file back, unless something else is at the destination now; idempotent.

    Returns a notice if the file stays where it is.
    """
    path, hidden = job.destination, hidden_name(job)
    if store.get_status(hidden) is None:
        return None
    store.remove_empty_directory(path)
    try:
        settle(lambda: store.rename(hidden, path), lambda: store.get_status(hidden) is None)
    except FileNotFoundError:  # another process has done it
        return None
    except (FileExistsError, IsADirectoryError):
        return (
            f"{hidden}: is the file that was at {path} before this job; it stays there, because the "
            f"destination is in use now"
        )
    return None
