"""Take back what one job has changed in a table: a job that restores what that one has removed.

The old files are copied from the places where they are kept, so that older versions can still be read
from there. The files that the job had added are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ray_committer.errors import (
    CommitAbortedError,
    CommitConflictError,
    JobNotFoundError,
    PathError,
    TableVersionGoneError,
    mark,
    some_of,
)
from ray_committer.options import CommittedTask
from ray_committer.places.task_files import TaskFiles
from ray_committer.protocol.claims import common_partitions
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.protocol.file_list import ListedFile
from ray_committer.protocol.paths import parent
from ray_committer.protocol.table_entry import WriteMode
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_state import ClaimCommitted, follow
from ray_committer.protocol.table_work import TableWork
from ray_committer.stages.context import JobContext
from ray_committer.stages.old_data.read_files import find_read_files
from ray_committer.stores.at_once import at_once
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.output import copy_file
from ray_committer.table_jobs.table_files import files_of
from ray_committer.table_jobs.table_job import run_table_job, write_task
from ray_committer.tables.changes import committed_since
from ray_committer.tables.checkpoint import FilesAt
from ray_committer.tables.release import how_to_end
from ray_committer.work.worker import Worker

FILES_PER_TASK = 100

Copy = Callable[[StoreOperations, str, str], int]
"""Copies a file; returns how many bytes it had."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An old file of a table, and its `place` among those that a job has kept."""

    file: ListedFile
    place: str


@dataclass(frozen=True, slots=True)
class Undo:
    """What takes back one commit: the files to restore, and the work of the job."""

    work: TableWork
    kept: tuple[Kept, ...]


def plan_undo(store: StoreOperations, table: TablePlaces, table_id: str, version: int) -> Undo:
    """Find what takes back the commit of a version; changes nothing.

    What the job has removed that was not part of the table, such as files of other programs, stays where
    it is.
    `JobNotFoundError` if no job was committed at the version. `TableVersionGoneError` if the files that
    it has removed are gone. `CommitConflictError` if a later job has changed the same partitions.
    """
    undone = _committed_at(store, table, table_id, version)
    # This version becomes the base of the job: a job that is committed between this look and its claim
    # refuses it.
    base = _refuse_later(store, table, table_id, undone)
    # What other programs had put there was no part of the table before, so a restored table must not
    # hold it.
    was_there = {file.path for file in FilesAt(store, table, table_id, version - 1).below()}
    claim = undone.claim
    removed = [file for file in files_of(store, table, claim, undone.removed) if file.path in was_there]
    kept = tuple(Kept(file, table.kept(undone.claim_version, file.path)) for file in removed)
    if kept and not undone.kept:
        raise TableVersionGoneError(
            f"{mark(table.destination)}: version {version} (job {claim.job_id}) has deleted "
            f"{some_of([file.path for file in removed])}, so it cannot be undone",
            "nothing was changed: restore them from soft delete, and write them again",
        )
    _refuse_missing(store, kept)
    added = find_read_files(store, table.destination, files_of(store, table, claim, claim.files))
    partitions, run_id = tuple(claim.partitions), claim.run_id
    undoes = undone.version if run_id is not None else None
    work = TableWork(WriteMode.REPLACE, table_id, base, partitions, tuple(added), run_id, undoes)
    return Undo(work, kept)


def undo_version(
    context: JobContext,
    plan: Undo,
    *,
    copy: Copy = copy_file,
    on_result: Callable[[CommitResult], None] = lambda _: None,
) -> CommitResult:
    """Run a job that takes back a commit."""

    def write(context: JobContext) -> Iterator[CommittedTask]:
        batches = context.until_cancelled(_batches(plan.kept))
        return context.executor.run(partial(_restore, copy=copy), batches)

    return run_table_job(context, plan.work, write, on_result=on_result)


