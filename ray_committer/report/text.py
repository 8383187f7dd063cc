"""A commit report as lines of text and as JSON, and the words that its page shares with the text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import msgspec

from ray_committer.protocol.commit_result import Outcome
from ray_committer.protocol.statistic_names import COMMIT_JOB
from ray_committer.report.amounts import bytes_text, counted, short_seconds
from ray_committer.report.progress import stage_name
from ray_committer.report.run_data import RunData
from ray_committer.report.whole import whole_texts

WIDTH = 80
UNKNOWN = "-"
_BAR = 28
_COLUMN = 20
_SHOWN_NOTICES = 20
_VERDICTS = {
    Outcome.COMMITTED: "is committed",
    Outcome.ALREADY_COMMITTED: "was already committed; nothing was left to do",
    Outcome.RECORDED: "is recorded; finish it with `ray-committer commit`",
}
_FAILED = {
    True: ("committed, but not to its end", "is committed, but its commit did not end"),
    False: ("NOT committed", "is NOT committed"),
    None: ("UNKNOWN whether committed", "may be committed or not"),
}
"""What became of the job of a run that failed, by whether it is committed: before and after its name."""


def report_text(report: RunData) -> str:
    """Return the report as one text, with its verdict."""
    return "\n".join([*report_lines(report), "", verdict_line(report)])


def report_json(report: RunData) -> str:
    """Return the report as one JSON object."""
    fields = msgspec.to_builtins(report)
    fields["renames_per_second"] = round(report.renames_per_second, 1)
    for row, fields_of_row in zip(report.worker_rows, fields["worker_rows"], strict=True):
        fields_of_row["files_per_second"] = round(row.files_per_second, 1)
    return msgspec.json.format(msgspec.json.encode(fields), indent=2).decode()


def report_lines(report: RunData) -> list[str]:
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
        lines += ["", *_number_lines(report)]
        lines += (line for text in detail_texts(report) for line in _wrapped(text))
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


def verdict_line(report: RunData) -> str:
    """Return what became of the job, with files, bytes and seconds, in one line."""
    done = report.moved + sum(report.proved.values())
    seconds = short_seconds(report.seconds)
    amount = f"{counted(report.files, 'file')}, {bytes_text(report.bytes)}, in {seconds}"
    if report.outcome is Outcome.FAILED:
        where = f", {done:,} of {report.files:,} files in place" if report.manifests else ""
        return f"{_FAILED[report.committed][0]}: job {report.job_id}{where}, after {seconds}"
    if report.committed_by is not None:
        return f"committed already as version {report.table_version:,}: run id {report.run_id}"
    if report.outcome is Outcome.ALREADY_COMMITTED:
        return f"already committed: job {report.job_id}"
    return f"{report.outcome.value}: job {report.job_id}, {amount}"


def verdict(report: RunData) -> str:
    """What became of the job, to follow its name."""
    if report.outcome is Outcome.FAILED:
        return _FAILED[report.committed][1]
    if report.committed_by is not None:
        return f"was given up: job {report.committed_by} had committed its work before"
    return _VERDICTS[report.outcome]


def six_numbers(report: RunData) -> list[tuple[str, str, str]]:
    """Files, bytes, time, rate, workers and requests: a label, the value, and a detail or nothing.

    The value is `UNKNOWN` if an old file does not have it.
    """
    proved, rate = sum(report.proved.values()), report.renames_per_second
    return [
        ("files", f"{report.files:,}", f"{proved:,} proved" if proved else ""),
        ("bytes", bytes_text(report.bytes), ""),
        ("time", short_seconds(report.seconds) if report.seconds else UNKNOWN, ""),
        ("files per second", f"{rate:,.0f}" if rate else UNKNOWN, ""),
        (
            "workers",
            f"{report.workers:,}" if report.workers else UNKNOWN,
            f"on {report.executor}" if report.executor else "",
        ),
        (
            "requests",
            f"{report.requests:,}" if report.requests else UNKNOWN,
            f"{report.throttled:,} throttled" if report.throttled else "",
        ),
    ]


def detail_texts(report: RunData) -> Iterator[str]:
    """What belongs to the six numbers, if there is something to say."""
    if report.manifests:
        yield (
            f"{report.files:,} files, {report.bytes:,} bytes, from {report.manifests:,} task manifests"
            + (f", into {report.directories:,} leaf directories" if report.directories else "")
        )
    if report.whole or report.by_file:
        text, *reasons = whole_texts(report.whole, report.whole_files, report.by_file)
        yield f"{text}; by file: {', '.join(reasons)}" if reasons else text
    if report.executor_reason and report.outcome is not Outcome.RECORDED:
        yield f"{report.moved:,} moved now, on {report.executor}: {report.executor_reason}"
    if report.dashboard:
        yield f"Ray shows its driver at {report.dashboard}"
    if report.replaced:
        yield f"{report.replaced:,} replaced files removed"
    if report.table_version is not None:
        yield f"version {report.table_version:,} of the table"
    if report.run_id is not None:
        yield f"run id {report.run_id}"
    if report.validated:
        yield f"{report.validated:,} files compared with their manifests"


def stage_seconds(report: RunData) -> list[tuple[str, float]]:
    """The names and seconds of the stages, of all that was done between them, and of the whole run."""
    rows = [
        (stage_name(stage), seconds)
        for stage, seconds in report.stage_seconds.items()
        if stage != COMMIT_JOB
    ]
    if report.seconds:
        within = sum(seconds for _, seconds in rows)
        rows += [("other", max(0.0, report.seconds - within)), ("total", report.seconds)]
    return rows


def run_texts(report: RunData) -> Iterator[str]:
    """When, where, by whom and how the commit was run, and the links but that to the destination."""
    if report.started_at:
        times = [
            at.replace("T", " ").replace("Z", " UTC") for at in (report.started_at, report.ended_at)
        ]
        host = f", on {report.host}" if report.host else ""
        yield f"from {times[0]} to {times[1]}{host}" + (f", by {report.user}" if report.user else "")
    if report.versions:
        yield ", ".join(f"{name} {version}" for name, version in report.versions.items())
    if report.options:
        yield f"options: {'; '.join(f'{name}={value}' for name, value in report.options.items())}"
    for name, link in report.links.items():
        if name != "destination":
            yield f"{name}: {link}"


def commands(report: RunData) -> list[tuple[str, str]]:
    """What is left to do, and the command that does it."""
    next_step = "commit it" if report.outcome is Outcome.RECORDED else ""
    if report.outcome is Outcome.FAILED or report.error:
        next_step = "run it again"
    steps = ((next_step, report.command), ("tell the catalog", report.catalog_command))
    return [(what, command) for what, command in steps if what and command]


def values_text(report: RunData) -> str:
    """The storage options that the commands need as well; their values may be secret."""
    options = report.storage_options
    return f"with your values of -o {', -o '.join(options)}" if options else ""


def _number_lines(report: RunData) -> list[str]:
    """Two rows of three numbers, each under its label."""
    cells = [
        (label, f"{value} ({detail})" if detail else value)
        for label, value, detail in six_numbers(report)
    ]
    rows = [line for three in (cells[:3], cells[3:]) for line in zip(*three, strict=True)]
    widths = [max(_COLUMN, *map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _stage_lines(report: RunData) -> list[str]:
    rows = stage_seconds(report)
    longest = max(seconds for _, seconds in rows) or 1.0
    lines = []
    for name, seconds in rows:
        bar = "#" * round(_BAR * seconds / longest)
        lines.append(f"  {name:<26}{seconds:>10.3f} s  {bar}".rstrip())
    return lines


def _command_lines(report: RunData) -> list[str]:
    if not (steps := commands(report)):
        return []
    lines = ["", *(f"  {what}: {command}" for what, command in steps)]
    return [*lines, *_wrapped(values_text(report))]


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
