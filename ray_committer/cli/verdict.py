"""The verdict of a commit, as the last line on the terminal."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial

import click

from ray_committer.protocol.commit_result import Outcome
from ray_committer.report.commit_report import CommitReport
from ray_committer.report.text import verdict_line

_COLOURS = {True: "green", False: "red", None: "yellow"}


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
