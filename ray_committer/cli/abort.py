"""``ray-committer abort``: give up a job whose commit has not begun."""

from __future__ import annotations

from typing import Any

import click

from ray_committer import api
from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.print import count_text, print_result, size_text


@click.command(cls=Command)
@click.argument("destination", metavar="DEST")
@shared.job_id_option
@shared.attempt_option
@shared.dry_run_option
@shared.settings(shared.REQUESTS)
@shared.storage_option
@shared.output_option
def abort(
    destination: str,
    job_id: str | None,
    attempt: int | None,
    dry_run: bool,
    storage_options: tuple[tuple[str, str], ...],
    output: str,
    **_settings: Any,
) -> None:
    """Delete what the tasks of a job wrote.

    Refused, with nothing deleted, once the job's commit has begun.
    """
    options = shared.commit_options(job_attempt=attempt)
    if dry_run:
        plan = api.plan_abort(
            destination, job_id, options=options, storage_options=dict(storage_options)
        )
        print_result(output, plan, _plan_lines(plan))
        return
    deleted = api.abort_job(destination, job_id, options=options, storage_options=dict(storage_options))
    what = "the job was aborted" if deleted else "nothing was left to abort"
    value = {"destination": destination, "job_id": job_id, "aborted": deleted}
    print_result(output, value, [f"{destination}: {what}"])


def _plan_lines(plan: api.AbortPlan) -> list[str]:
    return [
        f"{plan.destination}: job {plan.job_id}, attempt {plan.job_attempt}, would be aborted",
        f"  {count_text(plan.files, 'file')} of its tasks would be deleted, {size_text(plan.bytes)}",
        "  nothing was changed",
    ]