def _committed_at(
    store: StoreOperations, table: TablePlaces, table_id: str, version: int
) -> ClaimCommitted:
    commits = committed_since(store, table, table_id, version - 1) if version > 0 else []
    for commit in commits:
        if commit.version == version and not commit.claim.is_import:
            return commit
        if commit.version == version:
            raise PathError(
                f"{mark(table.destination)}: version {version} is the import of files that were there "
                "before, which cannot be undone",
                "nothing was changed: choose the version of a job",
            )
    raise JobNotFoundError(
        f"{mark(table.destination)}: no job was committed at version {version}",
        "nothing was changed: `history` shows the versions of all jobs",
    )


def _refuse_later(
    store: StoreOperations, table: TablePlaces, table_id: str, undone: ClaimCommitted
) -> int:
    """`CommitConflictError` if another job has changed the same partitions since a commit, up to the
    version that this returns."""
    at = FilesAt(store, table, table_id, undone.version)
    state, later = follow(at.state, at.later)
    partitions = undone.claim.partitions
    changed = [
        commit
        for commit in reversed(later)
        if not _changes_nothing(commit) and common_partitions(partitions, commit.claim.partitions)
    ]
    unended = {pending.version: pending for pending in state.in_flight}
    for commit in (*changed[:1], undone):
        if commit.claim_version in unended:
            raise CommitConflictError(
                f"{mark(table.destination)}: job {commit.claim.job_id} (version {commit.version}) has "
                "not removed all of its old files yet",
                f"nothing was changed: {how_to_end(store, table, unended[commit.claim_version])}; then "
                f"run the same command again",
            )
    if changed:
        raise _later(table, undone, changed[0])
    return state.version


def _later(table: TablePlaces, undone: ClaimCommitted, last: ClaimCommitted) -> CommitConflictError:
    common = common_partitions(undone.claim.partitions, last.claim.partitions)
    places = some_of([path or "the whole table" for path in sorted(common)])
    if last.claim.undoes == undone.version:
        return CommitConflictError(
            f"{mark(table.destination)}: version {undone.version} was undone before, as version "
            f"{last.version}",
            f"nothing was changed: to bring it back, undo version {last.version}",
        )
    return CommitConflictError(
        f"{mark(table.destination)}: job {last.claim.job_id} (version {last.version}) has changed "
        f"{places} after version {undone.version}, so that version cannot be undone",
        f"nothing was changed: undo version {last.version}, or write rows of a snapshot again",
    )


def _changes_nothing(commit: ClaimCommitted) -> bool:
    """Whether a job has added no file and replaced none of the table, such as a removal of orphans."""
    return not commit.claim.files.files and commit.claim.replaces == []


def _refuse_missing(store: StoreOperations, kept: Sequence[Kept]) -> None:
    directories = sorted({parent(file.place) for file in kept})
    there: dict[str, int] = {}
    for sizes in at_once(store, partial(_sizes, store), directories):
        there |= sizes
    wrong = [mark(file.place) for file in kept if there.get(file.place) != file.file.size]
    if wrong:
        raise TableVersionGoneError(
            f"{some_of(wrong)}: is gone or has changed, so the version cannot be undone",
            "nothing was changed: restore it from soft delete or a snapshot of the store",
        )


def _sizes(store: StoreOperations, directory: str) -> dict[str, int]:
    try:
        return {
            status.path: status.size
            for status in store.list_status(directory)
            if not status.is_directory
        }
    except (FileNotFoundError, NotADirectoryError):
        return {}


def _batches(kept: Sequence[Kept]) -> Iterator[tuple[int, tuple[Kept, ...]]]:
    """The files of each task, with its number; one task without files if there are none."""
    for number, start in enumerate(range(0, max(len(kept), 1), FILES_PER_TASK)):
        yield number, tuple(kept[start : start + FILES_PER_TASK])


def _restore(worker: Worker, item: tuple[int, tuple[Kept, ...]], *, copy: Copy) -> CommittedTask:
    """Work: a task that copies some kept files."""
    number, files = item

    def write(restored: TaskFiles, _: str) -> None:
        for file in files:
            if copy(worker.store, file.place, restored.path(file.file.path)) != file.file.size:
                raise CommitAbortedError(
                    f"{mark(file.place)}: has changed while it was copied",
                    "nothing was changed: run the same command again",
                )

    return write_task(worker, number, write)
