"""Keep what other jobs have moved, but not finished, out of what this job replaces.

A commit that stopped in the middle finds its files by looking at their places. Were they replaced as
old data meanwhile, it could never be finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ray_committer.errors import CommitConflictError
from ray_committer.protocol.fingerprints import fingerprint
from ray_committer.protocol.manifest import decode_manifest
from ray_committer.protocol.paths import JobAttempt, join
from ray_committer.protocol.record import CommitRecord, ManifestRef, ReplacedFile, decode_record
from ray_committer.stages.batches import batches
from ray_committer.stages.context import JobContext
from ray_committer.stages.entries import entries
from ray_committer.stages.setup_job import finish_first
from ray_committer.stages.worker import Worker


def refuse_files_of_unfinished(
    context: JobContext, unfinished: Sequence[JobAttempt], old: Sequence[ReplacedFile]
) -> None:
    """`CommitConflictError` if one of the `old` files was moved by a job whose commit has not ended."""
    marks = frozenset(fingerprint(file.path) for file in old)
    for attempt in unfinished if marks else ():
        record = _record(context, attempt)
        if record is None or record.aborted:
            continue
        work = partial(_written, job=attempt, marks=marks)
        groups = batches(context.executor, record.manifests)
        for found in context.executor.run(work, groups):
            if found:
                raise CommitConflictError(
                    f"{finish_first(context.store.spec, attempt)}; it has written {found[0]}, which "
                    f"this job would replace"
                )


def _record(context: JobContext, attempt: JobAttempt) -> CommitRecord | None:
    """The record of another job; None if that has reached its commit point, or ended, meanwhile."""
    try:
        return decode_record(context.store.read(attempt.commit_record), attempt.commit_record)
    except FileNotFoundError:
        return None


def _written(
    worker: Worker, refs: tuple[ManifestRef, ...], *, job: JobAttempt, marks: frozenset[bytes]
) -> list[str]:
    """Work: the destinations of another job's manifests that have one of the fingerprints."""
    find = partial(_written_by, worker, job=job, marks=marks)
    return [path for paths in worker.map(find, refs) for path in paths]


def _written_by(
    worker: Worker, ref: ManifestRef, *, job: JobAttempt, marks: frozenset[bytes]
) -> list[str]:
    path = join(job.manifests, ref.name)
    try:
        manifest = decode_manifest(worker.store.read(path), path)
    except FileNotFoundError:  # that job is being cleaned up, so it has committed
        return []
    destinations = (entry.dest for entry in entries(manifest, worker.store.spec))
    return [dest for dest in destinations if fingerprint(dest) in marks]
