"""Set up a job: make its directory, and warn of other jobs whose commit never finished.

Source: Hadoop SetupJobStage.
"""

from __future__ import annotations

from collections.abc import Sequence

from ray_committer.errors import CommitConflictError, TaskCommitError
from ray_committer.protocol.paths import JobAttempt
from ray_committer.stages.find_job import list_job_directories, read_attempt_state
from ray_committer.stores.base import StoreOperations


def setup_job(
    store: StoreOperations,
    job: JobAttempt,
    *,
    mark_success: bool = True,
    replaces: Sequence[str] = (),
) -> list[str]:
    """Make the job attempt's directories; ``FileExistsError`` if the attempt was set up before.

    Deletes the ``_SUCCESS`` of an earlier job if this one will write its own. Returns sentences
    about unfinished commits at the destination: running their application again would double rows. A
    job that replaces the whole destination (`replaces`: directories) is refused beside one, since
    finishing that later would bring its rows back.
    """
    warnings = unfinished_commits(store, job)
    refuse_beside_unfinished(warnings, job, replaces)
    if read_attempt_state(store, job).exists:
        raise TaskCommitError(
            f"{job.directory}: exists already; give every job, and every attempt of one, its own id"
        )
    store.mkdirs(job.manifests)
    if replaces:
        store.write(job.replaces_data, b"")
    if mark_success:
        store.delete_file(job.success)
    return warnings


def refuse_beside_unfinished(
    unfinished: Sequence[str], job: JobAttempt, replaces: Sequence[str]
) -> None:
    """`CommitConflictError` if a job that replaces the whole destination is beside an unfinished one."""
    if unfinished and job.destination in replaces:
        raise CommitConflictError(f"{unfinished[0]}; only then can the destination be replaced")


def unfinished_commits(store: StoreOperations, job: JobAttempt) -> list[str]:
    """A sentence for each other job at the destination that has a commit record."""
    return [
        f"{attempt.directory}: the commit of job {attempt.job_id} has begun but not ended; finish it "
        f"with: ray-committer commit {job.destination} --job-id {attempt.job_id}"
        for found in list_job_directories(store, job.destination)
        for attempt in found.attempts
        if attempt.job_id != job.job_id and read_attempt_state(store, attempt).is_decided
    ]
