"""``ray-committer table files`` and ``changes``: what the log of a table says of its files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.print import count_text, print_result, size_text
from ray_committer.protocol.file_list import ListedFile
from ray_committer.table_jobs.snapshot import snapshot
from ray_committer.table_jobs.table_changes import TableChange, changes


def add_commands(group: click.Group) -> None:
    """Add the commands to ``ray-committer table``."""
    for command in (_files, _changes):
        group.add_command(command)


@click.command("files", cls=Command)
@click.argument("destination", metavar="DEST")
@click.option(
    "--version",
    type=click.IntRange(min=0),
    allow_from_autoenv=False,  # an image can have the version of this package there
    help="Of this version; default: the last one.",
)
@click.option("--partition", default="", metavar="DIR", help="Only below this directory of DEST.")
@shared.at_store("retry_seconds")
@shared.output_option
def _files(destination: str, version: int | None, partition: str, output: str, how: shared.How) -> None:
    """List the files of the table at DEST, as its log names them.

    A file of an old version can be gone.
    """
    files_at = snapshot(destination, version, **how)
    files = files_at.files(partition)
    value = {"version": files_at.version, "table_id": files_at.table_id, "files": list(map(_row, files))}
    print_result(output, value, _lines_of_files(files_at.version, files))


@click.command("changes", cls=Command)
@click.argument("destination", metavar="DEST")
@click.option("--since", type=click.IntRange(min=0), required=True, help="Only jobs after this version.")
@shared.at_store("retry_seconds")
@shared.output_option
def _changes(destination: str, since: int, output: str, how: shared.How) -> None:
    """List the files that each job has added to the table, or removed.

    The next call gets the version of the last job that this one shows.
    """
    table_changes = changes(destination, since, **how)
    if output == "json":
        print_result(output, {"changes": list(map(_change, table_changes))}, ())
    else:
        print_result(
            output, None, (line for change in table_changes for line in _lines_of_change(change))
        )


def _lines_of_files(version: int, files: Sequence[ListedFile]) -> Iterator[str]:
    amount = f"{count_text(len(files), 'file')}, {size_text(sum(file.z for file in files))}"
    yield f"version {version}: {amount}"
    yield from (f"{file.z:>12,}  {file.p}" for file in files)


def _lines_of_change(change: TableChange) -> Iterator[str]:
    job = change.job_id if not change.job_attempt else f"{change.job_id}, attempt {change.job_attempt}"
    yield f"version {change.version}: {change.mode} by job {job}"
    yield from (f"  - {file.p}" for file in change.removed)
    yield from (f"  + {file.p}" for file in change.added)


def _change(change: TableChange) -> dict[str, Any]:
    return {
        "version": change.version,
        "job_id": change.job_id,
        "job_attempt": change.job_attempt,
        "mode": change.mode,
        "added": list(map(_row, change.added)),
        "removed": list(map(_row, change.removed)),
        "table_id": change.table_id,
    }


def _row(file: ListedFile) -> dict[str, Any]:
    return {"path": file.p, "size": file.z, "modified_milliseconds": file.m, "etag": file.e}
