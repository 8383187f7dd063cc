"""``ray-committer table``: the jobs that are made from the log, and repairs of what people broke."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import click
from rich.text import Text

from ray_committer.cli import options as shared
from ray_committer.cli.cancel import cancel_on_signals
from ray_committer.cli.command import Command
from ray_committer.cli.print import count_text, print_result, size_text
from ray_committer.cli.progress import progress
from ray_committer.errors import SHOWN, ValidationError
from ray_committer.events import CancelToken
from ray_committer.executors.choose import ExecutorName
from ray_committer.report.commit_report import CommitReport
from ray_committer.table_jobs.resolve_claim import ResolvedClaim, resolve_claim
from ray_committer.table_jobs.scan_table import ScannedClaim, TableScan, scan_table

_SETTINGS = (*shared.REQUESTS, "conflict_wait_seconds", "durable", "keep_replaced")


@click.command("drop-partition", cls=Command)
@click.argument("destination", metavar="DEST")
@click.argument("partitions", metavar="PARTITION", nargs=-1, required=True)
@shared.executor_option
@shared.at_store(*_SETTINGS)
def drop(
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
def undo(destination: str, version: int, executor: ExecutorName, output: str, how: shared.How) -> None:
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


@click.command(cls=Command)
@click.argument("destination", metavar="DEST")
@click.argument("job_id", metavar="JOB")
@click.option(
    "--accept-lost",
    is_flag=True,
    help="Also end a job that is committed in the log and has lost new files.",
)
@shared.at_store("job_attempt", "retry_seconds", "conflict_wait_seconds")
def resolve(destination: str, job_id: str, accept_lost: bool, output: str, how: shared.How) -> None:
    """Give up JOB, whose directory below DEST/_temporary was deleted, and remove its new files.

    If the log says that JOB is committed, remove the old files that it replaces instead. A file is
    removed only with proof that it is the one that the log names. As long as the directory of JOB is
    there, use commit or abort.
    """
    resolved = resolve_claim(
        destination, job_id, job_attempt=how["options"].job_attempt, accept_lost=accept_lost, **how
    )
    print_result(output, resolved, _lines_of_claim(destination, resolved))


@click.command(cls=Command)
@click.argument("destination", metavar="DEST")
@click.option("--import", "import_foreign", is_flag=True, help="Put the foreign files into the log.")
@shared.at_store("retry_seconds", "conflict_wait_seconds")
def scan(destination: str, import_foreign: bool, output: str, how: shared.How) -> None:
    """Compare the files at DEST with the log of the table.

    Foreign files are named by no entry of the log. Orphans are new files of a job that was given up.
    Jobs can be at work: their files are neither. The exit code is 0 if the files and the log agree, and
    5 otherwise.
    """
    result = scan_table(destination, import_foreign=import_foreign, **how)
    print_result(output, {**asdict(result), "agrees": result.agrees}, _lines_of_scan(result))
    sys.exit(0 if result.agrees else ValidationError.exit_code)


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


def _lines_of_claim(destination: str, resolved: ResolvedClaim) -> Iterator[Text | str]:
    what = "is committed" if resolved.is_committed else "is given up"
    yield Text(
        f"{destination}: job {resolved.job_id} {what} (version {resolved.version}), "
        f"{count_text(resolved.removed, 'file')} removed"
    )
    for text in resolved.kept:
        yield Text(f"  kept: {text}")


def _lines_of_scan(result: TableScan) -> Iterator[Text | str]:
    yield Text(
        f"{result.destination}: version {result.version}, {count_text(result.compared, 'file')} in the "
        f"log"
    )
    yield from _named("missing, although the log names them", result.missing)
    yield from _named("changed", result.changed)
    yield from _named("foreign, which no entry of the log names", result.foreign)
    yield from _named("orphans of jobs that were given up", result.orphans)
    yield from (Text(f"  {command}") for command in result.orphan_commands)
    if result.imported:
        yield f"{count_text(result.imported, 'foreign file')} put into the log"
    for claim in result.claims:
        yield from _claim(claim)
    yield "the files and the log agree" if result.agrees else "the files and the log do not agree"


def _named(what: str, texts: Sequence[str]) -> Iterator[Text | str]:
    if texts:
        yield f"{count_text(len(texts), 'file')} {what}:"
        yield from (Text(f"  {text}") for text in texts[:SHOWN])
    if len(texts) > SHOWN:
        yield f"  and {len(texts) - SHOWN:,} more"


def _claim(claim: ScannedClaim) -> Iterator[Text]:
    job = claim.job_id if not claim.job_attempt else f"{claim.job_id}, attempt {claim.job_attempt}"
    state = claim.state or "its directory is gone"
    yield Text(f"claim {claim.version} of job {job} is in flight: {state}")
    for command in claim.commands:
        yield Text(f"  {command}")
