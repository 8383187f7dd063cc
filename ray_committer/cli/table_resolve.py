"""``ray-committer table resolve``: end the claim of a job that is gone."""

from __future__ import annotations

from collections.abc import Iterator

import click
from rich.text import Text

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.print import count_text, print_result
from ray_committer.table_jobs.resolve_claim import ResolvedClaim, resolve_claim


@click.command(cls=Command)
@click.argument("destination", metavar="DEST")
@click.argument("job_id", metavar="JOB")
@click.option(
    "--accept-lost",
    is_flag=True,
    help="Also end a job that is committed in the log and has lost new files.",
)
@shared.at_store("job_attempt", "retry_seconds", "conflict_wait_seconds")
@shared.output_option
def resolve(destination: str, job_id: str, accept_lost: bool, output: str, how: shared.How) -> None:
    """Give up JOB, whose directory below DEST/_temporary was deleted, and remove its new files.

    If the log says that JOB is committed, remove the old files that it replaces instead. A file is
    removed only with proof that it is the one that the log names. As long as the directory of JOB is
    there, use commit or abort.
    """
    resolved = resolve_claim(
        destination, job_id, job_attempt=how["options"].job_attempt, accept_lost=accept_lost, **how
    )
    print_result(output, resolved, _lines(destination, resolved))


def _lines(destination: str, resolved: ResolvedClaim) -> Iterator[Text | str]:
    what = "is committed" if resolved.is_committed else "is given up"
    yield Text(
        f"{destination}: job {resolved.job_id} {what} (version {resolved.version}), "
        f"{count_text(resolved.removed, 'file')} removed"
    )
    for text in resolved.kept:
        yield Text(f"  kept: {text}")
