"""``ray-committer commit``: commit a job, or finish a commit that was interrupted."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click
import msgspec

from ray_committer import api
from ray_committer.cancellation import CancelToken
from ray_committer.cli import options as shared
from ray_committer.cli.cancel import cancel_on_signals
from ray_committer.cli.html_file import html_option, write_html
from ray_committer.cli.progress import Progress
from ray_committer.commit_report import CommitReport, Outcome
from ray_committer.executors.choose import ExecutorName
from ray_committer.options import CommitOptions
from ray_committer.report.text import report_json, report_lines


@click.command()
@click.argument("destination", metavar="DEST")
@shared.job_id_option
@shared.attempt_option
@click.option("--expect-tasks", type=click.IntRange(min=0), help="How many tasks succeeded.")
@click.option("--assume-complete", is_flag=True, help="Take it that all tasks are done.")
@click.option(
    "--executor", type=click.Choice(["auto", "threads", "ray"]), default="auto", show_default=True
)
@click.option("--durable", is_flag=True, help="Let a power cut after the commit take nothing back.")
@click.option("--dry-run", is_flag=True, help="Load and check the job, change nothing.")
@html_option
@shared.storage_option
@shared.output_option
def commit(
    destination: str,
    job_id: str | None,
    attempt: int | None,
    expect_tasks: int | None,
    assume_complete: bool,
    executor: ExecutorName,
    durable: bool,
    dry_run: bool,
    html_file: str | None,
    storage: tuple[str, ...],
    output: str,
) -> None:
    """Move every file of the successful tasks of a job to its place below DEST.

    A commit that was interrupted is finished by the same command. One that never began needs
    --expect-tasks or --assume-complete: nobody can see from the store whether all tasks are done.
    """
    if expect_tasks is not None and assume_complete:
        raise click.UsageError("--expect-tasks and --assume-complete exclude each other")
    options = CommitOptions(
        job_attempt=attempt,
        expected_tasks=expect_tasks,
        assume_complete=assume_complete or dry_run,
        durable=durable,
    )
    storage_options = shared.storage_options(storage)
    if dry_run:
        plan = api.plan_job(destination, job_id, options=options, storage_options=storage_options)
        _print_plan(plan, output)
        return
    token = CancelToken()
    with cancel_on_signals(token.cancel):
        api.commit_job(
            destination,
            job_id,
            executor=executor,
            options=options,
            storage_options=storage_options,
            on_event=Progress().event,
            cancel=token,
            on_report=lambda report: _print_report(_with_catalog(report), output, html_file),
        )


def _with_catalog(report: CommitReport) -> CommitReport:
    """Say what Spark itself does after a write, and cannot where the command finished its job."""
    if report.outcome is not Outcome.COMMITTED:
        return report
    due = "REFRESH TABLE is due"
    if report.directories > 1:
        due = "MSCK REPAIR TABLE, for new partitions, and REFRESH TABLE are due"
    text = f"if this is a table of a catalog, {due}, and ANALYZE TABLE if it has statistics"
    return msgspec.structs.replace(report, notices=[*report.notices, text])


def _print_report(report: CommitReport, output: str, html_file: str | None) -> None:
    write_html(report, html_file)
    if output == "json":
        click.echo(report_json(report))
        return
    failed = report.outcome is Outcome.FAILED
    lines = report_lines(msgspec.structs.replace(report, error=None))
    click.echo("\n".join(lines), file=sys.stderr if failed else sys.stdout)


def _print_plan(plan: api.JobPlan, output: str) -> None:
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(asdict(plan)), indent=2).decode())
        return
    click.echo(
        f"job {plan.job_id} (attempt {plan.job_attempt}, {plan.state}): {plan.destination}\n"
        f"  would move {plan.files:,} files, {plan.bytes:,} bytes, of {plan.manifests:,} tasks,\n"
        f"  into {plan.directories:,} leaf directories, and remove {plan.replaced:,} replaced files;\n"
        f"  nothing was changed"
    )
