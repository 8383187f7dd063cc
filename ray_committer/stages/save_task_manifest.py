"""Save a task's manifest: under a temporary name, then renamed into place.

The last attempt of a task wins, until the job's commit record exists. The number of tries is the one
that was asked for; Hadoop 3.5 reads that setting and ignores it. Source: Hadoop SaveTaskManifestStage.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ray_committer.errors import CommitRecordExistsError, TaskCommitError
from ray_committer.protocol.manifest import TaskManifest, digest, encode_manifest
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.record import ManifestRef
from ray_committer.stages.find_job import read_attempt_state
from ray_committer.stores.base import StoreOperations

RETRY_SECONDS = 0.5


def save_task_manifest(
    store: StoreOperations,
    job: JobAttempt,
    manifest: TaskManifest,
    *,
    task_id: str,
    task_attempt_id: str,
    attempts: int,
    sleep: Callable[[float], None] = time.sleep,
) -> ManifestRef:
    """Save `manifest` as the one of `task_id`; returns its name, size and digest.

    Tries up to `attempts` times on an ``OSError``. `TaskCommitError` when the job is over or was
    never set up, `CommitRecordExistsError` when its commit has begun.
    """
    data = encode_manifest(manifest)
    path, temporary = job.manifest(task_id), job.manifest_temporary(task_attempt_id)
    for attempt in range(1, attempts + 1):
        _check_open(store, job, task_attempt_id)
        try:
            store.write(temporary, data)
            store.replace(temporary, path)
            break
        except OSError as e:
            if attempt == attempts:
                raise TaskCommitError(
                    f"{path}: could not be saved in {attempts} tries ({e}); run the task again"
                ) from e
            sleep(RETRY_SECONDS * attempt)
    return ManifestRef(
        name=path.rpartition("/")[2],
        size=len(data),
        digest=digest(data),
        files=len(manifest.files),
        bytes=sum(file.z for file in manifest.files),
        task_attempt_id=task_attempt_id,
        task_attempt_directory=job.task_attempt(task_attempt_id),
    )


def _check_open(store: StoreOperations, job: JobAttempt, task_attempt_id: str) -> None:
    state = read_attempt_state(store, job)
    if state.is_decided:
        raise CommitRecordExistsError(
            f"{job.directory}: the job is being committed without {task_attempt_id}, which is too late"
        )
    if not state.has_manifests:
        raise TaskCommitError(
            f"{job.directory}: was never set up or is over; {task_attempt_id} cannot be committed"
        )
