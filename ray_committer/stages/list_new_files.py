"""List the new files of a job for the log of its table.

Each worker lists the files of the manifests that it loads. It returns a few of them, and saves more as
file lists, so the driver holds a few files per manifest, or one name per 10,000 files.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ray_committer.errors import PreflightError
from ray_committer.protocol.file_list import FileSet, ListedFile
from ray_committer.protocol.paths import is_inside
from ray_committer.protocol.record import ManifestRef
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stages.context import JobContext
from ray_committer.tables.file_sets import save_file_set
from ray_committer.work.entries import Entry
from ray_committer.work.sidecars import recorded_entries
from ray_committer.work.worker import Worker

OF_OLD_FILES = 0
"""The batch of the old files that a job removes; the batches of new files have higher numbers."""


def save_new_files(worker: Worker, number: int, refs: Sequence[ManifestRef]) -> FileSet:
    """List the files of one batch of loaded manifests; save the lists if there are many.

    `PreflightError` if a file is outside the destination, because the log cannot name it.
    """
    job = worker.job
    entries = (entry for ref in refs for entry in recorded_entries(worker, ref))
    files = list(map(partial(_listed, job.destination), entries))
    return save_file_set(
        worker.store,
        TablePlaces(job.destination),
        files,
        job_id=job.job_id,
        job_attempt=job.number,
        batch=OF_OLD_FILES + 1 + number,
    )


def join_new_files(context: JobContext, parts: Sequence[FileSet]) -> FileSet:
    """The files of all batches; the few files that each batch returned become lists if they are many."""
    job = context.job
    rest = save_file_set(
        context.store,
        TablePlaces(job.destination),
        [file for part in parts for file in part.inline],
        job_id=job.job_id,
        job_attempt=job.number,
        batch=OF_OLD_FILES + 1 + len(parts),
    )
    return FileSet(
        sum(part.files for part in parts),
        sum(part.bytes for part in parts),
        rest.inline,
        [*(one for part in parts for one in part.lists), *rest.lists],
    )


def relative(destination: str, path: str) -> str:
    """The path of a file or directory as the log of a table names it; empty for the destination.

    `PreflightError` if it is outside the destination.
    """
    if path == destination:
        return ""
    if not is_inside(path, destination):
        raise PreflightError(
            f"{path}: is outside {destination}, which is a table with a log, so the log cannot name it",
            "nothing was changed: abort the job, and write only below the table",
        )
    return path[len(destination.rstrip("/")) + 1 :]


def _listed(destination: str, entry: Entry) -> ListedFile:
    expected = entry.expected
    path = relative(destination, entry.dest)
    return ListedFile(path, expected.size, expected.modified_milliseconds, expected.etag)
