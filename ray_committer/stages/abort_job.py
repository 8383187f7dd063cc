"""Abort a job: delete its directory, unless its commit has begun. Source: Hadoop AbortJobStage."""

from __future__ import annotations

from ray_committer.errors import CommitRecordExistsError
from ray_committer.protocol import statistic_names as names
from ray_committer.stages.cleanup_job import remove_empty_parents
from ray_committer.stages.context import JobContext
from ray_committer.stages.find_job import read_attempt_state


def abort_job(context: JobContext) -> bool:
    """Delete everything of the job attempt; idempotent. False if nothing was there.

    `CommitRecordExistsError`, with nothing deleted, once the commit record exists: files may be
    visible, so the only way is forward.
    """
    job = context.job
    with context.stage(names.ABORT):
        if read_attempt_state(context.store, job).is_decided:
            raise CommitRecordExistsError(
                f"{job.directory}: the commit of this job has begun, so it can no longer be aborted; "
                f"finish it with: ray-committer commit {job.destination} --job-id {job.job_id}"
            )
        deleted = context.store.delete_directory(job.directory)
        remove_empty_parents(context)
    return deleted
