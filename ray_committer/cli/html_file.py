"""``--html FILE``: the report as a page, in addition to the output of a command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ray_committer.report.commit_report import CommitReport


class _NewFile(click.Path):
    """A file that can be written or, if it is not there, made; looked at before anything is done."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        file = Path(os.fsdecode(path))
        can_be_made = file.parent.is_dir() and os.access(file.parent, os.W_OK | os.X_OK)
        if not (file.exists() or can_be_made):
            self.fail(f"no file can be written into {file.parent}", param, ctx)
        return path


html_option = click.option(
    "--html",
    "html_file",
    metavar="FILE",
    type=_NewFile(dir_okay=False, writable=True),
    help="Also write the report to FILE, as one HTML page.",
)


def write_html(report: CommitReport, html_file: str | None) -> None:
    """Write the page if a file is given. If it cannot be written, that is printed, but nothing fails:
    the commit itself is done."""
    if html_file is None:
        return
    from ray_committer.report.html import report_html  # most commits write no page

    try:
        Path(html_file).write_text(report_html(report), encoding="utf-8")
    except OSError as e:
        click.echo(
            f"ray-committer: {html_file}: the report could not be written ({e.strerror})", err=True
        )
