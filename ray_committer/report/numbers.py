"""The verdict and the six numbers of a report, in the words that every kind of report shows."""

from __future__ import annotations

from dataclasses import dataclass

from ray_committer.protocol.statistic_names import COMMIT_JOB
from ray_committer.report.amounts import bytes_text, seconds_text
from ray_committer.report.commit_report import CommitReport
from ray_committer.report.progress import stage_name
from ray_committer.stages.commit_result import Outcome

_VERDICTS = {
    Outcome.COMMITTED: "is committed",
    Outcome.ALREADY_COMMITTED: "was already committed; nothing was left to do",
    Outcome.RECORDED: "is recorded; finish it with `ray-committer commit`",
    Outcome.FAILED: "is NOT committed",
}
_BUT_FAILED = {True: "is committed, but its commit did not end", None: "may be committed or not"}
UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class Number:
    """A number: its label, its value with the unit, and a detail."""

    label: str
    value: str
    detail: str = ""


def six_numbers(report: CommitReport) -> list[Number]:
    """Files, bytes, time, rate, workers and requests; `UNKNOWN` if an old file does not have it."""
    proved = sum(report.proved.values())
    return [
        Number("files", f"{report.files:,}", f"{proved:,} proved" if proved else ""),
        Number("bytes", bytes_text(report.bytes)),
        Number("time", short_seconds(report.seconds) if report.seconds else UNKNOWN),
        Number("renames per second", _rate(report)),
        Number("workers", f"{report.workers:,}" if report.workers else UNKNOWN, _where(report)),
        Number(
            "requests",
            f"{report.requests:,}" if report.requests else UNKNOWN,
            f"{report.throttled:,} throttled" if report.throttled else "",
        ),
    ]


def verdict(report: CommitReport) -> str:
    """What became of the job, to follow its name."""
    if report.outcome is Outcome.FAILED and report.committed is not False:
        return _BUT_FAILED[report.committed]
    return _VERDICTS[report.outcome]


def stage_seconds(report: CommitReport) -> list[tuple[str, float]]:
    """The names and seconds of the stages, of all that was done between them, and of the whole run."""
    found = [
        (stage_name(stage), seconds)
        for stage, seconds in report.stage_seconds.items()
        if stage != COMMIT_JOB
    ]
    if report.seconds:
        within = sum(seconds for _, seconds in found)
        found += [("other", max(0.0, report.seconds - within)), ("total", report.seconds)]
    return found


def next_step(report: CommitReport) -> str:
    """What the report's command is for; empty if nothing is left to do."""
    if report.outcome is Outcome.FAILED or report.error:
        return "run it again"
    return "commit it" if report.outcome is Outcome.RECORDED else ""


def version_text(report: CommitReport) -> str | None:
    """The version of the table with a log that the job was committed as; None without such a table."""
    if report.table_version is None:
        return None
    write_id = "" if report.write_id is None else f", write id {report.write_id:,}"
    return f"version {report.table_version:,} of the table{write_id}"


def short_seconds(seconds: float) -> str:
    """Seconds with as many digits as matter, or minutes and hours if these are easier to read."""
    if seconds < 9.995:
        return f"{seconds:.2f} s"
    return f"{seconds:.1f} s" if seconds < 90 else seconds_text(seconds)


def _rate(report: CommitReport) -> str:
    rate = report.renames_per_second
    return f"{rate:,.0f}" if rate else UNKNOWN


def _where(report: CommitReport) -> str:
    return f"on {report.executor}" if report.executor else ""
