"""What an abort would delete."""

from __future__ import annotations

from dataclasses import dataclass

from ray_committer.open_job import StorageOptions, open_job
from ray_committer.options import CommitOptions
from ray_committer.stages.abort_job import refuse_decided

_DEFAULTS = CommitOptions()


@dataclass(frozen=True, slots=True)
class AbortPlan:
    """What an abort would delete: `files` and `bytes` of a job attempt's tasks, and its manifests."""

    destination: str
    job_id: str
    job_attempt: int
    directory: str
    files: int
    bytes: int


def plan_abort(
    dest: str,
    job_id: str | None = None,
    *,
    options: CommitOptions = _DEFAULTS,
    storage_options: StorageOptions | None = None,
) -> AbortPlan:
    """List what an abort would delete, without changing anything.

    `CommitRecordExistsError` where the abort would be refused, since the job's commit has begun.
    """
    with open_job(
        dest, job_id, executor="inline", options=options, storage_options=storage_options
    ) as found:
        context, job = found.context, found.context.job
        refuse_decided(context, found.state)
        files = context.store.list_files(job.tasks)
        return AbortPlan(
            destination=job.destination,
            job_id=job.job_id,
            job_attempt=job.number,
            directory=job.directory,
            files=len(files),
            bytes=sum(file.size for file in files),
        )
