"""Commit a task attempt: scan its files and save a list of them as the manifest. Moves no data.

Source: Hadoop CommitTaskStage.
"""

from __future__ import annotations

from ray_committer.protocol.manifest import STAMP, TaskManifest
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.record import ManifestRef
from ray_committer.protocol.state import UNSTAMPED
from ray_committer.protocol.uri import Location, format_uri
from ray_committer.stages.save_task_manifest import save_task_manifest
from ray_committer.stages.scan_task_attempt_directory import scan_task_attempt_directory
from ray_committer.stores.base import StoreOperations


def commit_task(
    store: StoreOperations,
    job: JobAttempt,
    *,
    task_id: str,
    task_attempt_id: str,
    stamp: str,
    attempts: int,
) -> ManifestRef:
    """Commit the task attempt to the job with this `stamp`; a later attempt of the task replaces it."""
    directory = job.task_attempt(task_attempt_id)
    files, directories = scan_task_attempt_directory(store, directory, job.destination)
    manifest = TaskManifest(
        job_id=job.job_id,
        job_attempt_number=job.number,
        task_id=task_id,
        task_attempt_id=task_attempt_id,
        task_attempt_dir=format_uri(Location(store.spec.scheme, store.spec.authority, directory)),
        files=files,
        directories=directories,
        extra_data={} if stamp == UNSTAMPED else {STAMP: stamp},
    )
    return save_task_manifest(
        store,
        job,
        manifest,
        task_id=task_id,
        task_attempt_id=task_attempt_id,
        stamp=stamp,
        attempts=attempts,
    )
