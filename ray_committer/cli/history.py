"""``ray-committer history``: the past commits of a destination."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import click
from rich.text import Text

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.print import count_text, print_result, size_text
from ray_committer.jobs.past_commits import PastCommit, past_commits
from ray_committer.protocol.statistic_names import ABORT
from ray_committer.report.amounts import seconds_text
from ray_committer.report.progress import stage_name


@click.command(cls=Command)
@click.argument("destination", metavar="DEST")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="How many commits to show.",
)
@shared.at_store("summary_directory", "retry_seconds")
@shared.output_option
def history(
    destination: str,
    limit: int,
    output: str,
    how: shared.How,
) -> None:
    """List the past commits of DEST, the newest first.

    They come from the summary reports in --summary-directory, which also has those of failed commits,
    from the log of a table, and from DEST/_SUCCESS, which has only the last one. A report names its
    destination, so a directory can have those of many. A file that cannot be read is shown as such.
    """
    found = past_commits(destination, limit=limit, **how)
    has_all = how["options"].summary_directory is not None
    print_result(output, {"commits": found}, _lines(destination, found, has_all=has_all))


def _lines(destination: str, found: Sequence[PastCommit], *, has_all: bool) -> Iterator[Text | str]:
    if not found:
        yield f"{destination}: no commit is on record"
    yield from map(_line, found)
    if not has_all:
        yield "commits with a --summary-directory leave a report each, also those that fail"


def _line(one: PastCommit) -> Text:
    if one.problem is not None:
        return Text(f"{_when(one)}  {one.source}: not read: {one.problem}", style="yellow")
    job = one.job_id or "a job that is not named"
    named = f"{job}, attempt {one.job_attempt}" if one.job_attempt else job
    if one.succeeded is False and one.stage == ABORT and not one.error:
        return Text(f"{_when(one)}  {named}: aborted", style="yellow")
    where = f" in {stage_name(one.stage)}" if one.stage else ""
    why = f": {one.error}" if one.error else ""
    if not one.succeeded:
        what = "FAILED" if one.succeeded is False else "UNKNOWN whether committed, failed"
        return Text(f"{_when(one)}  {named}: {what}{where}{why}", style="red")
    if one.error:
        what = f"committed, but not to its end, failed{where}{why}"
        return Text(f"{_when(one)}  {named}: {what}", style="yellow")
    facts = ["committed"]
    facts += [] if one.files is None else [count_text(one.files, "file"), size_text(one.bytes)]
    facts += [] if one.seconds is None else [f"in {seconds_text(one.seconds)}"]
    facts += [f"version {one.table_version:,}"] if one.table_version else []
    facts += [f"run id {one.run_id}"] if one.run_id else []
    facts += [f"by {one.committer}"] if one.files is None and one.committer else []
    return Text(f"{_when(one)}  {named}: {', '.join(facts)}")


def _when(one: PastCommit) -> str:
    if one.at_milliseconds is None:
        return f"{'at an unknown time':<23}"
    return f"{datetime.fromtimestamp(one.at_milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
