"""Abort a task attempt: delete its files. A manifest that it saved stays, as in Hadoop.

Source: Hadoop AbortTaskStage.
"""

from __future__ import annotations

from ray_committer.protocol.paths import JobAttempt
from ray_committer.stores.base import StoreOperations


def abort_task(store: StoreOperations, job: JobAttempt, task_attempt_id: str) -> bool:
    """Delete the task attempt's directory; idempotent. False if there was none."""
    return store.delete_directory(job.task_attempt(task_attempt_id))
