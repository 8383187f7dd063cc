"""A commit report as lines of text, and as JSON."""

from __future__ import annotations

import textwrap

import msgspec

from ray_committer.report.commit_report import CommitReport
from ray_committer.report.numbers import VERDICTS, next_step, six_numbers, version_text
from ray_committer.report.progress import stage_name
from ray_committer.stages.commit_result import Outcome

WIDTH = 80
_BAR = 28
_COLUMN = 20
_SHOWN_NOTICES = 20


def report_lines(report: CommitReport) -> list[str]:
    """Return the report in lines of at most 80 columns, except paths and commands, which are left whole.

    The lines are: verdict, six numbers, findings, stages, notes, and the command that runs the commit
    again.
    """
    where = f": {report.destination}" if report.destination else ""
    lines = [f"job {report.job_id} {VERDICTS[report.outcome]}{where}"]
    if report.source:
        lines += _wrapped(f"according to {report.source}")
    if report.resumed:
        lines.append("  an earlier run had begun this commit; it was continued")
    if report.files or report.manifests or report.source:
        lines += ["", *_number_lines(report), *_detail_lines(report)]
    if report.findings:
        lines += ["", *(line for text in report.findings for line in _wrapped(text, mark="* "))]
    if report.stages or report.stage_seconds:
        lines += ["", *_stage_lines(report)]
    notes = [f"note: {notice}" for notice in report.notices[:_SHOWN_NOTICES]]
    if len(report.notices) > _SHOWN_NOTICES:
        notes.append(f"note: and {len(report.notices) - _SHOWN_NOTICES:,} more, in the JSON report")
    notes += [f"not in the file: {text}" for text in report.untold]
    if notes:
        lines += ["", *(line for note in notes for line in _wrapped(note))]
    if report.error:
        lines += ["", f"  {report.error}"]
    return [*lines, *_command_lines(report)]


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
    longest = max(report.stage_seconds.values(), default=0.0) or 1.0
    lines = []
    for stage, seconds in report.stage_seconds.items():
        bar = "#" * round(_BAR * seconds / longest)
        lines.append(f"  {stage_name(stage):<26}{seconds:>10.3f} s  {bar}".rstrip())
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
