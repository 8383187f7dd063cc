"""``ray-committer status``: the jobs below a destination and how far their commits got."""

from __future__ import annotations

from dataclasses import asdict

import click
import msgspec

from ray_committer import api
from ray_committer.cli import options as shared

_MEANING = {
    "running": "not decided: tasks may still run; it can be aborted",
    "recorded": "its commit has begun: finish it with `ray-committer commit`",
    "committed": "committed: `ray-committer commit` finishes its clean-up",
}


@click.command()
@click.argument("destination", metavar="DEST")
@shared.storage_option
@shared.output_option
def status(destination: str, storage: tuple[str, ...], output: str) -> None:
    """List the jobs in DEST/_temporary."""
    jobs = api.list_jobs(destination, storage_options=shared.storage_options(storage))
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode([asdict(job) for job in jobs])).decode())
        return
    if not jobs:
        click.echo(f"{destination}: no jobs")
    for job in jobs:
        click.echo(
            f"{job.job_id} attempt {job.job_attempt}: {job.manifests} task manifests; "
            f"{_MEANING[job.state]}"
        )
