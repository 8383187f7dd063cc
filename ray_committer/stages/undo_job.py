"""Give up a recorded commit: take back the files that it has moved, and abort the job.

This is possible only before the job is sealed, so no old file is removed yet. Each file is first taken
away from its source, so that a committer that is thought dead can no longer move it. If it is at its
destination instead, and is proved to be the job's, it is taken away from there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ray_committer.errors import (
    CommitRecordExistsError,
    CommitStateUnknownError,
    ManifestChangedError,
    RecordGoneError,
)
from ray_committer.job_files.commands import commit_command
from ray_committer.job_files.commit_record import load_commit_record
from ray_committer.job_files.find_job import AttemptState
from ray_committer.job_files.job_state import Seen, StateChangedError, advance, read_state
from ray_committer.job_files.other_jobs import read_other
from ray_committer.job_files.settle import settle
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.paths import TAKEN_BACK_SUFFIX, UNDONE, JobAttempt, join
from ray_committer.protocol.record import CommitRecord, ManifestRef
from ray_committer.protocol.recovery import Proof, prove
from ray_committer.protocol.state import UNDECIDED, Phase
from ray_committer.stages.abort_job import abort_job, remove_aborted
from ray_committer.stages.context import JobContext
from ray_committer.stages.declare_job import busy
from ray_committer.stages.ended_jobs import refuse_committed
from ray_committer.stages.load_manifests import load_manifests
from ray_committer.stages.old_success import put_old_success_back
from ray_committer.stages.save_commit_record import refuse_foreign_paths, sync_state
from ray_committer.stages.sync_to_disk import sync_taken_back
from ray_committer.stores.base import StoreOperations
from ray_committer.work.complete_entry import take_back_upload
from ray_committer.work.entries import Entry
from ray_committer.work.sidecars import recorded_entries
from ray_committer.work.worker import Worker

Numbered = tuple[int, ManifestRef]


def undo_job(context: JobContext, state: AttemptState, *, allowed_roots: tuple[str, ...] = ()) -> bool:
    """Take back the files that a recorded commit has moved, and delete the job; idempotent.

    An undecided job is aborted. Returns False if there was nothing. `CommitRecordExistsError` if old
    files may be gone, or if the job is committed. `CommitterBusyError` while a live process commits the
    job. `CommitStateUnknownError` if the store does not show whether a file is the job's, or if the
    store failed during the undo.
    """
    if state.seen is None or state.seen.phase in UNDECIDED:
        return abort_job(context)
    try:
        with context.stage(names.ABORT):
            _undo(context, state.seen, allowed_roots)
    except OSError as e:
        raise CommitStateUnknownError(
            f"{e.filename or context.job.directory}: {e.strerror or e}",
            "the commit may be half undone, so run the same command again",
        ) from e
    return True


def _undo(context: JobContext, seen: Seen, allowed_roots: tuple[str, ...]) -> None:
    store, job = context.store, context.job
    try:
        while seen.phase is not Phase.ABORTED:
            refuse_sealed(context, seen.phase)
            if seen.phase is Phase.RECORDED:
                refuse_alive(context)
            record = _trusted_record(context, seen, allowed_roots)
            if seen.phase is Phase.RECORDED:
                seen = advance(store, job, seen, Phase.UNDOING)
            context = context.as_recorded(record)
            sync_state(context)
            _take_back(context, record)
            sync_taken_back(context)
            put_old_success_back(context, record)
            seen = advance(store, job, seen, Phase.ABORTED)
    except StateChangedError as e:
        if e.now is not None:
            return _undo(context, e.now, allowed_roots)
        refuse_committed(context, seen)
        return None
    remove_aborted(context, seen)
    return None


def _trusted_record(context: JobContext, seen: Seen, allowed_roots: tuple[str, ...]) -> CommitRecord:
    """Load the record, and check that it and its manifests name only paths that this job can change."""
    try:
        record = load_commit_record(context.store, context.job, seen.state)
        refuse_foreign_paths(context, record, allowed_roots, undo=True)
        context.executor.directories.forget()
        roots = (context.job.destination, *record.allowed_roots)
        load_manifests(context, record, roots, stamp=seen.state.stamp)
    except (ManifestChangedError, RecordGoneError):
        now = read_state(context.store, context.job)
        if now == seen:
            raise
        raise StateChangedError(now, seen) from None  # it was committed and removed in the meantime
    return record


def _take_back(context: JobContext, record: CommitRecord) -> None:
    """Take every file of the job away from its source or its destination, wherever it is."""
    if context.store.capabilities.has_directories:
        context.store.mkdirs(_undone(context.job))
    numbered = context.until_cancelled(enumerate(record.manifests))
    overwritten = frozenset(file.path for file in record.overwritten)  # no namesake is replaced yet
    take_back = partial(_take_back_manifest, overwritten=overwritten)
    for stays in context.executor.run(take_back, numbered):
        for path in stays:
            context.notice(
                f"{path}: is kept, because it is not what the job's manifest says: another program "
                f"wrote it, or the job's file was changed; look at it, and remove it if it is the job's"
            )
    context.check_cancelled()


def _take_back_manifest(worker: Worker, numbered: Numbered, *, overwritten: frozenset[str]) -> list[str]:
    """Work: take back the files of one manifest; return the paths that are kept but may be the job's."""
    number, ref = numbered
    entries = enumerate(recorded_entries(worker, ref))
    take = partial(take_back_entry, worker.store, join(_undone(worker.job), str(number)), overwritten)
    return [path for path in worker.map(take, entries) if path is not None]


