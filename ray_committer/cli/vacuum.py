"""``ray-committer vacuum``: remove what dead jobs left, and nothing that could still be committed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from rich.text import Text

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.print import age_text, count_text, print_result, size_text
from ray_committer.vacuum import LEAST_SECONDS, VacuumedJob, vacuum_jobs


@click.command(cls=Command)
@click.argument("destination", metavar="DEST")
@click.option(
    "--older-than",
    type=shared.Seconds(least=LEAST_SECONDS),
    default="7d",
    show_default=True,
    help="How long a dead job has not changed; longer than any task computes without writing.",
)
@shared.dry_run_option
@shared.settings(shared.REQUESTS)
@shared.storage_option
@shared.output_option
def vacuum(
    destination: str,
    older_than: float,
    dry_run: bool,
    storage_options: tuple[tuple[str, str], ...],
    output: str,
    **_settings: Any,
) -> None:
    """Remove what dead jobs left in DEST/_temporary.

    Dead is a job without a commit record, nothing of which has changed for the time of --older-than. A
    job whose commit has begun is kept, and the command named that finishes it. What a clean-up that was
    stopped has left of an ended job (.gone-*) is removed however old it is.
    """
    jobs = vacuum_jobs(
        destination,
        older_than_seconds=older_than,
        dry_run=dry_run,
        options=shared.commit_options(),
        storage_options=dict(storage_options),
    )
    print_result(output, jobs, _lines(destination, jobs, dry_run=dry_run))


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
        if job.command is not None:
            yield f"  finish it: {job.command}"
