"""The commands for jobs whose rows go into a table of a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.text import Text

from ray_committer.cli.print import ago_text, count_text, print_result
from ray_committer.records.commit import finish_job
from ray_committer.records.connect import connect
from ray_committer.records.database import parse_database
from ray_committer.records.end import abort_job, vacuum_jobs
from ray_committer.records.find import job_to_abort, job_to_commit, list_jobs, open_table
from ray_committer.records.job import where
from ray_committer.records.ledger import State
from ray_committer.records.report import EndedRecordJob, RecordJobSummary, RecordReport
from ray_committer.records.session import Sessions, sessions
from ray_committer.records.table import Table

_MEANING = {
    State.OPEN: ("open: its tasks may still run, or the application has died", ""),
    State.RECORDED: ("recorded: its commit has begun; a new run of its application doubles rows", "red"),
    State.COMMITTED: ("committed", ""),
    State.ABORTED: ("aborted", ""),
}


def commit(
    *, destination: str, table: str, write_id: int | None, job_id: str | None, output: str
) -> None:
    """Finish the commit of a recorded job."""
    with _opened(destination, table) as (found, at):
        number = job_to_commit(found, at, write_id=write_id, job_id=job_id)
        report = finish_job(found, at, number)
    print_result(output, report, _report_lines(where(found.database, at), report))


def abort(
    *,
    destination: str,
    table: str,
    write_id: int | None,
    job_id: str | None,
    undo: bool,
    output: str,
) -> None:
    """Give up a job that is open or, with `undo`, recorded."""
    with _opened(destination, table) as (found, at):
        number = job_to_abort(found, at, write_id=write_id, job_id=job_id)
        ended = None if number is None else abort_job(found, at, number, undo=undo)
    print_result(output, ended, _abort_lines(where(found.database, at), ended))


def status(*, destination: str, table: str, output: str, **_no_job: Any) -> None:
    """List the jobs of a table."""
    with _opened(destination, table) as (found, at):
        jobs = list_jobs(found, at)
    print_result(output, {"jobs": jobs}, _status_lines(where(found.database, at), jobs))


def vacuum(
    *, destination: str, table: str, older_than: float, dry_run: bool, output: str, **_no_job: Any
) -> None:
    """Abort dead jobs, and drop the staging tables of jobs that have ended."""
    with _opened(destination, table) as (found, at):
        jobs = vacuum_jobs(found, at, older_than_seconds=older_than, dry_run=dry_run)
    lines = _vacuum_lines(where(found.database, at), jobs, dry_run=dry_run)
    print_result(output, {"jobs": jobs}, lines)


COMMANDS: Mapping[str, Callable[..., None]] = {
    "abort": abort,
    "commit": commit,
    "status": status,
    "vacuum": vacuum,
}


@contextmanager
def _opened(destination: str, table: str) -> Iterator[tuple[Sessions, Table]]:
    with sessions(parse_database(destination), connect) as found:
        yield found, open_table(found, table)


def _report_lines(named: str, report: RecordReport) -> Iterator[str]:
    amount = f"{count_text(report.rows, 'row')} of {count_text(report.attempts, 'task attempt')}"
    yield f"{named}: write id {report.write_id} {report.outcome}, {amount}"
    yield from (f"note: {text}" for text in report.notices)


def _abort_lines(named: str, ended: EndedRecordJob | None) -> Iterator[str]:
    if ended is None:
        yield f"{named}: nothing was left to abort"
        return
    what = "was aborted" if ended.ended else "had been aborted"
    dropped = count_text(ended.dropped, "staging table")
    yield f"{named}: write id {ended.write_id} {what}, {dropped} dropped"
    yield from (f"note: {text}" for text in ended.notices)


def _status_lines(named: str, jobs: Sequence[RecordJobSummary]) -> Iterator[Text | str]:
    yield f"{named}: {count_text(len(jobs), 'job') if jobs else 'no jobs'}"
    for job in jobs:
        yield Text(f"write id {job.write_id}, job {job.job_id}", style="bold")
        meaning, style = _MEANING[job.state]
        yield Text(
            f"  {meaning} {ago_text(job.age_seconds)}" if not style else f"  {meaning}", style=style
        )
        if job.rows is not None:
            attempts = count_text(job.attempts, "task attempt")
            yield f"  {job.mode}, {count_text(job.rows, 'row')} of {attempts}"
        if job.staging_tables:
            yield f"  {count_text(job.staging_tables, 'staging table')}"
        if job.command is not None:
            yield f"  {'finish it' if job.undo_command else 'give it up'}: {job.command}"
        if job.undo_command is not None:
            yield f"  or give it up: {job.undo_command}"


def _vacuum_lines(named: str, jobs: Sequence[EndedRecordJob], *, dry_run: bool) -> Iterator[str]:
    would = "would be " if dry_run else ""
    ended = sum(job.ended for job in jobs)
    dropped = sum(job.dropped for job in jobs)
    tables = count_text(dropped, "staging table")
    yield f"{named}: {count_text(ended, 'job')} {would}aborted, {tables} {would}dropped"
    for job in jobs:
        if job.reason is not None:
            yield f"write id {job.write_id}: kept, {job.reason}"
        if job.command is not None:
            yield f"  finish it: {job.command}"
        yield from (f"note: {text}" for text in job.notices)
