"""``ray-committer commit``: commit a job, or finish a commit that was interrupted."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

import click
import msgspec

from ray_committer.cli import options as shared
from ray_committer.cli.cancel import cancel_on_signals
from ray_committer.cli.command import Command
from ray_committer.cli.document import keep, print_report
from ray_committer.cli.html_file import html_option, write_html
from ray_committer.cli.lines import tell
from ray_committer.cli.progress import progress
from ray_committer.events import CancelToken, EventSink, to_all
from ray_committer.executors.choose import ExecutorName
from ray_committer.jobs.commit import commit_job
from ray_committer.options import CommitOptions
from ray_committer.options.settings import Group
from ray_committer.protocol.commit_result import Outcome
from ray_committer.protocol.record import ConflictMode
from ray_committer.report import telemetry
from ray_committer.report.commit_report import CommitReport
from ray_committer.report.event_log import event_log
from ray_committer.report.text import report_json, report_lines, verdict_line

_COLOURS = {True: "green", False: "red", None: "yellow"}


@click.command(cls=Command)
@click.argument("destination", metavar="DEST")
@shared.job_id_option
@shared.option(
    "--assume-complete", is_flag=True, group=Group.SAFETY, help="Assume that all tasks are done."
)
@shared.executor_option
@shared.dry_run_option
@click.option("--events", metavar="FILE", help="Append the events of the commit to FILE, as JSON lines.")
@html_option
@shared.at_store()
def commit(
    destination: str,
    job_id: str | None,
    assume_complete: bool,
    executor: ExecutorName,
    dry_run: bool,
    events: str | None,
    html_file: str | None,
    output: str,
    how: shared.How,
) -> None:
    """Move the files of a job's successful tasks to their final paths below DEST.

    The same command finishes a commit that was interrupted. A commit that has not begun needs
    --expect-tasks or --assume-complete, because the store does not show whether all tasks are done.
    """
    _refuse(how["options"], assume_complete=assume_complete)
    how["options"] = how["options"].changed(
        known_jobs=(),  # a command is a session of its own
        assume_complete=assume_complete or dry_run,
    )
    if dry_run:
        from ray_committer.cli.plan import print_plan  # not needed by a commit

        print_plan(output, destination, job_id, **how)
        return
    token, context = CancelToken(), click.get_current_context()

    def show(report: CommitReport) -> None:
        links = report.links | ({} if events is None else {"events": events})
        told = _with_catalog(msgspec.structs.replace(report, links=links))
        _print_report(told, output, html_file)
        if output != "json":
            print_verdict_last(told, context)

    with (
        progress() as shown,
        listening(shown.event, events) as on_event,
        cancel_on_signals(token.cancel, shown.interrupt),
    ):
        commit_job(
            destination,
            job_id,
            executor=executor,
            **how,
            on_event=on_event,
            cancel=token,
            on_report=show,
        )


def _refuse(options: CommitOptions, *, assume_complete: bool) -> None:
    if options.expected_tasks is not None and assume_complete:
        raise click.UsageError("--expect-tasks and --assume-complete cannot be used together")
    if options.replaced_roots and options.mode is not ConflictMode.OVERWRITE:
        raise click.UsageError("--replace needs --mode overwrite")


def _with_catalog(report: CommitReport) -> CommitReport:
    """Add a notice of what Spark does after its own writes, but not if a command finished the job, or
    if the report has a command for the catalog."""
    if report.outcome is not Outcome.COMMITTED or report.catalog_command:
        return report
    due = "REFRESH TABLE"
    if report.directories > 1:
        due = "MSCK REPAIR TABLE for new partitions and REFRESH TABLE"
    text = f"if this is a catalog table, run {due}, and ANALYZE TABLE if it has statistics"
    return msgspec.structs.replace(report, notices=[*report.notices, text])


def _print_report(report: CommitReport, output: str, html_file: str | None) -> None:
    if output == "json":
        keep(msgspec.json.decode(report_json(report)), outcome=report.outcome)
    write_html(report, html_file)
    if output == "json":
        return
    failed = report.outcome is Outcome.FAILED
    lines = report_lines(msgspec.structs.replace(report, error=None))
    lines += [] if failed else [""]
    print_report("\n".join(lines), report.outcome, err=failed)


@contextmanager
def listening(shown: EventSink, events: str | None) -> Iterator[EventSink]:
    """Pass events on to the sink that shows them, to the file `events`, and as spans."""
    with ExitStack() as stack:
        sinks = [shown]
        if events is not None:
            log = event_log(events, on_failure=lambda text: tell(f"  {text}"))
            sinks.append(stack.enter_context(log))
        if "opentelemetry" in sys.modules:  # `opentelemetry-instrument` imports it before the command
            try:
                stack.enter_context(telemetry.trace_of(os.environ))
                sinks.append(telemetry.spans())
            except Exception as e:  # noqa: BLE001 - a broken agent of a machine must not stop a commit
                tell(f"  no spans: OpenTelemetry is not usable here: {type(e).__name__}: {e}")
        yield to_all(*sinks)


def print_verdict_last(report: CommitReport, context: click.Context) -> None:
    """Print it when the whole command ends: below the report, and below an error and its advice."""
    context.find_root().call_on_close(partial(print_verdict, report))


def print_verdict(report: CommitReport) -> None:
    """Print the verdict where the report was printed, with a colour if that is a terminal."""
    wants_none = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in ("dumb", "unknown")
    with suppress(OSError):  # the reader may be gone; the outcome does not depend on that
        click.secho(
            verdict_line(report),
            fg="yellow" if report.outcome is Outcome.RECORDED else _COLOURS[report.committed],
            bold=True,
            err=report.outcome is Outcome.FAILED,
            color=False if wants_none else None,
        )
