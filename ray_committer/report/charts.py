"""The charts of the HTML report, as inline SVG that keeps its text's size at any width.

Places along the width are percentages, so nothing is scaled; only the curve is stretched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise

from ray_committer.protocol.statistic_names import COMMIT_JOB, RENAME_FILES
from ray_committer.report.commit_report import CommitReport, StageRow
from ray_committer.report.numbers import short_seconds
from ray_committer.report.progress import stage_name

_ROW = 38
_HEIGHT = 130
_CURVE = 1000


def timeline(report: CommitReport) -> str:
    """One bar per stage, from its begin to its end; one after the other if these are not known."""
    rows = [row for row in report.stages if row.stage != COMMIT_JOB] or list(report.stages)
    if not rows:
        return ""
    began = _begins(rows)
    end = max(*(at + row.seconds for at, row in zip(began, rows, strict=True)), report.seconds, 0.001)
    parts = [
        _stage(row, number * _ROW, 100 * at / end, 100 * row.seconds / end)
        for number, (at, row) in enumerate(zip(began, rows, strict=True))
    ]
    height = len(rows) * _ROW
    return (
        f'<svg role="img" aria-label="Stages" height="{height}">{"".join(parts)}</svg>'
        f'<p class="soft">0 to {short_seconds(end)}</p>'
    )


def rate_chart(report: CommitReport) -> str:
    """Files put in place per second over time, with the spans of throttling and lost workers."""
    points = _rates(report.files_at)
    if len(points) < 3:
        return ""
    begin, end = points[0][0], points[-1][0]
    top = max(rate for _, rate in points) or 1.0

    def percent(at: float) -> float:
        return min(100.0, max(0.0, 100 * (at - begin) / (end - begin)))

    marks = [
        _span(percent(span.began), percent(span.last))
        for span in report.throttled_spans
        if span.last >= begin and span.began <= end
    ]
    marks += [_lost(percent(one.seconds)) for one in report.lost_workers if begin <= one.seconds <= end]
    return (
        f'<svg role="img" aria-label="Files in place per second" height="{_HEIGHT + 24}">'
        f'<text class="soft" y="12">{top:,.0f} files per second</text>'
        f'<svg y="20" height="{_HEIGHT - 20}" viewBox="0 0 {_CURVE} {_CURVE}" '
        f'preserveAspectRatio="none"><path class="rate" vector-effect="non-scaling-stroke" '
        f'd="{_curve(points, percent, top)}"/></svg>'
        f'{"".join(marks)}<line class="axis" x1="0" x2="100%" y1="{_HEIGHT}" y2="{_HEIGHT}"/>'
        f'<text class="soft" y="{_HEIGHT + 18}">{short_seconds(begin)}</text>'
        f'<text class="soft" x="100%" y="{_HEIGHT + 18}" text-anchor="end">{short_seconds(end)}</text>'
        f"</svg>{_legend(report)}"
    )


def _begins(rows: Sequence[StageRow]) -> list[float]:
    found, at = [], 0.0
    for row in rows:
        found.append(row.began if row.began is not None else at)
        at = found[-1] + row.seconds
    return found


def _stage(row: StageRow, y: int, left: float, width: float) -> str:
    kind = "bar failed" if row.error else "bar"
    name = escape(stage_name(row.stage)[:40])
    told = f"{short_seconds(row.seconds)}{', failed' if row.error else ''}"
    return (
        f'<text y="{y + 14}">{name}</text>'
        f'<text class="soft" x="100%" y="{y + 14}" text-anchor="end">{told}</text>'
        f'<rect class="track" x="0" y="{y + 20}" width="100%" height="8" rx="2"/>'
        f'<rect class="{kind}" x="{min(left, 99.6):.2f}%" y="{y + 20}" width="{max(width, 0.4):.2f}%" '
        f'height="8" rx="2"/>'
    )


def _rates(files_at: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Times, each with the rate since the time before it."""
    found = [(at, 0.0) for at, _ in files_at[:1]]
    for (began, before), (at, files) in pairwise(files_at):
        found.append((at, (files - before) / max(at - began, 0.001)))
    return found


def _curve(points: list[tuple[float, float]], percent: Callable[[float], float], top: float) -> str:
    """One step per bin, as high as the rate in it."""
    path = [f"M0 {_CURVE}"]
    for at, rate in points[1:]:
        y = round(_CURVE * (1 - rate / top))
        path.append(f"V{y}H{percent(at) * _CURVE / 100:.0f}")
    return "".join([*path, f"V{_CURVE}Z"])


def _span(left: float, right: float) -> str:
    width = max(0.4, right - left)
    return (
        f'<rect class="span" x="{min(left, 99.6):.2f}%" y="20" width="{width:.2f}%" '
        f'height="{_HEIGHT - 20}"/>'
    )


def _lost(at: float) -> str:
    return f'<line class="lost" x1="{at:.2f}%" x2="{at:.2f}%" y1="20" y2="{_HEIGHT}"/>'


def _legend(report: CommitReport) -> str:
    told = []
    if report.throttled_spans:
        told.append("shaded: the store throttled")
    if report.lost_workers:
        told.append("dashed: a worker was lost")
    seconds = report.stage_seconds.get(RENAME_FILES)
    if seconds:
        told.insert(0, f"on average {report.renames_per_second:,.0f} for {short_seconds(seconds)}")
    return f'<p class="soft">{"; ".join(told)}</p>' if told else ""
