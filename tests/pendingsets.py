"""Pendingsets as the tasks of Hadoop's S3A committer write them, in the layout of Hadoop 3.3."""

from __future__ import annotations

from typing import Any

import msgspec

from ray_committer.protocol.magic_paths import PENDINGSET, MagicJob
from ray_committer.protocol.manifest import FileEntry, TaskManifest
from ray_committer.protocol.paths import join
from ray_committer.protocol.pendingsets import SET_VERSION, UPLOAD_VERSION
from ray_committer.protocol.uri import Location, format_uri, parse_uri


def pendingset_path(job: MagicJob, task_id: str) -> str:
    """Where Hadoop 3.3 looks for the uploads of a task."""
    return join(job.directories[0], task_id + PENDINGSET)


def encode_pendingset(manifest: TaskManifest, job: MagicJob, *, milliseconds: int = 0) -> bytes:
    """The uploads of `manifest` as Hadoop's committer reads them; `milliseconds` since 1970 is when they
    were saved."""
    attempt = manifest.task_attempt_id or ""
    uploads = [_written(file, job, attempt, milliseconds) for file in manifest.files]
    document = {"version": SET_VERSION, "jobId": job.uuid, "commits": uploads}
    if attempt:
        document["extraData"] = {"task.attempt.id": attempt}
    return msgspec.json.encode(document)


def _written(file: FileEntry, job: MagicJob, attempt: str, milliseconds: int) -> dict[str, Any]:
    path = parse_uri(file.d).path
    return {
        "version": UPLOAD_VERSION,
        "uri": format_uri(Location("s3a", job.bucket, path)),
        "uploadId": file.u,
        "bucket": job.bucket,
        "destinationKey": path.removeprefix("/"),
        "created": milliseconds,
        "saved": milliseconds,
        "jobId": job.uuid,
        "taskId": attempt,
        "etags": file.p,
        "length": file.z,
    }
