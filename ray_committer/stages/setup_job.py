"""Set up a job: make its directory, and warn of other jobs whose commit never finished.

Source: Hadoop SetupJobStage.
"""

from __future__ import annotations

from collections.abc import Sequence

from ray_committer.errors import CommitConflictError, TaskCommitError
from ray_committer.protocol.paths import JobAttempt
from ray_committer.stages.commands import commit_command
from ray_committer.stages.find_job import list_job_directories, read_attempt_state
from ray_committer.stores.base import StoreOperations, StoreSpec


def setup_job(
    store: StoreOperations,
    job: JobAttempt,
    *,
    mark_success: bool = True,
    replaces: Sequence[str] = (),
    must_be_empty: bool = False,
) -> list[str]:
    """Make the job attempt's directories; ``FileExistsError`` if the attempt was set up before.

    Deletes the ``_SUCCESS`` of an earlier job if this one will write its own. Returns sentences
    about unfinished commits at the destination: running their application again would double rows. A
    job that replaces the whole destination (`replaces`: directories) is refused beside one, since
    finishing that later would bring its rows back. With `must_be_empty` data at the destination
    refuses the job before its tasks run; its commit looks again.
    """
    if must_be_empty:
        refuse_data(store, job.destination)
    unfinished = unfinished_attempts(store, job)
    refuse_beside_unfinished(store.spec, unfinished, job, replaces)
    if read_attempt_state(store, job).exists:
        raise TaskCommitError(
            f"{job.directory}: exists already; give every job, and every attempt of one, its own id"
        )
    store.mkdirs(job.manifests)
    if replaces:
        store.write(job.replaces_data, b"")
    if mark_success:
        store.delete_file(job.success)
    return [finish_first(store.spec, attempt) for attempt in unfinished]


def refuse_beside_unfinished(
    spec: StoreSpec, unfinished: Sequence[JobAttempt], job: JobAttempt, replaces: Sequence[str]
) -> None:
    """`CommitConflictError` if a job that replaces the whole destination is beside an unfinished one."""
    if unfinished and job.destination in replaces:
        raise CommitConflictError(
            f"{finish_first(spec, unfinished[0])}; only then can the destination be replaced"
        )


def refuse_data(store: StoreOperations, destination: str) -> None:
    """`CommitConflictError` if the destination holds anything that readers see."""
    try:
        names = [status.name for status in store.list_status(destination)]
    except FileNotFoundError:
        return
    if data := sorted(name for name in names if not name.startswith(("_", "."))):
        raise CommitConflictError(f"{destination}: holds data already ({data[0]}); nothing was changed")


def unfinished_attempts(store: StoreOperations, job: JobAttempt) -> list[JobAttempt]:
    """The attempts of other jobs at the destination whose commit, or abort, has begun."""
    return [
        attempt
        for found in list_job_directories(store, job.destination)
        for attempt in found.attempts
        if attempt.job_id != job.job_id and read_attempt_state(store, attempt).is_decided
    ]


def finish_first(spec: StoreSpec, attempt: JobAttempt) -> str:
    """A sentence that says how to finish a commit."""
    return (
        f"{attempt.directory}: the commit of job {attempt.job_id} has begun but not ended; finish it "
        f"with: {commit_command(spec, attempt)}"
    )
