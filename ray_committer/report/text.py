"""A commit report as lines of text, and as JSON."""

from __future__ import annotations

import msgspec

from ray_committer.commit_report import CommitReport, Outcome

_VERDICTS = {
    Outcome.COMMITTED: "is committed",
    Outcome.ALREADY_COMMITTED: "was already committed; nothing was left to do",
    Outcome.RECORDED: "is recorded; finish it with `ray-committer commit`",
    Outcome.FAILED: "is NOT committed",
}
_STAGE_PREFIXES = ("job_stage_", "committer_")


def report_lines(report: CommitReport) -> list[str]:
    """The report in sentences and a line a stage, at most 105 columns but for paths."""
    lines = [f"job {report.job_id} {_VERDICTS[report.outcome]}: {report.destination}"]
    if report.resumed:
        lines.append("  an earlier run had begun this commit; it was continued")
    if report.manifests:
        lines.append(
            f"  {report.files:,} files, {report.bytes:,} bytes, from {report.manifests:,} task "
            f"manifests, into {report.directories:,} leaf directories"
        )
    if report.files and report.outcome is not Outcome.RECORDED:
        lines.append(
            f"  {report.moved:,} moved now at {report.renames_per_second:,.0f} a second on "
            f"{report.executor} ({report.workers} workers; {report.executor_reason})"
        )
    for proof, number in sorted(report.proved.items()):
        lines.append(f"  {number:,} had been moved before, proved by {proof}")
    if report.replaced:
        lines.append(f"  {report.replaced:,} replaced files removed")
    if report.validated:
        lines.append(f"  {report.validated:,} files compared with their manifests")
    lines.extend(_stage_lines(report))
    lines.extend(f"  note: {notice}" for notice in report.notices)
    if report.error:
        lines.append(f"  {report.error}")
    return lines


def report_json(report: CommitReport) -> str:
    """The report as one JSON object."""
    fields = msgspec.to_builtins(report)
    fields["renames_per_second"] = round(report.renames_per_second, 1)
    return msgspec.json.format(msgspec.json.encode(fields), indent=2).decode()


def _stage_lines(report: CommitReport) -> list[str]:
    lines = []
    for stage, seconds in report.stage_seconds.items():
        name = stage
        for prefix in _STAGE_PREFIXES:
            name = name.removeprefix(prefix)
        lines.append(f"    {name:<26}{seconds:>9.3f} s")
    return lines
