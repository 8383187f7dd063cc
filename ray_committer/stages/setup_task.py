"""Set up a task attempt: make the directory that it writes into. Source: Hadoop SetupTaskStage."""

from __future__ import annotations

from ray_committer.errors import TaskCommitError
from ray_committer.protocol.paths import JobAttempt
from ray_committer.stages.find_job import read_attempt_state
from ray_committer.stores.base import StoreOperations


def setup_task(store: StoreOperations, job: JobAttempt, task_attempt_id: str) -> str:
    """Make the task attempt's directory and return it.

    `TaskCommitError` if the job is not set up (or is over already) or the attempt exists.
    """
    if not read_attempt_state(store, job).has_manifests:
        raise TaskCommitError(f"{job.directory}: is no job that was set up; call setup_job first")
    directory = job.task_attempt(task_attempt_id)
    if store.get_status(directory) is not None:
        raise TaskCommitError(f"{directory}: exists already; give every task attempt its own number")
    store.mkdirs(directory)
    return directory
