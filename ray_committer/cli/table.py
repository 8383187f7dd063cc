"""``ray-committer table``: make a table with a log, show what the log says, and export it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import click
from msgspec.structs import asdict
from rich.text import Text

from ray_committer.cli import options as shared
from ray_committer.cli.command import Subgroup
from ray_committer.cli.print import count_text, partitions_text, print_result, size_text
from ray_committer.cli.table_maintain import drop, resolve, scan, undo
from ray_committer.interop.exports.result import Exported
from ray_committer.protocol.file_list import ListedFile
from ray_committer.protocol.table_entry import Isolation
from ray_committer.table_jobs.snapshot import snapshot
from ray_committer.table_jobs.table import LoggedEntry, export_delta, init_table, table_log
from ray_committer.table_jobs.table_changes import TableChange, changes


@click.group(cls=Subgroup)
def table() -> None:
    """Make DEST a table with a log, show its log, and repair it.

    The log orders all jobs of the table and names the files of each.
    """


@table.command()
@click.argument("destination", metavar="DEST")
@click.option(
    "--isolation",
    type=click.Choice([level.value for level in Isolation]),
    default=Isolation.SERIALIZABLE.value,
    show_default=True,
    help="When a job is refused because another one has changed what it has read.",
)
@shared.setting(
    "keep_replaced",
    "Jobs keep the old files that they replace, in DEST/_ray_committer/removed.  "
    "[default: no-keep-replaced]",
)
@click.option(
    "--partition-type",
    "partition_types",
    multiple=True,
    metavar="COLUMN=TYPE",
    help="The type of a partition column in Spark's words, such as day=date, for readers and Delta; "
    "default: as its values look.",
)
@shared.at_store("retry_seconds")
def init(
    destination: str, isolation: str, partition_types: tuple[str, ...], output: str, how: shared.How
) -> None:
    """Make DEST a table with a log that names the files that are there.

    Every later commit to DEST uses the log. No job can be at work there.
    """
    claim = init_table(
        destination,
        isolation=isolation,
        keep_replaced=bool(how["options"].keep_replaced),
        partition_types={
            name: kind for name, _, kind in (column.partition("=") for column in partition_types)
        },
        **how,
    )
    amount = f"{count_text(claim.files, 'file')}, {size_text(claim.bytes)}"
    print_result(output, claim, [Text(f"{destination}: is a table with a log now, with {amount}")])


@table.command()
@click.argument("destination", metavar="DEST")
@click.option("--since", type=click.IntRange(min=0), default=0, help="Only entries after this version.")
@shared.at_store("retry_seconds")
def log(destination: str, since: int, output: str, how: shared.How) -> None:
    """Show the entries of the log of the table at DEST."""
    entries = table_log(destination, since=since, **how)
    print_result(output, {"entries": entries}, _lines(entries))


@table.command("files")
@click.argument("destination", metavar="DEST")
@click.option(
    "--version",
    type=click.IntRange(min=0),
    allow_from_autoenv=False,  # an image can have the version of this package there
    help="Of this version; default: the last one.",
)
@click.option("--partition", default="", metavar="DIR", help="Only below this directory of DEST.")
@shared.at_store("retry_seconds")
def _files(destination: str, version: int | None, partition: str, output: str, how: shared.How) -> None:
    """List the files of the table at DEST, as its log names them.

    A file of an old version can be gone.
    """
    files_at = snapshot(destination, version, **how)
    files = files_at.files(partition)
    rows = list(map(asdict, files))
    value = {"version": files_at.version, "table_id": files_at.table_id, "files": rows}
    print_result(output, value, _lines_of_files(files_at.version, files))


@table.command("changes")
@click.argument("destination", metavar="DEST")
@click.option("--since", type=click.IntRange(min=0), required=True, help="Only jobs after this version.")
@shared.at_store("retry_seconds")
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


@table.command("export-delta")
@click.argument("destination", metavar="DEST")
@shared.at_store("retry_seconds")
def _export(destination: str, output: str, how: shared.How) -> None:
    """Make a Delta table at DEST of the same files, or bring it up to the last version.

    No data file is written. The first export takes all files, and each later one what jobs have changed
    since. It needs ray-committer[delta].
    """
    done = export_delta(destination, **how)
    print_result(output, done, _lines_of_export(destination, done))


for _command in (drop, undo, resolve, scan):
    table.add_command(_command)


def _lines(entries: list[LoggedEntry]) -> Iterator[Text | str]:
    for entry in entries:
        moment = datetime.fromtimestamp(entry.at_milliseconds / 1000, UTC)
        job = entry.job_id if not entry.job_attempt else f"{entry.job_id}, attempt {entry.job_attempt}"
        yield Text(
            f"{entry.version:>6}  {moment:%Y-%m-%d %H:%M:%S} UTC  {entry.kind:<6}  {job}{_detail(entry)}"
        )


def _detail(entry: LoggedEntry) -> str:
    amount = f"{count_text(entry.files, 'file')}, {size_text(entry.bytes)}"
    if entry.kind == "claim":
        run = f", run id {entry.run_id}" if entry.run_id is not None else ""
        undone = f", takes back version {entry.undoes}" if entry.undoes is not None else ""
        return f": {entry.mode} in {partitions_text(entry.partitions)}, {amount}{run}{undone}"
    removed = f", {amount} {'kept' if entry.kept else 'removed'}" if entry.files else ""
    return f": version {entry.claim}{removed}"


def _lines_of_files(version: int, files: Sequence[ListedFile]) -> Iterator[str]:
    amount = f"{count_text(len(files), 'file')}, {size_text(sum(file.size for file in files))}"
    yield f"version {version}: {amount}"
    yield from (f"{file.size:>12,}  {file.path}" for file in files)


def _lines_of_change(change: TableChange) -> Iterator[str]:
    job = change.job_id if not change.job_attempt else f"{change.job_id}, attempt {change.job_attempt}"
    yield f"version {change.version}: {change.mode} by job {job}"
    yield from (f"  - {file.path}" for file in change.removed)
    yield from (f"  + {file.path}" for file in change.added)


def _change(change: TableChange) -> dict[str, Any]:
    return {
        "version": change.version,
        "job_id": change.job_id,
        "job_attempt": change.job_attempt,
        "mode": change.mode,
        "added": list(map(asdict, change.added)),
        "removed": list(map(asdict, change.removed)),
        "table_id": change.table_id,
    }


def _lines_of_export(destination: str, done: Exported) -> Iterator[str]:
    what = f"version {done.version} of the table"
    if not done.versions:
        yield f"{destination}: {what} was exported to Delta already"
        return
    added, removed = count_text(done.added, "file"), count_text(done.removed, "file")
    versions = count_text(done.versions, "version")
    yield f"{destination}: exported to Delta up to {what}"
    yield f"  {versions}: {added} added, {removed} removed"
