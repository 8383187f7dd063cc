"""``ray-committer records``: the commands for jobs whose rows go into a table of a database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click
from rich.text import Text

from ray_committer.cli.command import Subgroup
from ray_committer.cli.options import option, output_option
from ray_committer.cli.print import ago_text, count_text, print_result
from ray_committer.cli.vacuum import older_than_option
from ray_committer.options.settings import Group
from ray_committer.records.commit import finish_job
from ray_committer.records.connect import connect
from ray_committer.records.database import parse_database
from ray_committer.records.end import abort_job, abort_old_jobs
from ray_committer.records.find import job_to_commit, list_jobs, open_table
from ray_committer.records.ledger import State
from ray_committer.records.report import EndedRecordJob, RecordJobSummary, RecordReport
from ray_committer.records.session import Sessions, sessions
from ray_committer.records.table import Table

_RECORDED = "recorded: its commit has begun; a new run of its application doubles rows"
_MEANING = {
    State.OPEN: ("open: its tasks may still run, or the application has died", "", "give it up"),
    State.RECORDED: (_RECORDED, "red", "finish it"),
    State.COMMITTED: ("committed", "", "drop them"),
    State.ABORTED: ("aborted", "", "drop them"),
}
"""What a state means, in which style, and what the command of such a job does."""

_url = click.argument("url", metavar="URL")
_table = click.argument("table", metavar="TABLE")
_write_id = click.argument("write_id", metavar="[WRITE_ID]", type=click.IntRange(min=1), required=False)


@click.group(cls=Subgroup)
def records() -> None:
    """Finish or give up jobs whose rows go into a table of a database.

    URL is postgresql://USER@HOST/DATABASE or sqlite:///PATH. TABLE is its name, or SCHEMA.NAME.
    """


@records.command()
@_url
@_table
@output_option
def status(url: str, table: str, output: str) -> None:
    """List the jobs of TABLE that have not ended, and the last one that was committed.

    The output has the command that ends each job.
    """
    with _opened(url, table) as (opened, at):
        jobs = list_jobs(opened, at)
    print_result(output, {"jobs": jobs}, _status_lines(at.where, jobs))


@records.command()
@_url
@_table
@_write_id
@output_option
def commit(url: str, table: str, write_id: int | None, output: str) -> None:
    """Finish the commit of a recorded job.

    Without WRITE_ID, it is the only job that is recorded.
    """
    with _opened(url, table) as (opened, at):
        report = finish_job(opened, at, write_id or job_to_commit(opened, at))
    print_result(output, report, _report_lines(at.where, report))


@records.command()
@_url
@_table
@_write_id
@option("--undo", is_flag=True, group=Group.SAFETY, help="Also give up job WRITE_ID if it is recorded.")
@older_than_option(
    help="Without WRITE_ID: how long a job has been open. Use more than any application takes."
)
@output_option
def abort(
    url: str, table: str, write_id: int | None, undo: bool, older_than: float, output: str
) -> None:
    """Give up job WRITE_ID, or all jobs that have been open for a long time.

    No row of such a job will be visible. Staging tables that are left of ended jobs are dropped. A
    recorded job is given up only with --undo, and a committed one never.
    """
    if undo and write_id is None:
        raise click.UsageError("--undo needs a write id")
    with _opened(url, table) as (opened, at):
        if write_id is None:
            jobs = abort_old_jobs(opened, at, older_than_seconds=older_than)
        else:
            jobs = [abort_job(opened, at, write_id, undo=undo)]
    print_result(output, {"jobs": jobs}, _abort_lines(at.where, jobs))


@contextmanager
def _opened(url: str, table: str) -> Iterator[tuple[Sessions, Table]]:
    with sessions(parse_database(url), connect) as opened:
        yield opened, open_table(opened, table)


def _status_lines(named: str, jobs: Sequence[RecordJobSummary]) -> Iterator[Text | str]:
    yield f"{named}: {count_text(len(jobs), 'job') if jobs else 'no jobs'}"
    for job in jobs:
        yield Text(f"write id {job.write_id}, job {job.job_id}", style="bold")
        meaning, style, to_run = _MEANING[job.state]
        age = "" if style else f" {ago_text(job.age_seconds)}"
        yield Text(f"  {meaning}{age}", style=style)
        if job.rows is not None:
            attempts = count_text(job.attempts, "task attempt")
            yield f"  {job.mode}, {count_text(job.rows, 'row')} of {attempts}"
        if job.staging_tables:
            yield f"  {count_text(job.staging_tables, 'staging table')}"
        if job.command is not None:
            yield f"  {to_run}: {job.command}"
        if job.undo_command is not None:
            yield f"  or give it up: {job.undo_command}"


def _report_lines(named: str, report: RecordReport) -> Iterator[str]:
    amount = f"{count_text(report.rows, 'row')} of {count_text(report.attempts, 'task attempt')}"
    yield f"{named}: write id {report.write_id} {report.outcome}, {amount}"
    yield from (f"note: {text}" for text in report.notices)


def _abort_lines(named: str, jobs: Sequence[EndedRecordJob]) -> Iterator[str]:
    if not jobs:
        yield f"{named}: no job was aborted; `ray-committer records status` lists the jobs"
    for job in jobs:
        what = "was aborted" if job.ended else f"had been {job.state}"
        dropped = count_text(job.dropped, "staging table")
        yield f"{named}: write id {job.write_id} {what}, {dropped} dropped"
        yield from (f"note: {text}" for text in job.notices)
