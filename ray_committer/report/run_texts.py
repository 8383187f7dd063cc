"""When, where, by whom and how a commit was run, in the words that every kind of report shows."""

from __future__ import annotations

from collections.abc import Iterator

from ray_committer.report.commit_report import CommitReport


def run_texts(report: CommitReport) -> Iterator[str]:
    """One text each: time and place, versions, options, and each link but the destination, which every
    report begins with."""
    if when := when_and_who(report):
        yield when
    if report.versions:
        yield ", ".join(f"{name} {version}" for name, version in report.versions.items())
    if report.options:
        yield f"options: {'; '.join(f'{name}={value}' for name, value in report.options.items())}"
    for name, link in report.links.items():
        if name != "destination":
            yield f"{name}: {link}"


def when_and_who(report: CommitReport) -> str:
    """``from 2026-11-27 08:00:00 UTC to 2026-11-27 08:00:09 UTC, on a host, by a user``."""
    if not report.started_at:
        return ""
    parts = [f"from {_utc(report.started_at)} to {_utc(report.ended_at)}"]
    parts += [f"on {report.host}"] if report.host else []
    parts += [f"by {report.user}"] if report.user else []
    return ", ".join(parts)


def _utc(moment: str) -> str:
    return moment.replace("T", " ").replace("Z", " UTC")
