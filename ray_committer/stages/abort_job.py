"""Abort a job: decide so, then delete its directory, unless its commit has begun.

The decision takes the place of the commit record, by the same rename that never replaces, so an abort
and a commit at the same time cannot both succeed. Source: Hadoop AbortJobStage.
"""

from __future__ import annotations

from ray_committer.errors import CommitRecordExistsError, CommitStateUnknownError
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.record import CommitRecord
from ray_committer.stages.cleanup_job import remove_empty_parents
from ray_committer.stages.commands import commit_command
from ray_committer.stages.context import JobContext
from ray_committer.stages.find_job import AttemptState, read_attempt_state
from ray_committer.stages.save_commit_record import load_commit_record, save_commit_record


def abort_job(context: JobContext, *, nonce: str) -> bool:
    """Delete everything of the job attempt; idempotent. False if nothing was there.

    `CommitRecordExistsError`, with nothing deleted, once the commit record exists: files may be
    visible, so the only way is forward. `CommitStateUnknownError` if the store failed on the way.
    """
    try:
        with context.stage(names.ABORT):
            return _abort(context, nonce)
    except OSError as e:
        raise CommitStateUnknownError(
            f"{e.filename or context.job.directory}: {e.strerror or e}; the job may be half aborted, "
            f"run the same command again"
        ) from e


def _abort(context: JobContext, nonce: str) -> bool:
    job, store = context.job, context.store
    state = read_attempt_state(store, job)
    refuse_decided(context, state)
    if not state.exists:
        remove_empty_parents(context)
        return False
    if not state.has_record and not save_commit_record(context, _decision(context, nonce)).aborted:
        raise _too_late(context)
    for directory in (job.tasks, job.manifests, job.directory):
        store.delete_directory(directory)
    remove_empty_parents(context)
    return True


def refuse_decided(context: JobContext, state: AttemptState) -> None:
    """`CommitRecordExistsError` if the job's commit, and not its abort, has begun."""
    if state.has_commit_point:
        raise _too_late(context)
    if state.has_record and not load_commit_record(context, committed=False).aborted:
        raise _too_late(context)


def _decision(context: JobContext, nonce: str) -> CommitRecord:
    return CommitRecord(
        nonce=nonce,
        job_id=context.job.job_id,
        job_attempt=context.job.number,
        created_milliseconds=context.now_milliseconds(),
        manifests=[],
        aborted=True,
    )


def _too_late(context: JobContext) -> CommitRecordExistsError:
    return CommitRecordExistsError(
        f"{context.job.directory}: the commit of this job has begun, so it can no longer be aborted; "
        f"finish it with: {commit_command(context.store.spec, context.job)}"
    )
