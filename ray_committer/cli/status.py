"""``ray-committer status``: the jobs below a destination and the progress of their commits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from rich.text import Text

from ray_committer.cli import options as shared
from ray_committer.cli.destination import DestinationCommand, table_option
from ray_committer.cli.print import (
    age_text,
    ago_text,
    count_text,
    partitions_text,
    print_result,
    size_text,
)
from ray_committer.jobs.list_jobs import JobSummary, list_jobs

_MEANING = {
    "running": ("undecided: its tasks may still run, or the application has died", ""),
    "recorded": ("recorded: its commit has begun; a new run of its application doubles rows", "red"),
    "sealed": ("sealed: all its files are in place; data that it replaces may be gone", "red"),
    "committed": ("committed; its clean-up has not ended", "yellow"),
    "undoing": ("undoing: its commit is being given up; some of its files may be visible", "red"),
    "unknown": ("unknown: it was not examined", "yellow"),
    "left": ("left by Hadoop's S3A committer, whose driver may still be at work on it", ""),
    "aborting": ("aborting: its abort has begun but not ended", "yellow"),
}
_COMMITTING = ("recorded", "sealed")


@click.command(cls=DestinationCommand)
@click.argument("destination", metavar="DEST")
@table_option
@click.option(
    "--exact",
    is_flag=True,
    help="Read every manifest, and count the files still to be moved: two requests per task.",
)
@shared.settings(shared.REQUESTS)
@shared.storage_option
@shared.output_option
def status(
    destination: str,
    exact: bool,
    storage_options: tuple[tuple[str, str], ...],
    output: str,
    **_settings: Any,
) -> None:
    """List the jobs in DEST/_temporary: tasks, files, bytes, age, and progress of each commit.

    For a commit that has begun, the list shows when it began, how many files were moved at the last sign
    of life, and which command continues it. It also shows which process is at work on the commit, or
    that the process that began it has stopped. This costs a few requests per job.

    Without --exact, the files and bytes of a job without a commit record are estimated from its largest
    manifest, and the number of files still to move is not known.

    On S3, the list also has the jobs that Hadoop's S3A committer left below DEST/__magic.

    If DEST is a database, list the jobs in --table.
    """
    jobs = list_jobs(
        destination,
        exact=exact,
        options=shared.commit_options(),
        storage_options=dict(storage_options),
    )
    print_result(output, {"jobs": jobs}, _lines(destination, jobs))


def _lines(destination: str, jobs: list[JobSummary]) -> Iterator[Text | str]:
    yield f"{destination}: {count_text(len(jobs), 'job') if jobs else 'no jobs'}"
    ids = [job.job_id for job in jobs]
    for job in jobs:
        named = job.job_attempt or ids.count(job.job_id) > 1
        yield Text(f"{job.job_id}, attempt {job.job_attempt}" if named else job.job_id, style="bold")
        meaning, style = _MEANING[job.state]
        yield Text(f"  {meaning}", style="" if job.is_alive else style)
        yield f"  {_amounts(job)}; {age_text(job.age_seconds)}"
        if job.left is not None and job.state in _COMMITTING:
            yield f"  {count_text(job.left, 'file')} still to be moved"
        if job.committer is not None and job.state != "undoing":
            yield f"  {_committer(job)}"
        if job.moved is not None and job.left is None:
            yield f"  {_moved(job)}"
        if job.claim is not None:
            yield f"  {_in_log(job)}"
        if job.problem is not None:
            yield Text(f"  {job.problem}", style="red")
        yield from _commands(job)
    yield from _notes(jobs)


def _committer(job: JobSummary) -> str:
    """The process that began the commit, or the process to wait for."""
    begun = f"begun {ago_text(job.begun_seconds)}"
    if job.is_alive:
        return f"{begun}; {job.committer} is at work: wait for it"
    return f"{begun} by {job.committer}, which has stopped"


def _moved(job: JobSummary) -> str:
    """The progress at the last sign of life, without the files that an earlier process moved."""
    files, ago = count_text(job.files, "file"), ago_text(job.moved_seconds)
    return f"at least {job.moved:,} of {files} moved, as of {ago}"


def _in_log(job: JobSummary) -> str:
    """The job's claim in the log of its table, and its commit."""
    if job.table_version is not None:
        return f"committed as version {job.table_version:,} of the table (claim {job.claim:,})"
    return f"other jobs wait for its claim on {partitions_text(job.partitions)} (version {job.claim:,})"


def _commands(job: JobSummary) -> Iterator[str]:
    if job.state == "left":
        yield f"  if its driver is dead and N tasks had succeeded, finish it: {job.command}"
        yield f"  or give it up: {job.undo_command}"
    elif job.command is not None:
        yield f"  {'if it stops, finish it' if job.is_alive else 'finish it'}: {job.command}"
        if job.undo_command is not None:
            yield f"  or give it up: {job.undo_command}"
    elif job.undo_command is not None:
        yield "  only its own process can finish it"
        yield f"  if that has ended, give it up: {job.undo_command}"


def _amounts(job: JobSummary) -> str:
    files = count_text(job.files, "file", about=job.is_estimate)
    size = size_text(job.bytes, about=job.is_estimate)
    return f"{count_text(job.manifests, 'task')}, {files}, {size}"


def _notes(jobs: list[JobSummary]) -> Iterator[str]:
    """What was not read, because that costs requests per task, and what the user can do."""
    if any(job.is_estimate for job in jobs):
        yield "about: estimated from the largest manifest of the job; --exact reads them all"
    if any(job.state in _COMMITTING and job.left is None for job in jobs):
        yield "--exact counts the files that are still to be moved"
    if any(job.state == "running" and job.undo_command is None for job in jobs):
        yield "undecided: run `commit --expect-tasks N` if all tasks are done, or `abort` it"
