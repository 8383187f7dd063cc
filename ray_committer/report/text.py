"""A commit report as lines of text, and as JSON."""

from __future__ import annotations

import textwrap

import msgspec

from ray_committer.report.amounts import bytes_text, counted
from ray_committer.report.commit_report import CommitReport
from ray_committer.report.numbers import (
    next_step,
    short_seconds,
    six_numbers,
    stage_seconds,
    verdict,
    version_text,
)
from ray_committer.report.run_texts import run_texts
from ray_committer.stages.commit_result import Outcome

WIDTH = 80
_BAR = 28
_COLUMN = 20
_SHOWN_NOTICES = 20
_FAILED = {
    True: "committed, but not to its end",
    False: "NOT committed",
    None: "UNKNOWN whether committed",
}
"""What became of the job of a run that failed, by whether it is committed."""


def report_lines(report: CommitReport) -> list[str]:
    """Return the report in lines of at most 80 columns, except paths and commands, which are left whole.

    The lines are: the job, six numbers, findings, stages, the run, notes, and the command that runs the
    commit again. The verdict, `verdict_line`, belongs below them.
    """
    where = f": {report.destination}" if report.destination else ""
    lines = [f"job {report.job_id} {verdict(report)}{where}"]
    if report.source:
        lines += _wrapped(f"according to {report.source}")
    if report.resumed:
        lines.append("  an earlier run had begun this commit; it was continued")
    if report.files or report.manifests or report.source:
        lines += ["", *_number_lines(report), *_detail_lines(report)]
    if report.findings:
        lines += ["", *(line for text in report.findings for line in _wrapped(text, mark="* "))]
    if report.stage_seconds:
        lines += ["", *_stage_lines(report)]
    if run := list(run_texts(report)):
        lines += ["", *(line for text in run for line in _wrapped(text))]
    notes = [f"note: {notice}" for notice in report.notices[:_SHOWN_NOTICES]]
    if len(report.notices) > _SHOWN_NOTICES:
        notes.append(f"note: and {len(report.notices) - _SHOWN_NOTICES:,} more, in the JSON report")
    notes += [f"not in the file: {text}" for text in report.untold]
    if notes:
        lines += ["", *(line for note in notes for line in _wrapped(note))]
    if report.error:
        lines += ["", f"  {report.error}"]
    return [*lines, *_command_lines(report)]


def verdict_line(report: CommitReport) -> str:
    """Return what became of the job, with files, bytes and seconds, in one line."""
    done = report.moved + sum(report.proved.values())
    seconds = short_seconds(report.seconds)
    amount = f"{counted(report.files, 'file')}, {bytes_text(report.bytes)}, in {seconds}"
    if report.outcome is Outcome.FAILED:
        where = f", {done:,} of {report.files:,} files in place" if report.manifests else ""
        return f"{_FAILED[report.committed]}: job {report.job_id}{where}, after {seconds}"
    if report.outcome is Outcome.ALREADY_COMMITTED:
        return f"already committed: job {report.job_id}"
    return f"{report.outcome.value}: job {report.job_id}, {amount}"


def report_text(report: CommitReport) -> str:
    """Return the report as one text, with its verdict."""
    return "\n".join([*report_lines(report), "", verdict_line(report)])


def report_json(report: CommitReport) -> str:
    """Return the report as one JSON object."""
    fields = msgspec.to_builtins(report)
    fields["renames_per_second"] = round(report.renames_per_second, 1)
    for row, fields_of_row in zip(report.worker_rows, fields["worker_rows"], strict=True):
        fields_of_row["files_per_second"] = round(row.files_per_second, 1)
    return msgspec.json.format(msgspec.json.encode(fields), indent=2).decode()


def _number_lines(report: CommitReport) -> list[str]:
    """Two rows of three numbers, each under its label."""
    numbers = six_numbers(report)
    cells = [(one.label, f"{one.value} ({one.detail})" if one.detail else one.value) for one in numbers]
    rows = [line for three in (cells[:3], cells[3:]) for line in zip(*three, strict=True)]
    widths = [max(_COLUMN, *map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _detail_lines(report: CommitReport) -> list[str]:
    details = []
    if report.manifests:
        details.append(
            f"{report.files:,} files, {report.bytes:,} bytes, from {report.manifests:,} task "
            f"manifests, into {report.directories:,} leaf directories"
        )
    if report.executor_reason and report.outcome is not Outcome.RECORDED:
        details.append(f"{report.moved:,} moved now, on {report.executor}: {report.executor_reason}")
    if report.dashboard:
        details.append(f"Ray shows its driver at {report.dashboard}")
    if report.replaced:
        details.append(f"{report.replaced:,} replaced files removed")
    if (version := version_text(report)) is not None:
        details.append(version)
    if report.validated:
        details.append(f"{report.validated:,} files compared with their manifests")
    return [line for text in details for line in _wrapped(text)]


def _stage_lines(report: CommitReport) -> list[str]:
    rows = stage_seconds(report)
    longest = max(seconds for _, seconds in rows) or 1.0
    lines = []
    for name, seconds in rows:
        bar = "#" * round(_BAR * seconds / longest)
        lines.append(f"  {name:<26}{seconds:>10.3f} s  {bar}".rstrip())
    return lines


def _command_lines(report: CommitReport) -> list[str]:
    about = ((next_step(report), report.command), ("tell the catalog", report.catalog_command))
    commands = [f"  {what}: {command}" for what, command in about if what and command]
    if not commands:
        return []
    lines = ["", *commands]
    if report.storage_options:
        lines += _wrapped(f"with your values of -o {', -o '.join(report.storage_options)}")
    return lines


def _wrapped(text: str, *, mark: str = "") -> list[str]:
    """Wrap the text to 80 columns, except words that are longer."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=f"  {mark}",
        subsequent_indent="  " + " " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )
