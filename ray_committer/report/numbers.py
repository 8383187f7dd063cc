"""The verdict and the six numbers of a report, as words that every kind of report shows."""

from __future__ import annotations

from dataclasses import dataclass

from ray_committer.commit_report import CommitReport, Outcome

VERDICTS = {
    Outcome.COMMITTED: "is committed",
    Outcome.ALREADY_COMMITTED: "was already committed; nothing was left to do",
    Outcome.RECORDED: "is recorded; finish it with `ray-committer commit`",
    Outcome.FAILED: "is NOT committed",
}
UNKNOWN = "-"

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, slots=True)
class Number:
    """A number with its unit, what it is of, and a detail of it."""

    label: str
    value: str
    detail: str = ""


def six_numbers(report: CommitReport) -> list[Number]:
    """Files, bytes, time, rate, workers and requests; what an old file does not tell is `UNKNOWN`."""
    proved = sum(report.proved.values())
    return [
        Number("files", f"{report.files:,}", f"{proved:,} proved" if proved else ""),
        Number("bytes", human_bytes(report.bytes)),
        Number("time", human_seconds(report.seconds) if report.seconds else UNKNOWN),
        Number("renames a second", _rate(report)),
        Number("workers", f"{report.workers:,}" if report.workers else UNKNOWN, _where(report)),
        Number(
            "requests",
            f"{report.requests:,}" if report.requests else UNKNOWN,
            f"{report.throttled:,} throttled" if report.throttled else "",
        ),
    ]


def human_bytes(number: int) -> str:
    """Bytes in the unit that leaves at most four digits."""
    value, unit = float(number), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{number:,} {_UNITS[0]}" if unit == 0 else f"{value:,.1f} {_UNITS[unit]}"


def human_seconds(seconds: float) -> str:
    """Seconds, or minutes and hours once those are easier to grasp."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {left:02} s"


def _rate(report: CommitReport) -> str:
    rate = report.renames_per_second
    return f"{rate:,.0f}" if rate else UNKNOWN


def _where(report: CommitReport) -> str:
    return f"on {report.executor}" if report.executor else ""
