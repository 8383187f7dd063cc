"""``ray-committer table export``: name the files of a table with a log in another format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command, Subgroup
from ray_committer.cli.print import count_text, print_result
from ray_committer.exports.result import Exported
from ray_committer.jobs.export_table import export_table


@click.group(cls=Subgroup)
def export() -> None:
    """Name the files of the table at DEST in another format; no data file is written.

    The first export takes all files, and each later one what jobs have changed since.
    """


@export.command(cls=Command)
@click.argument("destination", metavar="DEST")
@shared.settings(("retry_seconds",))
@shared.storage_option
@shared.output_option
def delta(
    destination: str, storage_options: tuple[tuple[str, str], ...], output: str, **_settings: Any
) -> None:
    """Make a Delta table at DEST of the same files, or bring it up to the last version.

    It needs ray-committer[delta].
    """
    _export(destination, "delta", storage_options, output)


@export.command(cls=Command)
@click.argument("destination", metavar="DEST")
@shared.settings(("retry_seconds",))
@shared.storage_option
@shared.output_option
def iceberg(
    destination: str, storage_options: tuple[tuple[str, str], ...], output: str, **_settings: Any
) -> None:
    """Make an Iceberg table in DEST/_iceberg of the same files, or bring it up to the last version.

    It needs ray-committer[iceberg].
    """
    _export(destination, "iceberg", storage_options, output)


def _export(destination: str, name: str, storage: tuple[tuple[str, str], ...], output: str) -> None:
    done = export_table(
        destination, name, options=shared.commit_options(), storage_options=dict(storage)
    )
    print_result(output, done, _lines(destination, done))


def _lines(destination: str, done: Exported) -> Iterator[str]:
    what = f"version {done.version} of the table"
    if not done.versions:
        yield f"{destination}: {what} was exported to {done.format} already"
        return
    added, removed = count_text(done.added, "file"), count_text(done.removed, "file")
    versions = count_text(done.versions, "version")
    yield f"{destination}: exported to {done.format} up to {what}"
    yield f"  {versions}: {added} added, {removed} removed"
