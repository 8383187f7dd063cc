"""A commit report as one HTML file: no script, no network, below 200 KB, for light and dark.

Each text is cut at a maximum length, so that no text from a store or a cluster makes the file too large.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ray_committer.protocol.commit_result import Outcome
from ray_committer.protocol.statistic_names import COMMIT_JOB, RENAME_FILES
from ray_committer.report.amounts import bytes_text, short_seconds
from ray_committer.report.findings import stragglers
from ray_committer.report.html_style import PAGE_STYLE, STYLE
from ray_committer.report.progress import stage_name
from ray_committer.report.run_data import RunData, StageRow, WorkerRow
from ray_committer.report.text import (
    commands,
    detail_texts,
    run_texts,
    six_numbers,
    values_text,
    verdict,
)
from ray_committer.version import __version__

MOST_ROWS = 200
_SEEN_ROWS = 20  # the others are folded
_MOST_SENTENCES = 30
_MOST_FACTS = 10
_SENTENCE, _NAME, _LONG = 600, 120, 4000  # bytes, as they are written

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head><body>
"""


def report_html(report: RunData) -> str:
    """Return the report as a whole page."""
    title = _text(f"job {report.job_id} {verdict(report)}", _NAME)
    return f"{_HEAD.format(title=title, style=PAGE_STYLE)}{report_fragment(report)}\n</body></html>\n"


def report_fragment(report: RunData) -> str:
    """Return the report with its style, for use inside another page, such as a notebook."""
    parts = [
        _verdict(report),
        _numbers(report),
        _list("Findings", report.findings or ([] if report.source else ["Nothing unusual happened."])),
        _section("Stages", _stages(report)),
        _section("Files in place over time", _curve(report)),
        _section("Workers, slowest first", _workers(report)),
        _list("Notes", report.notices),
        _list("Not in the file", report.untold),
        _list("This run", list(run_texts(report))[:_MOST_FACTS]),
        *(_section(what.capitalize(), _command(command, report)) for what, command in commands(report)),
        f'<footer class="soft">ray-committer {escape(__version__)}</footer>',
    ]
    return f'<style>{STYLE}</style><article class="rc">{"".join(parts)}</article>'


def _verdict(report: RunData) -> str:
    failed = report.outcome is Outcome.FAILED
    lines = [
        f"<h1>{'&#10007;' if failed else '&#10003;'} Job {_text(report.job_id, _NAME)} "
        f"{_text(verdict(report), _NAME)}</h1>"
    ]
    if report.destination:
        lines.append(f"<p>{_text(report.destination, _LONG)}</p>")
    if report.source:
        lines.append(f'<p class="soft">According to {_text(report.source, _LONG)}</p>')
    if report.resumed:
        lines.append("<p>An earlier run had begun this commit; it was continued.</p>")
    if report.error:
        lines.append(f'<p class="error">{_text(report.error, _LONG)}</p>')
    return f'<header class="verdict{" failed" if failed else ""}">{"".join(lines)}</header>'


def _numbers(report: RunData) -> str:
    cards = [
        f"<div><dt>{label}</dt><dd>{value}<small>{_text(detail, _NAME)}</small></dd></div>"
        for label, value, detail in six_numbers(report)
    ]
    details = [f'<p class="soft">{_detail(text, report)}</p>' for text in detail_texts(report)]
    return f"<dl>{''.join(cards)}</dl>{''.join(details)}"


def _detail(text: str, report: RunData) -> str:
    """A detail; the address of a dashboard is a link, if it is safe for a reader to follow."""
    before, address, _ = text.partition(report.dashboard or "\n")
    if not address.startswith(("http://", "https://")) or len(address) > _NAME:
        return _text(text, _SENTENCE)
    return f'{escape(before)}<a href="{escape(address)}">{escape(address)}</a>'


def _stages(report: RunData) -> str:
    """One bar per stage, from its begin to its end; one after the other if these are not known."""
    rows = [row for row in report.stages if row.stage != COMMIT_JOB] or list(report.stages)
    begun, at = list[tuple[StageRow, float]](), 0.0
    for row in rows:
        begun.append((row, at if row.began is None else row.began))
        at = begun[-1][1] + row.seconds
    end = max(at, report.seconds, 0.001)
    body = []
    for row, began in begun:
        left, width = min(99.6, 100 * began / end), max(0.4, 100 * row.seconds / end)
        body.append(
            f"<tr{' class=failed' if row.error else ''}><td>{_text(stage_name(row.stage), _NAME)}</td>"
            f'<td class="bar"><i style="margin-left:{left:.2f}%;width:{width:.2f}%"></i></td>'
            f"<td>{short_seconds(row.seconds)}{', failed' if row.error else ''}</td></tr>"
        )
    return f"<table><tbody>{''.join(body)}</tbody></table>" if body else ""


