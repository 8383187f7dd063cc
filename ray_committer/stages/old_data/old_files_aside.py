"""The old files of a job, in a directory of its own from their removal until the job is committed.

Where a deletion cannot name a version (`places.old_files`), an old file is renamed to a directory that
is made once, before the record. That directory is taken away, by one rename, before the job is committed
or undone: a process that wakes up later moves nothing. Only after that is its content compared with the
record, and what is not an old file is moved back. An undo puts the old files back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from ray_committer.errors import CommitStateUnknownError, mark, some_of
from ray_committer.job_files.job_state import Seen, StateChangedError, read_state
from ray_committer.limits.settle import settle
from ray_committer.places.old_files import is_same, restore
from ray_committer.protocol.hidden_names import is_of_file_system
from ray_committer.protocol.paths import JobAttempt, join
from ray_committer.protocol.record import CommitRecord, ReplacedFile
from ray_committer.protocol.state import new_nonce
from ray_committer.stages.context import JobContext
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.work.batches import batches, delete_directories
from ray_committer.work.worker import Worker

FILES_ASIDE = 10_000
"""The most old files in one directory aside: one request deletes it, and it must end in time."""

_Part = tuple[str, int, Sequence[ReplacedFile]]
"""A directory aside, the number of its first old file, and its old files."""
_Move = Callable[[StoreOperations, ReplacedFile, FileStatus], bool | None]
"""Move what is aside back to the path of the old file; None if it stays, False if that is taken."""


def place_aside(job: JobAttempt, nonce: str, number: int) -> str:
    """Where the old file with this number goes, and a number of its own is added at each rename."""
    return join(_part(_old(job, nonce), number), str(number))


def own_name(place: str) -> str:
    """A name at `place` that no other rename uses."""
    return f"{place}-{new_nonce()}"


def make_places_aside(context: JobContext, record: CommitRecord) -> None:
    """Make the directory aside, if the store needs one, before the state recorded exists."""
    if _has_places(context, record):
        directory = _old(context.job, record.nonce)
        numbers = range(0, len(record.replaced), FILES_ASIDE)
        context.at_once(context.store.mkdirs, [_part(directory, number) for number in numbers])
        context.sync(directory, context.job.aside(record.nonce))


def sync_aside(context: JobContext, record: CommitRecord) -> None:
    """Force the names of files aside to disk, before their old names are gone there."""
    if _has_places(context, record):
        directory = _old(context.job, record.nonce)
        for number in range(0, len(record.replaced), FILES_ASIDE):
            with suppress(FileNotFoundError):
                context.sync(_part(directory, number))


def end_removal(context: JobContext, record: CommitRecord) -> None:
    """Take the directory aside away, and move back what another program has put in the place of an old
    file; idempotent. `CommitStateUnknownError` if that is not possible."""
    if not _has_places(context, record):
        return
    take_old_files_away(context, record)
    moved, taken = _each(context, record, _move_stranger)
    for path in moved:
        context.note_changed(path)
    _refuse_taken(taken, "the commit is not finished")


def put_old_files_back(context: JobContext, record: CommitRecord, undoing: Seen) -> None:
    """Put the old files of a job that is being undone back; idempotent. `StateChangedError` if another
    process has ended the undo, `CommitStateUnknownError` if a name is taken or the place is gone."""
    if not record.is_undoable:
        return
    if _has_places(context, record) and not take_old_files_away(context, record):
        current = read_state(context.store, context.job)
        if current != undoing:
            raise StateChangedError(current, undoing)
        raise CommitStateUnknownError(
            f"{mark(_old(context.job, record.nonce))}: is gone, with the old files that were put aside",
            "restore it from soft delete or a snapshot, or make an empty directory there if nothing is "
            "missing at the destination, and run the same command",
        )
    # First the directories, so that the files have a place to come back to.
    for path in record.emptied:
        with suppress(FileExistsError, NotADirectoryError):
            context.store.mkdirs(path)
    if _has_places(context, record):
        _, taken = _each(context, record, restore)
        _refuse_taken(taken, "the undo is not finished")


def delete_old_files(context: JobContext, record: CommitRecord) -> None:
    """Delete what is aside, after the job is committed; idempotent."""
    if not _has_places(context, record):
        return
    places = [directory for directory, *_ in _parts(context.job, record)]
    work = context.until_cancelled(batches(context.executor, places))
    for _ in context.executor.run(delete_directories, work):
        pass


def _has_places(context: JobContext, record: CommitRecord) -> bool:
    return context.old_files.puts_aside and bool(record.replaced) and not record.keeps


def take_old_files_away(context: JobContext, record: CommitRecord) -> bool:
    """Rename the directory aside, so that nothing is put there any more; whether it is there then."""
    store, away = context.store, _away(context.job, record.nonce)
    old = _old(context.job, record.nonce)
    with suppress(FileNotFoundError):
        settle(lambda: store.move_directory(old, away), lambda: store.get_status(away) is not None)
        return True
    return store.get_status(away) is not None


def _each(context: JobContext, record: CommitRecord, move: _Move) -> tuple[list[str], list[str]]:
    """Move what was put aside; return the paths that are back, and what is where their path is taken."""
    back, taken = list[str](), list[str]()
    parts = _parts(context.job, record)
    for some, taken_here in context.run_batches(partial(_move_parts, move=move), parts):
        back += some
        taken += taken_here
    return back, taken


def _move_parts(worker: Worker, parts: tuple[_Part, ...], *, move: _Move) -> tuple[list[str], list[str]]:
    back, taken = list[str](), list[str]()
    for directory, first, files in parts:
        pairs = [
            (files[int(status.name.partition("-")[0]) - first], status)
            for status in _listed(worker.store, directory)
        ]
        ends = worker.map(lambda pair: (pair, move(worker.store, *pair)), pairs)
        for (file, aside), is_back in ends:
            if is_back:
                back.append(file.path)
            elif is_back is not None:
                taken.append(
                    f"{mark(file.path)}: its name is taken, so what was there is kept as "
                    f"{mark(aside.path)}"
                )
    return back, taken


def _move_stranger(store: StoreOperations, file: ReplacedFile, aside: FileStatus) -> bool | None:
    return None if is_same(file, aside) else restore(store, file, aside)


def _refuse_taken(taken: Sequence[str], what: str) -> None:
    if taken:
        raise CommitStateUnknownError(
            some_of(sorted(taken)),
            f"nothing is lost, but {what}: move one of the two files away, and run the same command",
        )


def _listed(store: StoreOperations, directory: str) -> list[FileStatus]:
    """What was put aside; on NFS, a file that is open while its name is removed leaves another one."""
    try:
        return [status for status in store.list_status(directory) if not is_of_file_system(status.name)]
    except FileNotFoundError:
        return []


def _parts(job: JobAttempt, record: CommitRecord) -> list[_Part]:
    away, files = _away(job, record.nonce), record.replaced
    firsts = range(0, len(files), FILES_ASIDE)
    return [(_part(away, first), first, files[first : first + FILES_ASIDE]) for first in firsts]


def _part(directory: str, number: int) -> str:
    return join(directory, str(number // FILES_ASIDE))


def _old(job: JobAttempt, nonce: str) -> str:
    return join(job.aside(nonce), "old")


def _away(job: JobAttempt, nonce: str) -> str:
    return join(job.aside(nonce), "away")
