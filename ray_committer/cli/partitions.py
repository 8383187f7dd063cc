"""``ray-committer partitions``: tell a catalog which partitions a destination has."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from typing import TYPE_CHECKING

import click

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.print import count_text
from ray_committer.errors import SettingsError, mark
from ray_committer.protocol.partition_sql import statements, table_name
from ray_committer.protocol.partitions import Partition, PartitionChanges, common_columns, is_partition
from ray_committer.table_jobs.partitions import TablePartitions, open_partitions, tell_catalog

if TYPE_CHECKING:
    from ray_committer.interop.catalogs.glue import GlueTable
    from ray_committer.interop.catalogs.hms import MetastoreTable


@click.command(cls=Command)
@click.argument("destination", metavar="DEST")
@click.option(
    "--format",
    "format",
    type=click.Choice(["sql", "glue", "hms"]),
    default="sql",
    show_default=True,
    help="sql prints statements for Spark, Hive or Athena; glue changes the AWS Glue Data Catalog, "
    "hms a Hive metastore.",
)
@click.option("--table", required=True, metavar="DB.TABLE", help="The table in the catalog.")
@click.option(
    "--since",
    type=click.IntRange(min=0),
    help="Only partitions that jobs have changed after this version of the table's log.",
)
@click.option(
    "--partition",
    multiple=True,
    metavar="DIR",
    help="Only this partition, such as day=1, or those below it; it is dropped if it has no files. Can "
    "be repeated.",
)
@click.option(
    "--with-locations",
    is_flag=True,
    help="Name the directory of each partition, for a table that is somewhere else.",
)
@click.option(
    "--metastore",
    metavar="URI",
    help="With --format hms: the address of the metastore, such as thrift://host:9083.",
)
@shared.at_store("retry_seconds", has_output=False)
def partitions(
    destination: str,
    format: str,  # noqa: A002 - the name of the option
    table: str,
    since: int | None,
    partition: tuple[str, ...],
    with_locations: bool,
    metastore: str | None,
    how: shared.How,
) -> None:
    """Tell a catalog which partitions at DEST have files, or print the statements for it.

    Partitions with files are added, and those without any are dropped. Without --since or --partition,
    these are all partitions at DEST; sql then prints no statement that drops one, because only the
    catalog knows what it has. The command can be repeated.
    """
    table_name(table)
    with open_partitions(destination, **how) as there:
        touched, version = _touched(there, since, partition)
        if format == "sql":
            _print_statements(there, table, there.now(touched), with_locations=with_locations)
        else:
            with closing(_open(format, table, metastore)) as catalog:
                changes = tell_catalog(there, catalog, touched, with_locations=with_locations)
            here, gone = (count_text(len(some), "partition") for some in (changes.there, changes.gone))
            click.echo(f"{table}: {here} with files, {gone} without")
    if version is not None:
        click.echo(f"-- up to version {version} of the table: the next --since")


def _touched(
    there: TablePartitions, since: int | None, partition: tuple[str, ...]
) -> tuple[Collection[str] | None, int | None]:
    """The directories in question, None for all; and the last version, if jobs are in question."""
    named = [path.strip("/") for path in partition]
    for path in named:
        if not is_partition(path):
            raise SettingsError(
                f"--partition {mark(path)}: is not the directory of a partition",
                "nothing was changed: write it relative to DEST, as day=1",
            )
    if since is None:
        return named or None, None
    if named:
        raise click.UsageError("--since and --partition cannot be used together")
    jobs = there.touched_since(since)
    return jobs.directories, jobs.version


def _open(format: str, table: str, metastore: str | None) -> GlueTable | MetastoreTable:  # noqa: A002
    """Open the table in its catalog, whose client is imported only here."""
    if format == "glue":
        from ray_committer.interop.catalogs.glue import GlueTable

        return GlueTable(table)
    from ray_committer.interop.catalogs.hms import MetastoreTable

    if metastore is None:
        raise click.UsageError("--format hms needs --metastore")
    return MetastoreTable(table, metastore)


def _print_statements(
    there: TablePartitions, table: str, changes: PartitionChanges, *, with_locations: bool
) -> None:
    common_columns(changes)

    def location(partition: Partition) -> str | None:
        return there.place(partition) if with_locations or not partition.is_found_by_values else None

    for text in statements(table, PartitionChanges(there=changes.there), location):
        click.echo(text)
    if changes.gone:
        click.echo("-- if the table is managed, DROP also deletes the directories: run it soon")
    for text in statements(table, PartitionChanges(gone=changes.gone), location):
        click.echo(text)
