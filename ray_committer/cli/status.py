"""``ray-committer status``: the jobs below a destination and how far their commits got."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from rich.text import Text

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.print import age_text, ago_text, count_text, print_result, size_text
from ray_committer.inspection.jobs import JobSummary, list_jobs

_MEANING = {
    "running": ("undecided: its tasks may run still, or the application has died", ""),
    "recorded": ("recorded: its commit has begun; run again, its application doubles rows", "red"),
    "sealed": ("sealed: all its files are in place; data that it replaces may be gone", "red"),
    "committed": ("committed; its clean-up has not ended", "yellow"),
    "undoing": ("undoing: its commit is being given up; some of its files may be visible", "red"),
    "unknown": ("unknown: nobody looked into it", "yellow"),
    "aborting": ("aborting: its abort has begun and not ended", "yellow"),
}
_COMMITTING = ("recorded", "sealed")


@click.command(cls=Command)
@click.argument("destination", metavar="DEST")
@click.option(
    "--exact",
    is_flag=True,
    help="Read every manifest, and count what a begun commit has still to move: two requests a task.",
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
    """List the jobs in DEST/_temporary: tasks, files, bytes, age, and how far each commit got.

    Of a commit that has begun it says when, which process is at work on it, or that the one that began
    it has stopped, how many files were moved at the last sign of life, and which command goes on. That
    costs a few requests a job. Files and bytes of a job without a commit record are estimated by its
    largest manifest then, and how many files are left is not known: for that see --exact.
    """
    jobs = list_jobs(
        destination,
        exact=exact,
        options=shared.commit_options(),
        storage_options=dict(storage_options),
    )
    print_result(output, jobs, _lines(destination, jobs))


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
        if job.problem is not None:
            yield Text(f"  {job.problem}", style="red")
        yield from _commands(job)
    yield from _notes(jobs)


def _committer(job: JobSummary) -> str:
    """Who began the commit, or whom to wait for."""
    begun = f"begun {ago_text(job.begun_seconds)}"
    if job.is_alive:
        return f"{begun}; {job.committer} is at work: wait for it"
    return f"{begun} by {job.committer}, which has stopped"


def _moved(job: JobSummary) -> str:
    """How far it was at its last sign of life, which does not count what an earlier process moved."""
    files, ago = count_text(job.files, "file"), ago_text(job.moved_seconds)
    return f"at least {job.moved:,} of {files} moved, as of {ago}"


def _commands(job: JobSummary) -> Iterator[str]:
    if job.command is not None:
        yield f"  {'if it stops, finish it' if job.is_alive else 'finish it'}: {job.command}"
    if job.undo_command is not None:
        yield f"  or give it up: {job.undo_command}"


def _amounts(job: JobSummary) -> str:
    files = count_text(job.files, "file", about=job.is_estimate)
    size = size_text(job.bytes, about=job.is_estimate)
    return f"{count_text(job.manifests, 'task')}, {files}, {size}"


def _notes(jobs: list[JobSummary]) -> Iterator[str]:
    """What was not looked at, since it costs requests for each task, and what can be done."""
    if any(job.is_estimate for job in jobs):
        yield "about: by the largest manifest of the job; --exact reads them all"
    if any(job.state in _COMMITTING and job.left is None for job in jobs):
        yield "--exact counts the files that are still to be moved"
    if any(job.state == "running" for job in jobs):
        yield "undecided: `commit --expect-tasks N` if all tasks are done; `abort` gives it up"
