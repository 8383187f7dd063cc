"""``ray-committer table resolve``: commit the claim of a job that is gone, or give it up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from rich.text import Text

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.print import count_text, print_result
from ray_committer.jobs.resolve_claim import ResolvedClaim, resolve_claim


@click.command(cls=Command)
@click.argument("destination", metavar="DEST")
@click.argument("job_id", metavar="JOB")
@shared.attempt_option
@click.option(
    "--forward",
    is_flag=True,
    help="Commit the job in the log, if each of its new files is in its place.",
)
@click.option("--back", is_flag=True, help="Give the job up, and remove its new files.")
@click.option(
    "--accept-lost",
    is_flag=True,
    help="With --forward, also end a job that is committed in the log and has lost new files.",
)
@shared.settings(("retry_seconds", "conflict_wait_seconds"))
@shared.storage_option
@shared.output_option
def resolve(
    destination: str,
    job_id: str,
    attempt: int | None,
    forward: bool,
    back: bool,
    accept_lost: bool,
    storage_options: tuple[tuple[str, str], ...],
    output: str,
    **_settings: Any,
) -> None:
    """Resolve the claim of JOB, whose directory below DEST/_temporary was deleted.

    As long as that directory is there, use commit or abort instead. --forward also removes the old files
    that the job replaces; --back removes its new files. A file is removed only with proof that it is the
    one that the log names.
    """
    if forward is back:
        raise click.UsageError("use --forward or --back")
    found = resolve_claim(
        destination,
        job_id,
        forward=forward,
        job_attempt=attempt,
        accept_lost=accept_lost,
        options=shared.commit_options(),
        storage_options=dict(storage_options),
    )
    print_result(output, found, _lines(destination, found))


def _lines(destination: str, found: ResolvedClaim) -> Iterator[Text | str]:
    what = "is committed" if found.is_committed else "is given up"
    which = "old" if found.is_committed else "new"
    yield Text(
        f"{destination}: job {found.job_id} {what} (version {found.version}), "
        f"{count_text(found.removed, f'{which} file')} removed"
    )
    for text in found.kept:
        yield Text(f"  kept: {text}")
