"""A commit report as one paragraph, to paste into a chat or a ticket."""

from __future__ import annotations

from collections.abc import Iterator

from ray_committer.report.amounts import bytes_text, counted
from ray_committer.report.commit_report import CommitReport
from ray_committer.report.numbers import next_step, short_seconds, verdict
from ray_committer.report.run_texts import when_and_who

_MOST_FINDINGS = 5


def paragraph(report: CommitReport) -> str:
    """The verdict, the amounts, when, where and by whom, the findings, the error, the next command."""
    return " ".join(_sentences(report))


def _sentences(report: CommitReport) -> Iterator[str]:
    where = f": {report.destination}" if report.destination else ""
    yield f"Job {report.job_id} {verdict(report)}{where}."
    if report.files:
        yield f"{', '.join(_amounts(report))}."
    if when := when_and_who(report):
        yield f"{when[:1].upper()}{when[1:]}, ray_committer {report.versions.get('ray_committer', '')}."
    yield from report.findings[:_MOST_FINDINGS]
    if report.error:
        yield f"{report.error}."
    if report.command and (step := next_step(report)):
        yield f"{step.capitalize()}: {report.command}"


def _amounts(report: CommitReport) -> Iterator[str]:
    yield counted(report.files, "file")
    yield f"{bytes_text(report.bytes)} in {short_seconds(report.seconds)}"
    if rate := report.renames_per_second:
        yield f"{rate:,.0f} renames per second"
    if report.workers:
        noun, where = ("worker", " on Ray") if report.executor == "ray" else ("thread", "")
        yield counted(report.workers, noun) + where
