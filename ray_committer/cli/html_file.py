"""``--html FILE``: the report as a page, beside what a command prints."""

from __future__ import annotations

from pathlib import Path

import click

from ray_committer.commit_report import CommitReport

html_option = click.option(
    "--html",
    "html_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True),
    help="Write the report to FILE, too, as one HTML page.",
)


def write_html(report: CommitReport, html_file: str | None) -> None:
    """Write the page if a file was named for it.

    A page that cannot be written is told of and fails nothing, since what it reports of is done.
    """
    if html_file is None:
        return
    from ray_committer.report.html import report_html  # most commits print no page

    try:
        Path(html_file).write_text(report_html(report), encoding="utf-8")
    except OSError as e:
        click.echo(
            f"ray-committer: {html_file}: the report could not be written ({e.strerror})", err=True
        )
