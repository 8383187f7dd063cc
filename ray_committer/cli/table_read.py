"""``ray-committer table files``, ``changes``, ``history``, ``who-wrote``: what the log says of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import click
from rich.text import Text

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.print import count_text, print_result, size_text
from ray_committer.jobs.snapshot import snapshot
from ray_committer.jobs.table_changes import (
    CommittedJob,
    TableChange,
    WrittenFile,
    changes,
    history,
    who_wrote,
)
from ray_committer.protocol.file_list import ListedFile

_SHOWN_PARTITIONS = 5

F = TypeVar("F", bound=Callable[..., Any])


def add_commands(group: click.Group) -> None:
    """Add the commands to ``ray-committer table``."""
    for command in (_files, _changes, _history, _who_wrote):
        group.add_command(command)


def _reads(command: F) -> F:
    """The options of each of these commands."""
    for option in (
        shared.output_option,
        shared.storage_option,
        shared.settings(("retry_seconds",)),
    ):
        command = option(command)
    return command


@click.command("files", cls=Command)
@click.argument("destination", metavar="DEST")
@click.option(
    "--version",
    type=click.IntRange(min=0),
    allow_from_autoenv=False,  # an image can have the version of this package there
    help="Of this version; default: the last one.",
)
@click.option("--partition", default="", metavar="DIR", help="Only below this directory of DEST.")
@_reads
def _files(
    destination: str,
    version: int | None,
    partition: str,
    storage_options: tuple[tuple[str, str], ...],
    output: str,
    **_settings: Any,
) -> None:
    """List the files of the table at DEST, as its log names them.

    A file of an old version can be gone.
    """
    found = snapshot(
        destination,
        version,
        options=shared.commit_options(),
        storage_options=dict(storage_options),
    )
    files = found.files(partition)
    value = {"version": found.version, "table_id": found.table_id, "files": list(map(_row, files))}
    print_result(output, value, _lines_of_files(found.version, files))


@click.command("changes", cls=Command)
@click.argument("destination", metavar="DEST")
@click.option("--since", type=click.IntRange(min=0), required=True, help="Only jobs after this version.")
@_reads
def _changes(
    destination: str,
    since: int,
    storage_options: tuple[tuple[str, str], ...],
    output: str,
    **_settings: Any,
) -> None:
    """List the files that each job has added to the table, or removed.

    The next call gets the version of the last job that this one shows.
    """
    found = changes(
        destination,
        since,
        options=shared.commit_options(),
        storage_options=dict(storage_options),
    )
    if output == "json":
        print_result(output, {"changes": list(map(_change, found))}, ())
    else:
        print_result(output, None, (line for one in found for line in _lines_of_change(one)))


@click.command("history", cls=Command)
@click.argument("destination", metavar="DEST")
@_reads
def _history(
    destination: str,
    storage_options: tuple[tuple[str, str], ...],
    output: str,
    **_settings: Any,
) -> None:
    """List the jobs that were committed to the table at DEST."""
    jobs = history(destination, options=shared.commit_options(), storage_options=dict(storage_options))
    print_result(output, {"jobs": jobs}, map(_line_of_job, jobs))


@click.command("who-wrote", cls=Command)
@click.argument("path", metavar="PATH")
@_reads
def _who_wrote(
    path: str,
    storage_options: tuple[tuple[str, str], ...],
    output: str,
    **_settings: Any,
) -> None:
    """Show which job has added the file at PATH to its table.

    The file need not be there any more.
    """
    found = who_wrote(path, options=shared.commit_options(), storage_options=dict(storage_options))
    print_result(output, found, _lines_of_writer(found))


def _lines_of_files(version: int, files: Sequence[ListedFile]) -> Iterator[str]:
    amount = f"{count_text(len(files), 'file')}, {size_text(sum(file.z for file in files))}"
    yield f"version {version}: {amount}"
    yield from (f"{file.z:>12,}  {file.p}" for file in files)


def _lines_of_change(one: TableChange) -> Iterator[str]:
    yield f"version {one.version}: {one.mode} by job {_job(one)}"
    yield from (f"  - {file.p}" for file in one.removed)
    yield from (f"  + {file.p}" for file in one.added)


def _line_of_job(one: CommittedJob) -> Text:
    moment = datetime.fromtimestamp(one.at_milliseconds / 1000, UTC)
    shown = " | ".join(path or "the whole table" for path in one.partitions[:_SHOWN_PARTITIONS])
    left = len(one.partitions) - _SHOWN_PARTITIONS
    where = f"{shown}{f' and {left:,} more' if left > 0 else ''}"
    amount = f"{count_text(one.files, 'file')}, {size_text(one.bytes)}"
    removed = f", {count_text(one.removed_files, 'file')} removed" if one.removed_files else ""
    return Text(
        f"{one.version:>6}  {moment:%Y-%m-%d %H:%M:%S} UTC  {_job(one)}: {one.mode} in {where}, "
        f"{amount}{removed}"
    )


def _lines_of_writer(found: WrittenFile) -> Iterator[str]:
    yield (
        f"{found.path}: written by job {_job(found)} ({found.mode}), version {found.version} of "
        f"the table at {found.table}, write id {found.claim}"
    )
    if found.removed is not None:
        yield f"It was removed at version {found.removed}."


def _job(one: TableChange | CommittedJob | WrittenFile) -> str:
    return one.job_id if not one.job_attempt else f"{one.job_id}, attempt {one.job_attempt}"


def _change(one: TableChange) -> dict[str, Any]:
    return {
        "version": one.version,
        "job_id": one.job_id,
        "job_attempt": one.job_attempt,
        "mode": one.mode,
        "is_rewrite": one.is_rewrite,
        "added": list(map(_row, one.added)),
        "removed": list(map(_row, one.removed)),
        "table_id": one.table_id,
    }


def _row(file: ListedFile) -> dict[str, Any]:
    return {
        "path": file.p,
        "size": file.z,
        "modified_milliseconds": file.m,
        "etag": file.e,
    }
