"""A commit report as one HTML file: no script, no network, below 200 KB, for light and dark.

Each text is cut at a maximum length, so that no text from a store or a cluster makes the file too large.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from statistics import median

from ray_committer.report.amounts import bytes_text, counted
from ray_committer.report.charts import rate_chart, timeline
from ray_committer.report.commit_report import CommitReport, WorkerRow
from ray_committer.report.findings import stragglers
from ray_committer.report.html_style import PAGE_STYLE, STYLE
from ray_committer.report.numbers import next_step, short_seconds, six_numbers, verdict, version_text
from ray_committer.report.paragraph import paragraph
from ray_committer.report.run_texts import run_texts
from ray_committer.stages.commit_result import Outcome
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


def report_html(report: CommitReport) -> str:
    """Return the report as a whole page."""
    title = _text(f"job {report.job_id} {verdict(report)}", _NAME)
    return f"{_HEAD.format(title=title, style=PAGE_STYLE)}{report_fragment(report)}\n</body></html>\n"


def report_fragment(report: CommitReport) -> str:
    """Return the report with its style, for use inside another page, such as a notebook."""
    parts = [
        _verdict(report),
        _numbers(report),
        _list("Findings", report.findings or ([] if report.source else ["Nothing unusual happened."])),
        _section("Stages", timeline(report)),
        _section("Renames over time", rate_chart(report)),
        _section("Workers, slowest first", _workers(report)),
        _section("Threads", _threads(report)),
        _section("Proved renames", _proofs(report)),
        _list("Notes", report.notices),
        _list("Not in the file", report.untold),
        _list("This run", list(run_texts(report))[:_MOST_FACTS]),
        _section(next_step(report).capitalize(), _command(report)),
        _section("To paste into a chat", f"<p>{_text(paragraph(report), _LONG)}</p>"),
        f'<footer class="soft">ray-committer {escape(__version__)}</footer>',
    ]
    return f'<style>{STYLE}</style><article class="rc">{"".join(parts)}</article>'


def _verdict(report: CommitReport) -> str:
    failed = report.outcome is Outcome.FAILED
    lines = [
        f"<h1>{'&#10007;' if failed else '&#10003;'} Job {_text(report.job_id, _NAME)} "
        f"{_text(verdict(report), _NAME)}</h1>",
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


def _numbers(report: CommitReport) -> str:
    cards = []
    for one in six_numbers(report):
        detail = f"<small>{_text(one.detail, _NAME)}</small>" if one.detail else ""
        cards.append(f"<div><dt>{one.label}</dt><dd>{one.value}{detail}</dd></div>")
    return f"<dl>{''.join(cards)}</dl>{_details(report)}"


def _details(report: CommitReport) -> str:
    told = []
    if report.manifests:
        told.append(
            f"{report.files:,} files, {report.bytes:,} bytes, from {report.manifests:,} task "
            f"manifests, into {report.directories:,} leaf directories"
        )
    if report.executor_reason:
        told.append(f"on {report.executor}: {report.executor_reason}")
    if report.replaced:
        told.append(f"{report.replaced:,} replaced files removed")
    if (version := version_text(report)) is not None:
        told.append(version)
    if report.validated:
        told.append(f"{report.validated:,} files compared with their manifests")
    text = f'<p class="soft">{_text("; ".join(told), _SENTENCE)}</p>' if told else ""
    return text + _dashboard(report)


def _dashboard(report: CommitReport) -> str:
    """A link, if it is safe for a reader to follow."""
    if not report.dashboard.startswith(("http://", "https://")) or len(report.dashboard) > _NAME:
        return ""
    url = escape(report.dashboard, quote=True)
    return f'<p class="soft">Ray shows its driver at <a href="{url}">{url}</a></p>'


def _workers(report: CommitReport) -> str:
    rows = sorted(report.worker_rows, key=lambda row: row.files_per_second)
    if not rows or report.executor != "ray":
        return ""
    slow = {(one.row.worker, one.row.process) for one in stragglers(report)}
    best = max(row.files_per_second for row in rows) or 1.0
    body = [_worker(row, best, (row.worker, row.process) in slow) for row in rows[:MOST_ROWS]]
    parts = [_worker_table(body[:_SEEN_ROWS])]
    if rest := body[_SEEN_ROWS:]:
        parts.append(
            f"<details><summary>{len(rest):,} faster workers</summary>{_worker_table(rest)}</details>"
        )
    missing = max(0, len(rows) - MOST_ROWS) + report.dropped.get("worker_rows", 0)
    if missing:
        parts.append(f'<p class="soft">{missing:,} even faster workers are not in this file.</p>')
    return "".join(parts)


def _threads(report: CommitReport) -> str:
    """One line for all threads of the driver, which are alike; findings name those that are not."""
    rows = report.worker_rows
    if not rows or report.executor == "ray":
        return ""
    rates = [row.files_per_second for row in rows]
    files, size = sum(row.files for row in rows), sum(row.bytes for row in rows)
    told = (
        f"{counted(len(rows), 'thread')} of {report.workers:,} on {rows[0].node}, process "
        f"{rows[0].process}: {counted(files, 'file')}, {bytes_text(size)}, {min(rates):,.0f} to "
        f"{max(rates):,.0f} files per second each (median {median(rates):,.0f}), "
        f"{counted(sum(row.retries for row in rows), 'repeated request')}"
    )
    return f"<p>{_text(told, _SENTENCE)}</p>"


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


def _proofs(report: CommitReport) -> str:
    rows = [
        f"<tr><td>{_text(proof, _NAME)}</td><td>{number:,}</td></tr>"
        for proof, number in sorted(report.proved.items())
        if number
    ]
    if not rows:
        return ""
    return (
        "<table><thead><tr><th>found done, and proved by</th><th>renames</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _command(report: CommitReport) -> str:
    if not (report.command and next_step(report)):
        return ""
    note = ""
    if report.storage_options:
        named = f"-o {', -o '.join(report.storage_options)}"
        note = f'<p class="soft">with your values of {_text(named, _SENTENCE)}</p>'
    return f"<pre>{_text(report.command, _LONG)}</pre>{note}"


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
        written = escape(character).encode("utf-8", "replace").decode()
        size += len(written.encode())
        if size > most_bytes:
            return f"{''.join(kept)}&hellip;"
        kept.append(written)
    return "".join(kept)
