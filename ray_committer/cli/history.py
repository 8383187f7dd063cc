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
def history(destination: str, limit: int, output: str, how: shared.How) -> None:
    """List the past commits of DEST, the newest first.

    They come from the summary reports in --summary-directory, which also has reports of failed commits,
    from the log of a table, and from DEST/_SUCCESS, which has only the last one. A report names its
    destination, so a directory can have reports of many. A file that cannot be read is shown as such.
    """
    commits = past_commits(destination, limit=limit, **how)
    has_all = how["options"].summary_directory is not None
    print_result(output, {"commits": commits}, _lines(destination, commits, has_all=has_all))


def _lines(destination: str, commits: Sequence[PastCommit], *, has_all: bool) -> Iterator[Text | str]:
    if not commits:
        yield f"{destination}: no commit is on record"
    yield from map(_line, commits)
    if not has_all:
        yield "commits with a --summary-directory leave a report each, also those that fail"


def _line(commit: PastCommit) -> Text:
    if commit.problem is not None:
        return Text(f"{_when(commit)}  {commit.source}: not read: {commit.problem}", style="yellow")
    job = commit.job_id or "a job that is not named"
    named = f"{job}, attempt {commit.job_attempt}" if commit.job_attempt else job
    if commit.succeeded is False and commit.stage == ABORT and not commit.error:
        return Text(f"{_when(commit)}  {named}: aborted", style="yellow")
    where = f" in {stage_name(commit.stage)}" if commit.stage else ""
    why = f": {commit.error}" if commit.error else ""
    if not commit.succeeded:
        what = "FAILED" if commit.succeeded is False else "UNKNOWN whether committed, failed"
        return Text(f"{_when(commit)}  {named}: {what}{where}{why}", style="red")
    if commit.error:
        what = f"committed, but not to its end, failed{where}{why}"
        return Text(f"{_when(commit)}  {named}: {what}", style="yellow")
    facts = ["committed"]
    facts += [] if commit.files is None else [count_text(commit.files, "file"), size_text(commit.bytes)]
    facts += [] if commit.seconds is None else [f"in {seconds_text(commit.seconds)}"]
    facts += [f"version {commit.table_version:,}"] if commit.table_version else []
    facts += [f"run id {commit.run_id}"] if commit.run_id else []
    facts += [f"by {commit.committer}"] if commit.files is None and commit.committer else []
    return Text(f"{_when(commit)}  {named}: {', '.join(facts)}")


def _when(commit: PastCommit) -> str:
    if commit.at_milliseconds is None:
        return f"{'at an unknown time':<23}"
    return f"{datetime.fromtimestamp(commit.at_milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
