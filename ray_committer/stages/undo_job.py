"""Give up a recorded commit: take back the files that it has moved, and abort the job.

After the job is sealed, this is possible only if its record says that every old file is put aside: these
are put back first. How each new file is taken back is described in `ray_committer.stages.take_back`.
"""

from __future__ import annotations

from functools import partial

from ray_committer.errors import (
    CommitRecordExistsError,
    CommitStateUnknownError,
    PackChangedError,
    RecordGoneError,
    failed_request,
    mark,
)
from ray_committer.job_files.commands import commit_command
from ray_committer.job_files.commit_record import load_commit_record
from ray_committer.job_files.follow_job import follow_job
from ray_committer.job_files.job_state import Seen, StateChangedError, advance, read_state
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.others import until_certain
from ray_committer.job_files.read_job import read_others
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.record import CommitRecord
from ray_committer.protocol.state import UNDECIDED, Phase, new_nonce
from ray_committer.stages.abort_job import abort_job, remove_aborted
from ray_committer.stages.cleanup_job import remove_what_was_late
from ray_committer.stages.context import JobContext
from ray_committer.stages.declare_job import busy
from ray_committer.stages.load_packs import load_packs
from ray_committer.stages.note_new_directories import remove_new_directories
from ray_committer.stages.old_data.old_files_aside import put_old_files_back
from ray_committer.stages.old_data.old_success import put_old_success_back
from ray_committer.stages.other_jobs.ended_jobs import refuse_committed
from ray_committer.stages.save_commit_record import refuse_foreign_paths, sync_state
from ray_committer.stages.sync_to_disk import sync_replaced, sync_taken_back
from ray_committer.stages.take_back import is_place_lost, make_place, take_back


def undo_job(context: JobContext, state: JobStatus, *, allowed_roots: tuple[str, ...] = ()) -> bool:
    """Take back the files that a recorded commit has moved, and delete the job; idempotent. An undecided
    job is aborted. False if there was nothing. `CommitRecordExistsError` if old files may be gone, or if
    the job is committed. `CommitterBusyError` while a live process commits the job.
    `CommitStateUnknownError` if the store failed, or does not show whether a file is the job's."""
    if state.seen is None or state.seen.phase in UNDECIDED:
        return abort_job(context)
    try:
        with context.stage(names.ABORT):
            _undo(context, state.seen, allowed_roots)
    except OSError as e:
        raise CommitStateUnknownError(
            failed_request(e, context.job.directory),
            "the commit may be half undone, so run the same command again",
        ) from e
    return True


def _undo(context: JobContext, last: Seen, allowed_roots: tuple[str, ...]) -> None:
    recorded = context

    def step(current: Seen) -> Seen:
        nonlocal recorded
        if current.phase is Phase.ABORTED:
            return current
        refuse_committed_state(context, current.phase)
        record = _trusted_record(context, current, allowed_roots)
        if current.phase is not Phase.UNDOING:
            refuse_sealed(context, current.phase, record)
            refuse_alive(context)
        recorded = context.as_recorded(record)
        return _take_back(recorded, record, current)

    last, is_there = follow_job(last, step)
    if is_there:
        remove_aborted(recorded, last)
    else:
        remove_what_was_late(context)
        refuse_committed(context, last)


def _take_back(context: JobContext, record: CommitRecord, current: Seen) -> Seen:
    store, job = context.store, context.job
    if current.phase is not Phase.UNDOING or is_place_lost(store, job.undone(current.state.nonce)):
        current = _begin(context, record, current)
    sync_state(context)
    # Before the new files are taken away: the directory aside is taken from late committers first (D6).
    put_old_files_back(context, record, current)
    sync_replaced(context, record)
    take_back(context, record, current, job.undone(current.state.nonce))
    sync_taken_back(context)
    put_old_success_back(context, record)
    remove_new_directories(context, record)
    return advance(store, job, current, Phase.ABORTED)


def _begin(context: JobContext, record: CommitRecord, last: Seen) -> Seen:
    """Decide that the job is undone, after its place was made, which no process makes again."""
    nonce = new_nonce()
    place = context.job.undone(nonce)
    make_place(context, record, place)
    try:
        return advance(context.store, context.job, last, Phase.UNDOING, nonce)
    except StateChangedError:
        context.store.delete_directory(place)
        raise


def _trusted_record(context: JobContext, current: Seen, allowed_roots: tuple[str, ...]) -> CommitRecord:
    """Load the record, and check that it and its packs name only paths that this job can change."""
    try:
        record = load_commit_record(context.store, context.job, current.state)
        refuse_foreign_paths(context, record, allowed_roots, undo=True)
        context.executor.directories.forget()
        roots = (context.job.destination, *record.allowed_roots)
        load_packs(context, record, roots)
    except (PackChangedError, RecordGoneError):
        latest = read_state(context.store, context.job)
        if latest == current:
            raise
        # It was committed and removed in the meantime.
        raise StateChangedError(latest, current) from None
    return record


def refuse_sealed(context: JobContext, phase: Phase, record: CommitRecord) -> None:
    """`CommitRecordExistsError` if old files may be gone that cannot be put back."""
    if phase is not Phase.SEALED or (record.is_undoable and context.old_files.puts_aside):
        return
    if record.table is not None:
        why = "the log of its table may say that it is committed"
    elif record.overwritten:
        sample = mark(record.overwritten[0].path)
        why = f"it replaces old files by new ones of the same name, such as {sample}"
    else:
        why = "old files are deleted on this store and may be gone"
    _refuse(context, f"has begun to remove the data that it replaces, and {why}")


def refuse_committed_state(context: JobContext, phase: Phase) -> None:
    """`CommitRecordExistsError` if the job is committed."""
    if phase is Phase.COMMITTED:
        _refuse(context, "is committed")


def _refuse(context: JobContext, what: str) -> None:
    raise CommitRecordExistsError(
        f"{mark(context.job.directory)}: this job {what}, so it can no longer be undone",
        f"finish it with: {commit_command(context.store, context.job)}",
    )


def refuse_alive(context: JobContext) -> None:
    """`CommitterBusyError` if a live process commits the job."""
    read = partial(read_others, context.store, context.job, now_milliseconds=context.now_milliseconds())
    for status in until_certain(read, pause=context.sleep):
        if status.is_alive:
            raise busy(status)
