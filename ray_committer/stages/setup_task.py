"""Set up a task attempt: make the directory that it writes to. Source: Hadoop SetupTaskStage."""

from __future__ import annotations

from ray_committer.errors import TaskCommitError, mark
from ray_committer.job_files.read_job import read_job
from ray_committer.places.choose import output_of
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.state import UNSTAMPED, Phase
from ray_committer.stores.base import StoreOperations


def setup_task(
    store: StoreOperations, job: JobAttempt, task_attempt_id: str, *, chooses_names: bool = False
) -> tuple[str, str]:
    """Make the task attempt's directory; return it and the stamp of the task's job. An attempt that
    `chooses_names`, and writes staged files, gets no directory. `TaskCommitError` if the job is not set
    up, is over or is being committed, or if the attempt exists."""
    state = read_job(store, job)
    if state.phase not in (None, Phase.OPEN):
        raise TaskCommitError(
            f"{mark(job.directory)}: the job is being committed or aborted, so no task of it can begin"
        )
    if state.is_remnant:
        raise TaskCommitError(
            f"{mark(job.directory)}: is not a job that was set up", "call setup_job first"
        )
    directory = job.task_attempt(task_attempt_id)
    stamp = state.seen.state.stamp if state.seen else UNSTAMPED
    if chooses_names and output_of(store).stages(stamp):
        return directory, stamp
    if store.get_status(directory) is not None:
        raise TaskCommitError(
            f"{mark(directory)}: exists already", "give every task attempt its own number"
        )
    try:
        store.mkdirs(directory)
    except FileNotFoundError as e:
        raise TaskCommitError(
            f"{mark(directory)}: could not be made, because the job is being removed"
        ) from e
    return directory, stamp
