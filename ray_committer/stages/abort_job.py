"""Abort a job: decide that it is aborted, then delete its directory. Refused after its commit has begun.

That changes the job's state, so an abort and a commit cannot both succeed. Source: Hadoop AbortJobStage.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ray_committer.errors import (
    CommitRecordExistsError,
    CommitStateUnknownError,
    TableLogError,
    failed_request,
    mark,
)
from ray_committer.job_files.commands import abort_command, commit_command
from ray_committer.job_files.follow_job import follow_job
from ray_committer.job_files.job_state import Seen, adopt_state, advance
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.listing import find_s3a
from ray_committer.job_files.read_job import read_job, without_late
from ray_committer.job_files.success import is_noted
from ray_committer.places.deleted import count_deleted
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.state import UNDECIDED, UNSTAMPED, Phase
from ray_committer.protocol.table_state import ClaimInFlight
from ray_committer.stages.adopt_job import remove_left
from ray_committer.stages.cleanup_job import remove_empty_parents
from ray_committer.stages.context import JobContext
from ray_committer.stages.old_data.old_success import return_success_of_another
from ray_committer.stages.other_jobs.ended_jobs import refuse_committed, unknown_end
from ray_committer.stages.save_commit_record import refuse_aborted
from ray_committer.stages.sync_to_disk import sync_taken_away
from ray_committer.stages.take_away import delete_gone, remove_husk, sweep_all_gone, take_away
from ray_committer.tables.release import release_own


def abort_job(context: JobContext) -> bool:
    """Delete everything of the job attempt; idempotent. False if nothing was there, or only leftovers of
    a job that has ended. `CommitRecordExistsError`, with nothing deleted, after the commit is recorded:
    files may be visible. `CommitStateUnknownError` if the store failed during the abort."""
    try:
        with context.stage(names.ABORT):
            return _abort(context)
    except OSError as e:
        raise CommitStateUnknownError(
            failed_request(e, context.job.directory),
            "the abort is possibly not complete: run the same command again",
        ) from e


def _abort(context: JobContext) -> bool:
    job, store = context.job, context.store
    state = read_job(store, job)
    if state.is_husk:
        remove_husk(store, job)
    is_left = may_be_left(context, state)
    if is_nothing(state) and not is_left:
        sweep_all_gone(store, job)  # nothing shows whose it was, nor whether it was committed
        remove_empty_parents(context)
        return False
    is_over = not is_left and without_late(store, state).is_remnant
    first = state.seen or adopt_state(store, job, Phase.ABORTED)
    if first is None:  # it had no state, and is gone: nothing identifies it any more
        raise unknown_end(job)
    last, is_there = follow_job(first, partial(_decide_aborted, context))
    if not is_there:
        refuse_committed(context, last)
        return True
    has_ended = is_left and find_s3a(store, job.destination, job.job_id, job.number) is None
    remove_aborted(context, last)
    if has_ended:  # another process has done all of it between the two looks
        refuse_committed(context, last)
    return not is_over


def _decide_aborted(context: JobContext, current: Seen) -> Seen:
    if current.phase is Phase.ABORTED:
        return current
    refuse_decided(context, current.phase)
    return advance(context.store, context.job, current, Phase.ABORTED)


def is_nothing(state: JobStatus) -> bool:
    """Whether nothing of a job attempt is there."""
    return state.is_husk or not state.exists


def may_be_left(context: JobContext, state: JobStatus) -> bool:
    """Whether nothing is there but what Hadoop's S3A committer left of the job."""
    return state.is_remnant and context.is_adopted and not is_noted(context.store, context.job)


def remove_aborted(context: JobContext, aborted: Seen) -> None:
    """End the claim of an aborted job in the log of its table, and delete the job's directory."""
    # The claim ends before the directory goes: without the state, only a person could end it (D7).
    context.journal.ended_claim = _release_claim(context, aborted)
    left = _remove_left(context) if aborted.state.stamp == UNSTAMPED else 0
    return_success_of_another(context.store, context.job, aborted)
    gone = take_away(context.store, context.job, aborted)
    if gone is not None:
        sync_taken_away(context)
        counted = count_deleted(context.store, gone)
        uploads = delete_gone(context.store, gone, aborted)
        if uploads is not None:
            context.journal.deleted = replace(counted, uploads=left + uploads)
    remove_empty_parents(context)


def _remove_left(context: JobContext) -> int:
    """Remove what S3A's committer left, and report what it made visible; how many uploads ended."""
    aborted, visible = remove_left(context.store, context.job, is_committed=False)
    if visible:
        rest = f" and {len(visible) - 1:,} more" if len(visible) > 1 else ""
        context.notice(
            f"{mark(visible[0])}{rest}: completed by Hadoop's committer before this abort, and still "
            "visible"
        )
    return aborted


def _release_claim(context: JobContext, aborted: Seen) -> ClaimInFlight | None:
    try:
        return release_own(context.store, context.job, aborted.state, context.now_milliseconds())
    except TableLogError as e:
        raise CommitStateUnknownError(
            e.parts[0],
            f"the job is aborted, but the log of its table does not say so yet, so other jobs may wait "
            f"for it: restore the log from soft delete or a snapshot, and run: "
            f"{abort_command(context.store, context.job)}",
        ) from e


def refuse_decided(context: JobContext, phase: Phase | None) -> None:
    """`CommitRecordExistsError` if the job's commit, and not its abort, has begun."""
    if phase is None or phase in UNDECIDED or phase is Phase.ABORTED:
        return
    refuse_aborted(context, phase)
    job, store, undo = context.job, context.store, ""
    if phase in (Phase.RECORDED, Phase.SEALED):
        only = "" if phase is Phase.RECORDED else ", if all its old files are put aside,"
        undo = f", or{only} give it up with: {abort_command(store, job, undo=True)}"
    raise CommitRecordExistsError(
        f"{mark(job.directory)}: the commit of this job has begun, so it can no longer be aborted",
        f"finish it with: {commit_command(store, job)}{undo}",
    )