def _curve(report: RunData) -> str:
    """A line, with the spans of throttling and the moments at which workers were lost."""
    if len(report.files_at) < 3:
        return ""
    begin, end = report.files_at[0][0], report.files_at[-1][0]
    top = max(files for _, files in report.files_at) or 1

    def percent(at: float) -> float:
        return round(min(100.0, max(0.0, 100 * (at - begin) / max(end - begin, 0.001))), 2)

    spans = [
        f'<rect class="span" x="{percent(span.began)}" y="0" height="100" '
        f'width="{max(0.4, percent(span.last) - percent(span.began)):.2f}"/>'
        for span in report.throttled_spans
        if span.last >= begin and span.began <= end
    ]
    lost = [
        f'<path class="lost" d="M{percent(lost_worker.seconds)} 0V100"/>'
        for lost_worker in report.lost_workers
        if begin <= lost_worker.seconds <= end
    ]
    points = " ".join(f"{percent(at)},{100 - 100 * files / top:.2f}" for at, files in report.files_at)
    captions = [f"{top:,} files from {short_seconds(begin)} to {short_seconds(end)}"]
    if seconds := report.stage_seconds.get(RENAME_FILES):
        rate = f"{report.renames_per_second:,.0f} per second"
        captions.append(f"on average {rate} for {short_seconds(seconds)}")
    captions += ["shaded: the store throttled"] if spans else []
    captions += ["dashed: a worker was lost"] if lost else []
    return (
        '<svg role="img" aria-label="Files in place over time" viewBox="0 0 100 100" '
        f'preserveAspectRatio="none">{"".join(spans)}<polyline points="{points}"/>{"".join(lost)}</svg>'
        f'<p class="soft">{"; ".join(captions)}</p>'
    )


def _workers(report: RunData) -> str:
    """The slowest workers, and the others folded."""
    rows = sorted(report.worker_rows, key=lambda row: row.files_per_second)
    if not rows:
        return ""
    slow = {(straggler.row.worker, straggler.row.process) for straggler in stragglers(report)}
    best = max(row.files_per_second for row in rows) or 1.0
    body = [_worker(row, best, (row.worker, row.process) in slow) for row in rows[:MOST_ROWS]]
    parts = [_worker_table(body[:_SEEN_ROWS])]
    if rest := body[_SEEN_ROWS:]:
        folded = f"<summary>{len(rest):,} faster workers</summary>{_worker_table(rest)}"
        parts.append(f"<details>{folded}</details>")
    missing = max(0, len(rows) - MOST_ROWS) + report.dropped.get("worker_rows", 0)
    if missing:
        parts.append(f'<p class="soft">{missing:,} even faster workers are not in this file.</p>')
    return "".join(parts)


def _worker_table(body: Sequence[str]) -> str:
    return (
        '<table><thead><tr><th>worker</th><th>files/s</th><th>files</th><th class="wide">bytes</th>'
        '<th class="wide">shards</th><th>busy</th><th>retries</th><th class="wide">throttled</th></tr>'
        f"</thead><tbody>{''.join(body)}</tbody></table>"
    )


def _worker(row: WorkerRow, best: float, is_slow: bool) -> str:
    tag = ' <span class="tag">lost</span>' if row.lost else ""
    if is_slow:
        tag += ' <span class="tag slow">slow</span>'
    width = max(1.0, 100 * row.files_per_second / best)
    return (
        f"<tr{' class=slow' if is_slow else ''}><td>{_text(row.worker, _NAME)}{tag}"
        f"<small>{_text(row.node, _NAME)}, {row.process}</small></td>"
        f'<td class="meter">{row.files_per_second:,.0f}<i style="width:{width:.0f}%"></i></td>'
        f'<td>{row.files:,}</td><td class="wide">{bytes_text(row.bytes)}</td>'
        f'<td class="wide">{row.shards:,}</td><td>{short_seconds(row.busy)}</td>'
        f'<td>{row.retries:,}</td><td class="wide">{row.throttled:,}</td></tr>'
    )


def _command(command: str, report: RunData) -> str:
    note = f'<p class="soft">{_text(values_text(report), _SENTENCE)}</p>'
    return f"<pre>{_text(command, _LONG)}</pre>{note if report.storage_options else ''}"


def _section(title: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{body}</section>" if body else ""


def _list(title: str, sentences: Sequence[str]) -> str:
    if not sentences:
        return ""
    items = [f"<li>{_text(text, _SENTENCE)}</li>" for text in sentences[:_MOST_SENTENCES]]
    if len(sentences) > _MOST_SENTENCES:
        items.append(f"<li>and {len(sentences) - _MOST_SENTENCES:,} more, in the JSON report</li>")
    return _section(title, f"<ul>{''.join(items)}</ul>")


def _text(text: str, most_bytes: int) -> str:
    """Escape text for HTML, in at most `most_bytes` bytes; a text that is cut ends with dots."""
    size, kept = 0, list[str]()
    for character in text:
        # Character by character, so that an escape is never cut in its middle. Halves of surrogate
        # pairs, which names of local files can hold, become question marks.
        written = escape(character).encode("utf-8", "replace").decode()
        size += len(written.encode())
        if size > most_bytes:
            return f"{''.join(kept)}&hellip;"
        kept.append(written)
    return "".join(kept)
