"""``ray-committer table scan``: compare the directory of a table with its log."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import click
from rich.text import Text

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.print import count_text, print_result
from ray_committer.errors import SHOWN, ValidationError
from ray_committer.table_jobs.scan_table import ScannedClaim, TableScan, scan_table


@click.command(cls=Command)
@click.argument("destination", metavar="DEST")
@click.option("--import", "import_foreign", is_flag=True, help="Put the foreign files into the log.")
@shared.at_store("retry_seconds", "conflict_wait_seconds")
@shared.output_option
def scan(destination: str, import_foreign: bool, output: str, how: shared.How) -> None:
    """Compare the files at DEST with the log of the table.

    Foreign files are named by no entry of the log. Orphans are new files of a job that was given up.
    Jobs can be at work: their files are neither. The exit code is 0 if the files and the log agree, and
    5 otherwise.
    """
    result = scan_table(destination, import_foreign=import_foreign, **how)
    print_result(output, {**asdict(result), "agrees": result.agrees}, _lines(result))
    sys.exit(0 if result.agrees else ValidationError.exit_code)


def _lines(result: TableScan) -> Iterator[Text | str]:
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
