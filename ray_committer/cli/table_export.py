"""``ray-committer table export-delta``: name the files of a table with a log in a Delta table."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.print import count_text, print_result
from ray_committer.interop.exports.result import Exported
from ray_committer.table_jobs.table import export_delta


@click.command("export-delta", cls=Command)
@click.argument("destination", metavar="DEST")
@shared.at_store("retry_seconds")
@shared.output_option
def export(destination: str, output: str, how: shared.How) -> None:
    """Make a Delta table at DEST of the same files, or bring it up to the last version.

    No data file is written. The first export takes all files, and each later one what jobs have changed
    since. It needs ray-committer[delta].
    """
    done = export_delta(destination, **how)
    print_result(output, done, _lines(destination, done))


def _lines(destination: str, done: Exported) -> Iterator[str]:
    what = f"version {done.version} of the table"
    if not done.versions:
        yield f"{destination}: {what} was exported to Delta already"
        return
    added, removed = count_text(done.added, "file"), count_text(done.removed, "file")
    versions = count_text(done.versions, "version")
    yield f"{destination}: exported to Delta up to {what}"
    yield f"  {versions}: {added} added, {removed} removed"
