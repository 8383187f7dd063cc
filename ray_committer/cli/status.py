"""``ray-committer status``: the jobs below a destination and how far their commits got."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from rich.text import Text

from ray_committer import api
from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.print import age_text, count_text, print_result, size_text

_MEANING = {
    "running": ("undecided: its tasks may run still, or the application has died", ""),
    "recorded": ("its commit has begun and not ended; run again, its application doubles rows", "red"),
    "committed": ("committed; its clean-up has not ended", "yellow"),
    "aborting": ("its abort has begun and not ended", "yellow"),
}


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

    That costs four requests a job. Files and bytes of a job without a commit record are estimated by
    its largest manifest then, and which files a commit has moved is not known: for that see --exact.
    """
    jobs = api.list_jobs(
        destination,
        exact=exact,
        options=shared.commit_options(),
        storage_options=dict(storage_options),
    )
    print_result(output, jobs, _lines(destination, jobs))


def _lines(destination: str, jobs: list[api.JobSummary]) -> Iterator[Text | str]:
    yield f"{destination}: {count_text(len(jobs), 'job') if jobs else 'no jobs'}"
    ids = [job.job_id for job in jobs]
    for job in jobs:
        named = job.job_attempt or ids.count(job.job_id) > 1
        yield Text(f"{job.job_id}, attempt {job.job_attempt}" if named else job.job_id, style="bold")
        meaning, style = _MEANING[job.state]
        yield Text(f"  {meaning}", style=style)
        yield f"  {_amounts(job)}; {age_text(job.age_seconds)}"
        if job.left is not None and job.state == "recorded":
            yield f"  {count_text(job.left, 'file')} still to be moved"
        if job.problem is not None:
            yield Text(f"  {job.problem}", style="red")
        if job.command is not None:
            yield f"  finish it: {job.command}"
    yield from _notes(jobs)


def _amounts(job: api.JobSummary) -> str:
    files = count_text(job.files, "file", about=job.is_estimate)
    size = size_text(job.bytes, about=job.is_estimate)
    return f"{count_text(job.manifests, 'task')}, {files}, {size}"


def _notes(jobs: list[api.JobSummary]) -> Iterator[str]:
    """What was not looked at, since it costs requests for each task, and what can be done."""
    if any(job.is_estimate for job in jobs):
        yield "about: by the largest manifest of the job; --exact reads them all"
    if any(job.state == "recorded" and job.left is None for job in jobs):
        yield "how many files are moved already is told by --exact"
    if any(job.state == "running" for job in jobs):
        yield "undecided: `commit --expect-tasks N` if all tasks are done; `abort` gives it up"
