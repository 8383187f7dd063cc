"""``ray-committer abort``: give up a job whose commit has not begun, or undo a commit that has begun."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ray_committer.cli import options as shared
from ray_committer.cli.destination import DestinationCommand, table_option, write_id_option
from ray_committer.cli.print import count_text, partitions_text, print_result, size_text
from ray_committer.events import Event, Notice
from ray_committer.jobs.commit import abort_job
from ray_committer.jobs.plan_abort import AbortPlan, plan_abort


@click.command(cls=DestinationCommand)
@click.argument("destination", metavar="DEST")
@shared.job_id_option
@table_option
@write_id_option
@shared.attempt_option
@click.option(
    "--undo",
    is_flag=True,
    help="Also give up a commit that has begun: take back the files that it has moved.",
)
@shared.allowed_root_option
@shared.dry_run_option
@shared.settings(shared.REQUESTS)
@shared.storage_option
@shared.output_option
def abort(
    destination: str,
    job_id: str | None,
    attempt: int | None,
    undo: bool,
    allowed_root: tuple[str, ...],
    dry_run: bool,
    storage_options: tuple[tuple[str, str], ...],
    output: str,
    **_settings: Any,
) -> None:
    """Delete the output of a job's tasks.

    After the job's commit has begun, an abort is refused and deletes nothing. With --undo it is
    possible, and first takes back the files that the commit has moved. An undo is refused after all new
    files are in place and old ones may be gone, and while a process is at work on the commit.

    If DEST is a database, drop the staging tables of a job in --table.
    """
    options = shared.commit_options(job_attempt=attempt, allowed_roots=allowed_root)
    told = dict(storage_options)
    if dry_run:
        plan = plan_abort(destination, job_id, undo=undo, options=options, storage_options=told)
        print_result(output, plan, _plan_lines(plan, undo=undo))
        return
    notices: list[str] = []

    def note(event: Event) -> None:
        notices.extend([event.text] if isinstance(event, Notice) else [])

    deleted = abort_job(
        destination, job_id, undo=undo, options=options, storage_options=told, on_event=note
    )
    what = "the job was aborted" if deleted else "nothing was left to abort"
    value = {"destination": destination, "job_id": job_id, "aborted": deleted, "notices": notices}
    print_result(output, value, [f"{destination}: {what}", *(f"note: {text}" for text in notices)])


def _plan_lines(plan: AbortPlan, *, undo: bool) -> Iterator[str]:
    yield f"{plan.destination}: job {plan.job_id}, attempt {plan.job_attempt}, would be aborted"
    if undo:
        yield f"  {count_text(plan.moved, 'file')} of its commit would be taken back"
    yield f"  {count_text(plan.files, 'file')} of its tasks would be deleted, {size_text(plan.bytes)}"
    if plan.claim is not None:
        shown = partitions_text(plan.partitions)
        yield f"  its claim on {shown} would end (version {plan.claim:,} of the table's log)"
    yield "  nothing was changed"
