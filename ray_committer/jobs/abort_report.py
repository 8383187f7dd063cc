"""What an abort has deleted, or would delete, and what an undo of a commit has taken back."""

from __future__ import annotations

from dataclasses import dataclass

from ray_committer.places.choose import output_of
from ray_committer.places.deleted import NOTHING
from ray_committer.stages.context import JobContext
from ray_committer.stores.registry import shown_url


@dataclass(frozen=True, slots=True)
class AbortReport:
    """What an abort of a job attempt deletes; no other file at the destination is changed.

    directory: the directory of the job attempt, with manifests and all; None if nothing was there.
    files, bytes: of its tasks; None if they were not counted, because the store deletes a directory
        without showing what is in it, or because the tasks' files are uploads.
    uploads: the uploads of its tasks that are aborted; None on a store with renames.
    moved: files that a recorded commit has moved and that are taken back; None if they were not counted.
    claim, partitions: the claim in the log of a table that ends; None if the job has none.
    """

    destination: str
    job_id: str
    job_attempt: int
    directory: str | None
    files: int | None
    bytes: int | None
    uploads: int | None = None
    moved: int | None = 0
    claim: int | None = None
    partitions: tuple[str, ...] = ()


def report_abort(context: JobContext, *, was_recorded: bool) -> AbortReport:
    """Report what the abort or, if the job `was_recorded`, the undo in this context has deleted."""
    job, store, journal = context.job, context.store, context.journal
    deleted, ended = journal.deleted or NOTHING, journal.ended_claim
    return AbortReport(
        destination=context.url,
        job_id=job.job_id,
        job_attempt=job.number,
        directory=shown_url(store.spec, job.directory) if journal.deleted else None,
        files=deleted.files,
        bytes=deleted.bytes,
        uploads=output_of(store).count_uploads(lambda: deleted.uploads),
        moved=deleted.moved if was_recorded else 0,
        claim=ended.version if ended else None,
        partitions=tuple(ended.claim.partitions) if ended else (),
    )
