"""Take an ended job's directory away in one step, before anything in it is deleted.

A process that slept may find a job that was set up again with the same id. So the directory is first
renamed to a name that no process looks for. Only then does its state show which job it belongs to.
"""

from __future__ import annotations

from functools import partial

from ray_committer.errors import LinkedPathError
from ray_committer.job_files.abort_uploads import abort_uploads
from ray_committer.job_files.job_state import Seen, delete_state, read_state
from ray_committer.job_files.others import list_gone, state_inside
from ray_committer.job_files.spark_uploads import end_spark_uploads
from ray_committer.places.base import listed_in, tasks_of
from ray_committer.places.choose import places_of
from ray_committer.protocol.paths import CONTENT_SUFFIX, MARK, STAGED, UNDONE, JobAttempt, join
from ray_committer.protocol.state import Phase
from ray_committer.stores.base import StoreOperations


def take_away(
    store: StoreOperations, job: JobAttempt, expected: Seen, *, is_new_id: bool = False
) -> JobAttempt | None:
    """Take the directory of a job attempt in the state `expected` away; return where it is now, to be
    deleted there. None if there is none, or if by now it belongs to another job; then it is put back.
    Nobody sets up a second job with an id that was drawn: such a job is not looked at. On a store
    without directories it stays where it is."""
    is_meant = partial(is_still, store, expected=expected)
    return places_of(store).take_away(job, lambda gone: is_new_id or is_meant(gone))


def delete_gone(store: StoreOperations, gone: JobAttempt, expected: Seen) -> int | None:
    """Delete what was taken away; return how many uploads were aborted. Where it was not moved, the
    state is deleted last, and only `expected`. Another process may have done all that, and the id may be
    set up again: nothing of the new job is deleted, and None is returned."""
    is_meant, is_aborted = partial(is_still, store, gone, expected), expected.phase is Phase.ABORTED
    is_committed, stamp = expected.phase is Phase.COMMITTED, expected.state.stamp
    uploads = abort_uploads(store, gone, is_meant, is_committed=is_committed, stamp=stamp)
    uploads += end_spark_uploads(store, gone, is_meant)
    end = partial(delete_state, store, gone, expected)
    is_done = places_of(store).discard(gone, is_meant, end, is_aborted=is_aborted)
    return uploads if is_done else None


def is_still(store: StoreOperations, job: JobAttempt, expected: Seen) -> bool:
    """Whether the job still has the state `expected`, and no other job was set up with its id."""
    current = read_state(store, job)
    return current is not None and current.state.nonce == expected.state.nonce


def remove_husk(store: StoreOperations, job: JobAttempt) -> None:
    """Delete only what a process wrote that slept until the job was removed: names that were listed
    before the state was looked for once more, since the id can be set up again at any moment."""
    undone = join(job.directory, UNDONE)
    entries = [*listed_in(store, job.state), *listed_in(store, undone)]
    packs = listed_in(store, job.packs)
    frozen = [
        place for place in tasks_of(store, job) if place.is_frozen and not _is_marked(store, place)
    ]
    if read_state(store, job) is not None:
        return
    for place in frozen:  # a committer that slept has frozen what a late task wrote
        store.delete_directory(place.tasks)
    for status in entries:
        if status.is_directory:  # for old files that were to be put aside, or for an undo
            store.delete_directory(status.path)
        elif status.name.endswith(CONTENT_SUFFIX):
            store.delete_file(status.path)
    for status in packs:
        store.delete_file(status.path)
    for directory in (job.state, undone, job.packs, job.directory):
        store.remove_empty_directory(directory)


def _is_marked(store: StoreOperations, place: JobAttempt) -> bool:
    """Whether these files of tasks belong to a job that is set up, though it may have no state yet."""
    names = (status.name for status in listed_in(store, join(place.tasks, STAGED)))
    return any(name.startswith(MARK) for name in names)


def sweep_all_gone(store: StoreOperations, job: JobAttempt) -> bool:
    """Delete what was taken away beside `job` and is not deleted yet; False if nothing was deleted.
    Where directories are not moved, nothing was: a copy of another store's is left to `vacuum`."""
    directories = places_of(store).taken_away(partial(list_gone, store, job.destination))
    return sum(sweep_gone(store, gone) for gone in directories) > 0


def sweep_gone(store: StoreOperations, gone: JobAttempt) -> bool:
    """Delete a directory that was taken away. False if it is kept, because its job has not ended or that
    cannot be seen. It is first taken away once more, since another process may not have read its state
    yet, and never put back under a name that another process may be about to delete."""
    taken = places_of(store).take_further(gone)
    if taken is None:  # another process has deleted it, or does
        return True
    try:
        state = state_inside(store, taken)
    except (PermissionError, LinkedPathError):
        return False
    # It is kept under the new name; a search for a recorded job also looks there (`other_jobs`).
    if state is not None and state.phase not in (Phase.COMMITTED, Phase.ABORTED):
        return False
    store.delete_directory(taken.directory)  # nothing is there if another process has taken it further
    return True
