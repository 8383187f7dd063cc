"""``ray-committer abort``: give up a job whose commit has not begun, or undo a commit that has begun."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

import click

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.print import count_text, partitions_text, print_result, size_text
from ray_committer.events import Event, Notice
from ray_committer.jobs.abort_report import AbortReport
from ray_committer.jobs.commit import abort_job
from ray_committer.jobs.plan_abort import plan_abort
from ray_committer.options.settings import Group


@click.command(cls=Command)
@click.argument("destination", metavar="DEST")
@shared.job_id_option
@shared.option(
    "--undo",
    is_flag=True,
    group=Group.SAFETY,
    help="Also give up a commit that has begun: take back the files that it has moved.",
)
@shared.dry_run_option
@shared.at_store("job_attempt", "allowed_roots", *shared.REQUESTS)
def abort(
    destination: str, job_id: str | None, undo: bool, dry_run: bool, output: str, how: shared.How
) -> None:
    """Delete the output of a job's tasks.

    After the job's commit has begun, an abort is refused and deletes nothing. With --undo it is
    possible, and first takes back the files that the commit has moved. An undo is refused after all new
    files are in place and old ones may be gone, and while a process is at work on the commit.
    """
    if dry_run:
        plan = plan_abort(destination, job_id, undo=undo, **how)
        is_there = plan.directory is not None
        nothing = [f"{plan.destination}: nothing is left to abort"]
        lines = _lines(plan, undo=undo, done=False) if is_there else nothing
        print_result(output, plan, [*lines, "  nothing was changed"])
        return
    notices: list[str] = []
    reports: list[AbortReport] = []

    def note(event: Event) -> None:
        notices.extend([event.text] if isinstance(event, Notice) else [])

    aborted = abort_job(destination, job_id, undo=undo, **how, on_event=note, on_report=reports.append)
    (report,) = reports
    print_result(
        output,
        {**asdict(report), "aborted": aborted, "notices": notices},
        _done_lines(report, notices, aborted=aborted, undo=undo),
    )


def _done_lines(
    report: AbortReport, notices: Sequence[str], *, aborted: bool, undo: bool
) -> Iterator[str]:
    if not aborted:
        yield f"{report.destination}: nothing was left to abort"
    else:
        yield from _lines(report, undo=undo, done=True)
        if not notices:
            yield f"  no other file in {report.destination} was changed"
    yield from (f"note: {text}" for text in notices)


def _lines(report: AbortReport, *, undo: bool, done: bool) -> Iterator[str]:
    was, were, ended = ("was", "were", "ended") if done else ("would be", "would be", "would end")
    yield f"{report.destination}: job {report.job_id}, attempt {report.job_attempt}, {was} aborted"
    if undo and report.moved is None:
        yield f"  the files that its commit had moved {were} taken back"
    elif undo:
        verb = was if report.moved == 1 else were
        yield f"  {count_text(report.moved, 'file')} of its commit {verb} taken back"
    yield f"  {_deleted(report, was, were)}"
    if report.claim is not None:
        shown = partitions_text(report.partitions)
        yield f"  its claim on {shown} {ended} (version {report.claim:,} of the table's log)"


def _deleted(report: AbortReport, was: str, were: str) -> str:
    if report.directory is None:
        return "nothing of it was left to delete"
    deleted = f"{report.directory} {was} deleted"
    if report.uploads is not None:
        verb = was if report.uploads == 1 else were
        return f"{deleted}, and {count_text(report.uploads, 'upload')} of its tasks {verb} aborted"
    if report.files is None:
        return f"{deleted}, with all that its tasks wrote"
    files = count_text(report.files, "file")
    return f"{deleted}, with {files} of its tasks, {size_text(report.bytes)}"
