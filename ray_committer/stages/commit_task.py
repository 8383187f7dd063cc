"""Commit a task attempt: scan its files and save a list of them as the manifest. Moves no data.

Source: Hadoop CommitTaskStage.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from ray_committer.options import CommittedTask
from ray_committer.places.choose import output_of
from ray_committer.places.staged_files import StagedFiles
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.iostatistics import IOStatistics, aggregate, duration, sample
from ray_committer.protocol.manifest import STAMP, TaskManifest, encode_manifest
from ray_committer.protocol.passed_over import PassedOver, extra_data_of
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.state import UNSTAMPED
from ray_committer.stages.save_task_manifest import ATTEMPTS, save_task_manifest
from ray_committer.stages.scan_task_attempt_directory import (
    Scan,
    look_at_staged_files,
    scan_task_attempt_directory,
)
from ray_committer.stores.base import StoreOperations
from ray_committer.work.entries import uri_of
from ray_committer.work.upload_file import TaskUploads


def commit_task(
    store: StoreOperations,
    job: JobAttempt,
    *,
    task_id: str,
    task_attempt_id: str,
    stamp: str,
    attempts: int = ATTEMPTS,
    named: Collection[str] = (),
    uploads: TaskUploads | None = None,
    staged: StagedFiles | None = None,
    statistics: IOStatistics | None = None,
) -> CommittedTask:
    """Commit the task attempt to the job with this `stamp`; a later attempt of the task replaces it. The
    files are those that are `staged` and those that a scan of the attempt's directory finds, with those
    `named`; on a store that completes uploads, the `uploads` or, without them, what the attempt has
    noted. The manifest gets the `statistics` of the attempt so far, with the amounts that it wrote."""
    began = time.monotonic()
    directory = job.task_attempt(task_attempt_id)
    output = output_of(store)
    closed = output.closed(directory, uploads)
    scan = Scan(closed or [])
    if closed is None and staged is not None:
        scan = look_at_staged_files(store, staged.places, job.destination)
    if closed is None and (staged is None or staged.has_own_directory):
        scan = scan.plus(scan_task_attempt_directory(store, directory, job.destination, named))
    manifest = TaskManifest(
        job_id=job.job_id,
        job_attempt_number=job.number,
        task_id=task_id,
        task_attempt_id=task_attempt_id,
        task_attempt_dir=uri_of(store.spec, directory),
        files=scan.files,
        directories=scan.directories,
        extra_data={
            **({} if stamp == UNSTAMPED else {STAMP: stamp}),
            **extra_data_of(PassedOver.of(scan.passed_over)),
        },
        iostatistics=(None if statistics is None else _with_amounts(statistics, scan, began)),
    )
    # Before the manifest: once another attempt has replaced that, only the copy names the uploads.
    output.save_copy(directory, stamp, encode_manifest(manifest))
    saved = save_task_manifest(
        store,
        job,
        manifest,
        task_id=task_id,
        task_attempt_id=task_attempt_id,
        stamp=stamp,
        attempts=attempts,
    )
    # After the manifest names them: notes without a manifest tell the clean-up which uploads to abort.
    if uploads is not None:
        uploads.remove_notes()
    return saved


def _with_amounts(statistics: IOStatistics, scan: Scan, began: float) -> IOStatistics:
    """Add the files, and the time to find them. A manifest cannot have the time of its own save."""
    milliseconds = round((time.monotonic() - began) * 1000)
    for amount in (
        duration(names.TASK_COMMIT, milliseconds),
        sample(names.TASK_FILES, len(scan.files)),
        sample(names.TASK_BYTES, sum(file.z for file in scan.files)),
        sample(names.TASK_DIRECTORIES, len(scan.directories)),
    ):
        statistics = aggregate(statistics, amount)
    return statistics