def take_back_entry(
    store: StoreOperations, prefix: str, overwritten: frozenset[str], numbered: tuple[int, Entry]
) -> str | None:
    """Take a file back; return its destination if the file there is kept but may be the job's."""
    number, entry = numbered
    if entry.upload is not None:
        return take_back_upload(store, entry, entry.upload, overwritten)
    taken = f"{prefix}-{number}"
    try:
        _rename(store, lambda: store.rename(entry.source, taken), taken)
    except FileNotFoundError:
        if store.get_status(taken) is None:
            return take_from_destination(store, f"{taken}{TAKEN_BACK_SUFFIX}", entry)
    except FileExistsError:  # an earlier run took it, and a task that should be dead wrote it again
        store.delete_file(entry.source)
    else:
        if _is_second_name(store, taken, entry):
            store.delete_file(entry.dest)
    return None


def take_from_destination(store: StoreOperations, taken: str, entry: Entry) -> str | None:
    """Take a file that was moved back, if it is proved to be the job's; else as `take_back_entry`."""
    found = store.get_status(entry.dest)
    if found is None or found.is_directory:
        return None
    proof = prove(entry.expected, found.observation())
    if proof is None:
        return None if store.get_status(taken) is not None else entry.dest
    if proof is Proof.SIZE_ONLY:
        raise CommitStateUnknownError(
            f"{entry.dest}: has the size of the file that this job wrote, but the store does not show "
            f"whether it is that file",
            "if it is, move it away, and run the same command",
        )
    try:
        _rename(store, lambda: store.rename(entry.dest, taken, found.version), taken)
    except FileNotFoundError:
        if store.get_status(entry.dest) is not None:
            raise
        # another process that undoes the job has taken it
    return None


def _rename(store: StoreOperations, rename: Callable[[], None], taken: str) -> None:
    settle(rename, lambda: store.get_status(taken) is not None)


def _is_second_name(store: StoreOperations, taken: str, entry: Entry) -> bool:
    """Whether a rename by link and unlink was interrupted between the two steps."""
    if not store.capabilities.renames_are_local:
        return False
    own, other = store.get_status(taken), store.get_status(entry.dest)
    return own is not None and other is not None and own.file_id == other.file_id


def _undone(job: JobAttempt) -> str:
    return join(job.directory, UNDONE)


def refuse_sealed(context: JobContext, phase: Phase) -> None:
    """`CommitRecordExistsError` if old files may be gone, or if the job is committed."""
    if phase not in (Phase.SEALED, Phase.COMMITTED):
        return
    what = (
        "is committed" if phase is Phase.COMMITTED else "has begun to remove the data that it replaces"
    )
    raise CommitRecordExistsError(
        f"{context.job.directory}: this job {what}, so it can no longer be undone",
        f"finish it with: {commit_command(context.store, context.job)}",
    )


def refuse_alive(context: JobContext) -> None:
    """`CommitterBusyError` if a live process commits the job."""
    other = read_other(context.store, context.job, context.now_milliseconds())
    if other is not None and other.is_alive:
        raise busy(other)
