"""``ray-committer status``: the state of a destination, once or until its jobs have ended.

With ``--watch``, on a terminal each look replaces the one before. Elsewhere, as in the log of a
scheduler, each is a block of its own or, with ``--output json``, a line.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial

import click
from rich.text import Text

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.document import to_json
from ray_committer.cli.errors import error_id, what_and_advice
from ray_committer.cli.print import print_lines, print_result
from ray_committer.cli.status_lines import is_unfinished, status_lines
from ray_committer.errors import CommitCancelledError, CommitStateUnknownError, RayCommitterError
from ray_committer.jobs.destination_status import DestinationStatus, destination_status
from ray_committer.jobs.list_jobs import JobSummary
from ray_committer.limits import waiting
from ray_committer.options.texts import TIME
from ray_committer.report.amounts import seconds_text
from ray_committer.stores.addresses import without_password

RETRY_SECONDS = 10.0
"""How long a look repeats a request: better an error that is shown than a picture that stands still."""
_EVERY = "5s"


class _StatusCommand(Command):
    """The command; DEST can follow ``--watch``, whose time can be left out."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        after = [*args[1:], ""]
        for place, word in enumerate(args):
            if word == "--watch" and not re.match("[0-9.]", after[place]):
                args[place] = f"--watch={_EVERY}"
        return super().parse_args(ctx, args)


@click.command(cls=_StatusCommand)
@click.argument("destination", metavar="DEST")
@click.option(
    "--exact",
    is_flag=True,
    help="Read every manifest, and count the files still to be moved: two requests per task.",
)
@click.option(
    "--watch",
    type=shared.Value(TIME, 1),
    metavar="[TIME]",
    help=f"Show it again after this time ({_EVERY}), until no process is, or may be, at work on a job. "
    "The exit code is then 0, or 3 if a commit was interrupted or a job cannot be read.",
)
@shared.at_store(*shared.REQUESTS)
def status(destination: str, exact: bool, watch: float | None, output: str, how: shared.How) -> None:
    """Show the state of DEST: its last commit, its jobs, and leftovers.

    The last commit is that in DEST/_SUCCESS or, in a table with a log, in its log. Leftovers are the
    directories of other committers, whether they have died or are at work, and of clean-ups that were
    stopped.

    For a commit that has begun, the output shows when it began, how many files were moved at the last
    sign of life, and which command continues it. It also shows which process is at work on the commit,
    or that the process that began it has stopped. This costs a listing of DEST, not of its directories,
    and a few requests per job.

    Without --exact, the files and bytes of a job without a commit record are estimated from its largest
    manifest, and the number of files still to move is not known.

    On S3, the output also has the jobs that Hadoop's S3A committer left below DEST/__magic.
    """
    options = how["options"]
    if watch is not None:
        how["options"] = options.changed(retry_seconds=min(options.retry_seconds, RETRY_SECONDS))
    look = partial(destination_status, destination, exact=exact, **how)
    shown = without_password(destination)
    if watch is not None:
        watch_jobs(shown, look, every=watch, output=output)
    else:
        status = look()
        print_result(output, status, status_lines(shown, status))


def watch_jobs(dest: str, look: Callable[[], DestinationStatus], *, every: float, output: str) -> None:
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
