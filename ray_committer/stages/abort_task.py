"""Abort a task attempt: delete its files. A manifest that it saved stays, as in Hadoop.

Source: Hadoop AbortTaskStage.
"""

from __future__ import annotations

from collections.abc import Collection

from ray_committer.protocol.paths import JobAttempt
from ray_committer.stores.at_once import at_once
from ray_committer.stores.base import StoreOperations


def abort_task(
    store: StoreOperations, job: JobAttempt, task_attempt_id: str, staged: Collection[str] = ()
) -> bool:
    """Delete the task attempt's directory and, by their names, its `staged` files; idempotent. False if
    it had no directory. Not for an attempt that has tried to save its manifest: that may count."""
    at_once(store, store.delete_file, sorted(staged))
    return store.delete_directory(job.task_attempt(task_attempt_id))
