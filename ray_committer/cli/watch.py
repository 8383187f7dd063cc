"""``ray-committer status --watch``: the state of a destination again and again, until its jobs are over.

On a terminal each look replaces the one before. Elsewhere, as in the log of a scheduler, each is a block
of its own or, with ``--output json``, a line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial

import click
from rich.text import Text

from ray_committer.cli.document import to_json
from ray_committer.cli.errors import error_id, what_and_advice
from ray_committer.cli.print import print_lines
from ray_committer.cli.status_lines import is_unfinished, status_lines
from ray_committer.errors import CommitCancelledError, CommitStateUnknownError, RayCommitterError
from ray_committer.jobs.destination_status import DestinationStatus
from ray_committer.jobs.list_jobs import JobSummary
from ray_committer.limits import waiting
from ray_committer.report.amounts import seconds_text

RETRY_SECONDS = 10.0
"""How long a look repeats a request: better an error that is shown than a picture that stands still."""


def watch(dest: str, look: Callable[[], DestinationStatus], *, every: float, output: str) -> None:
    """Show what `look` returns every `every` seconds, until no process is, or may be, at work on a job.

    An error of the first look is raised; later ones are shown. Ends the process with exit code 3 if a
    commit was interrupted and needs a person, if the state of a job is unknown, and on Ctrl-C.
    """
    try:
        status = _watch(dest, look, every, output)
    except KeyboardInterrupt:
        sys.exit(CommitCancelledError.exit_code)
    if is_unfinished(status) or any(job.state == "unknown" for job in status.jobs):
        sys.exit(CommitStateUnknownError.exit_code)


def _watch(
    dest: str, look: Callable[[], DestinationStatus], every: float, output: str
) -> DestinationStatus:
    show = partial(_show, output=output, every=every)
    status = look()
    show(status, status_lines(dest, status))
    while any(map(_may_go_on, status.jobs)):
        waiting.sleep(every)
        try:
            status = look()
        except (RayCommitterError, OSError) as e:
            what, advice = what_and_advice(e, "status")
            lines = (Text(f"{dest}: not seen: {what}", style="red"), f"  -> {advice}")
            error = {"error_id": error_id(e), "error_message": what, "error_advice": advice}
            show(error, lines)
        else:
            show(status, status_lines(dest, status))
    return status


def _may_go_on(job: JobSummary) -> bool:
    """Whether a process is at work on the commit of a job, or its tasks may still run."""
    return job.is_alive or job.state in ("running", "left")


def _show(value: object, lines: Iterable[Text | str], *, output: str, every: float) -> None:
    if output == "json":
        click.echo(to_json(value))
        return
    click.clear()  # does nothing if standard output is not a terminal
    now = datetime.now(UTC)
    print_lines([f"{now:%Y-%m-%d %H:%M:%S} UTC, every {seconds_text(every)}", *lines])
    if not sys.stdout.isatty():
        click.echo()
