"""``ray-committer table drop-partition``, ``undo``: jobs that are made from the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.text import Text

from ray_committer.cli import options as shared
from ray_committer.cli.cancel import cancel_on_signals
from ray_committer.cli.command import Command
from ray_committer.cli.print import count_text, print_result, size_text
from ray_committer.cli.progress import progress
from ray_committer.events import CancelToken
from ray_committer.executors.choose import ExecutorName
from ray_committer.report.commit_report import CommitReport

_SETTINGS = (*shared.REQUESTS, "conflict_wait_seconds", "durable", "keep_replaced")


def add_commands(group: click.Group) -> None:
    """Add the commands to ``ray-committer table``."""
    for command in (_drop_partition, _undo):
        group.add_command(command)


@click.command("drop-partition", cls=Command)
@click.argument("destination", metavar="DEST")
@click.argument("partitions", metavar="PARTITION", nargs=-1, required=True)
@shared.executor_option
@shared.at_store(*_SETTINGS)
@shared.output_option
def _drop_partition(
    destination: str, partitions: tuple[str, ...], executor: ExecutorName, output: str, how: shared.How
) -> None:
    """Remove all files of each PARTITION, such as day=1, of the table at DEST.

    As an overwrite does, it also removes files that the log does not name.
    """
    from ray_committer.table_jobs.table_maintenance import drop_partition

    with _cancellable() as (on_event, cancel):
        report = drop_partition(
            destination, partitions, executor=executor, **how, on_event=on_event, cancel=cancel
        )
    removed = count_text(report.replaced, "file")
    _print(output, destination, report, f"{removed} removed from {' | '.join(partitions)}")


@click.command("undo", cls=Command)
@click.argument("destination", metavar="DEST")
@click.argument("version", metavar="VERSION", type=click.IntRange(min=1))
@shared.executor_option
@shared.at_store(*_SETTINGS)
@shared.output_option
def _undo(destination: str, version: int, executor: ExecutorName, output: str, how: shared.How) -> None:
    """Take back what the job that was committed at VERSION has changed in the table at DEST.

    The files that it has removed come back, if it has kept them. Those that it has added are removed. If
    a later job has changed the same partitions, nothing is changed.
    """
    from ray_committer.table_jobs.table_maintenance import undo_version

    with _cancellable() as (on_event, cancel):
        report = undo_version(
            destination, version, executor=executor, **how, on_event=on_event, cancel=cancel
        )
    changed = f"{count_text(report.files, 'file')} restored, {report.replaced:,} removed"
    _print(output, destination, report, f"version {version} is undone: {changed}")


@contextmanager
def _cancellable() -> Iterator[tuple[Any, CancelToken]]:
    token = CancelToken()
    with progress() as shown, cancel_on_signals(token.cancel, shown.interrupt):
        yield shown.event, token


def _print(output: str, destination: str, report: CommitReport, done: str) -> None:
    size, version = size_text(report.bytes), report.table_version
    lines = [Text(f"{destination}: {done}, {size}, version {version} of the table")]
    lines += [Text(f"  {text}") for text in report.notices]
    print_result(output, report, lines)
