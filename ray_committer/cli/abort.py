"""``ray-committer abort``: give up a job whose commit has not begun."""

from __future__ import annotations

import click

from ray_committer import api
from ray_committer.cli import options as shared
from ray_committer.options import CommitOptions


@click.command()
@click.argument("destination", metavar="DEST")
@shared.job_id_option
@shared.attempt_option
@shared.storage_option
def abort(destination: str, job_id: str | None, attempt: int | None, storage: tuple[str, ...]) -> None:
    """Delete what the tasks of a job wrote.

    Refused, with nothing deleted, once the job's commit has begun.
    """
    options = CommitOptions(job_attempt=attempt)
    deleted = api.abort_job(
        destination, job_id, options=options, storage_options=shared.storage_options(storage)
    )
    click.echo(f"{destination}: {'the job was aborted' if deleted else 'nothing was left to abort'}")
