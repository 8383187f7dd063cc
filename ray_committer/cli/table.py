"""``ray-committer table``: make a table with a log, show the log, and repair what people broke."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import click
from rich.text import Text

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command, Subgroup
from ray_committer.cli.print import count_text, partitions_text, print_result, size_text
from ray_committer.cli.table_export import export
from ray_committer.cli.table_maintain import add_commands as add_maintenance
from ray_committer.cli.table_read import add_commands
from ray_committer.cli.table_resolve import resolve
from ray_committer.cli.table_scan import scan
from ray_committer.protocol.table_entry import Isolation
from ray_committer.table_jobs.table import LoggedEntry, init_table, table_log


@click.group(cls=Subgroup)
def table() -> None:
    """Make DEST a table with a log, show its log, and repair it.

    The log orders all jobs of the table and names the files of each.
    """


@table.command(cls=Command)
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
@shared.output_option
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


@table.command(cls=Command)
@click.argument("destination", metavar="DEST")
@click.option("--since", type=click.IntRange(min=0), default=0, help="Only entries after this version.")
@shared.at_store("retry_seconds")
@shared.output_option
def log(destination: str, since: int, output: str, how: shared.How) -> None:
    """Show the entries of the log of the table at DEST."""
    entries = table_log(destination, since=since, **how)
    print_result(output, {"entries": entries}, _lines(entries))


table.add_command(export)
table.add_command(resolve)
table.add_command(scan)
add_commands(table)
add_maintenance(table)


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
