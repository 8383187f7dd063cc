"""``--html FILE``: the report as a page, in addition to the output of a command."""

from __future__ import annotations

from pathlib import Path

import click

from ray_committer.report.commit_report import CommitReport

html_option = click.option(
    "--html",
    "html_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True),
    help="Also write the report to FILE, as one HTML page.",
)


def write_html(report: CommitReport, html_file: str | None) -> None:
    """Write the page if a file is given.

    If the page cannot be written, that is printed, but nothing fails: the commit itself is done.
    """
    if html_file is None:
        return
    from ray_committer.report.html import report_html  # most commits write no page

    try:
        Path(html_file).write_text(report_html(report), encoding="utf-8")
    except OSError as e:
        click.echo(
            f"ray-committer: {html_file}: the report could not be written ({e.strerror})", err=True
        )
