"""``ray-committer vacuum``: remove the leftovers of dead jobs, and nothing that can be committed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import click
from rich.text import Text

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.print import age_text, count_text, print_result, size_text
from ray_committer.jobs.vacuum import LEAST_SECONDS, VacuumedJob, vacuum_jobs
from ray_committer.jobs.vacuum_uploads import VacuumedUpload, vacuum_uploads
from ray_committer.options.settings import Group
from ray_committer.options.texts import TIME

SHOWN_UPLOADS = 20

older_than_option = partial(
    shared.option,
    "--older-than",
    group=Group.SAFETY,
    type=shared.Value(TIME, LEAST_SECONDS),
    default="7d",
    show_default=True,
)


@click.command(cls=Command)
@click.argument("destination", metavar="DEST")
@older_than_option(
    help="How long a dead job has not changed. Use more than any task computes without writing."
)
@shared.dry_run_option
@shared.at_store(*shared.REQUESTS)
def vacuum(destination: str, older_than: float, dry_run: bool, output: str, how: shared.How) -> None:
    """Remove the leftovers of dead jobs from DEST/_temporary.

    A job is dead if it has no commit record and nothing in it has changed for the time in --older-than.
    A job whose commit has begun is kept, and the output shows the command that finishes it. If a
    clean-up was stopped, the rest of its ended job (.gone-*) is removed at any age.

    On S3, uploads that belong to no job are aborted, if no part was added to them for that time.
    """
    how = {**how, "older_than_seconds": older_than, "dry_run": dry_run}
    jobs, uploads = vacuum_jobs(destination, **how), vacuum_uploads(destination, **how)
    lines = (*_lines(destination, jobs, dry_run=dry_run), *_upload_lines(uploads, dry_run=dry_run))
    print_result(output, {"jobs": jobs, "uploads": uploads}, lines)


def _lines(destination: str, jobs: list[VacuumedJob], *, dry_run: bool) -> Iterator[Text | str]:
    still = [job for job in jobs if not job.had_ended]
    removed = [job for job in still if job.removed]
    what = "would be removed" if dry_run else "removed"
    yield f"{destination}: {len(removed)} of {count_text(len(still), 'job')} {what}"
    for job in jobs:
        named = job.job_id if not job.job_attempt else f"{job.job_id}, attempt {job.job_attempt}"
        rest = ", the rest of a job that had ended" if job.had_ended else ""
        yield Text(f"{named}: {what}{rest}" if job.removed else f"{named}: kept, {job.reason}")
        if job.files is not None:
            amount = f"{count_text(job.files, 'file')}, {size_text(job.bytes)}"
            yield f"  {amount}; {age_text(job.age_seconds)}"
        if job.claim is not None and job.removed:
            yield f"  its claim in the log of the table (version {job.claim:,}) ends with it"
        if job.command is not None:
            yield f"  finish it: {job.command}"


def _upload_lines(uploads: list[VacuumedUpload], *, dry_run: bool) -> Iterator[Text | str]:
    """The uploads that belong to no job, of which the first are named."""
    if not uploads:
        return
    removed = [upload for upload in uploads if upload.removed]
    what = "would be aborted" if dry_run else "aborted"
    size = size_text(sum(upload.bytes for upload in removed))
    yield f"{len(removed):,} of {count_text(len(uploads), 'upload')} of no job {what}, {size}"
    for upload in uploads[:SHOWN_UPLOADS]:
        yield Text(f"{upload.path}: {what if upload.removed else f'kept, {upload.reason}'}")
        by = f", begun by {upload.began_by}" if upload.began_by else ""
        yield Text(
            f"  {size_text(upload.bytes)}; {age_text(upload.age_seconds)}{by}; upload {upload.upload_id}"
        )
    if len(uploads) > SHOWN_UPLOADS:
        yield f"and {len(uploads) - SHOWN_UPLOADS:,} more; --output json shows all"
