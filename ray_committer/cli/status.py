"""``ray-committer status``: the state of a destination, once or until its jobs have ended."""

from __future__ import annotations

import re
from functools import partial

import click

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.print import print_result
from ray_committer.cli.status_lines import status_lines
from ray_committer.cli.watch import RETRY_SECONDS
from ray_committer.cli.watch import watch as watch_destination
from ray_committer.jobs.destination_status import destination_status
from ray_committer.options.texts import TIME
from ray_committer.stores.addresses import without_password

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
        watch_destination(shown, look, every=watch, output=output)
    else:
        status = look()
        print_result(output, status, status_lines(shown, status))
