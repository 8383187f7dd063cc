"""Plot ``benchmarks/results/scaling.json`` as ``scaling.svg``: renames per second by number of workers.

The same JSON makes the same bytes, which a test compares with the committed picture. No library: a
picture of four bars needs none, and each would draw it differently in its next version.
"""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).parent
RESULT = HERE.parents[1] / "benchmarks" / "results" / "scaling.json"
PICTURE = HERE / "scaling.svg"

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 640, 330, 70, 46, 270
BAR, STEP = 74, 135
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1c2430}.title{font-weight:600;font-size:15px}"
    ".paper{fill:#ffffff}.bar{fill:#2f6fb3}.ideal{stroke:#a86100;stroke-width:2;stroke-dasharray:6 4}"
    ".grid{stroke:#dce2e9}.small{font-size:11px;fill:#5a6675}"
    "@media (prefers-color-scheme:dark){text{fill:#e4e9f0}.paper{fill:#1c232d}.bar{fill:#5b9fe3}"
    ".ideal{stroke:#f0b04a}.grid{stroke:#2b3440}.small{fill:#9aa7b6}}"
)
"""The colours of the report."""


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(draw(json.loads(RESULT.read_text())))


def draw(result: dict) -> str:
    """The result of the benchmark as SVG: a bar for the median, a dashed line for ideal scaling."""
    rates = {
        int(workers): one["median"]["renames_per_second"] for workers, one in result["workers"].items()
    }
    alone = rates[1]
    top = 1000 * -(-int(max(rates) * alone) // 1000)
    parts = [_frame(result), *_grid(top)]
    for number, (workers, rate) in enumerate(sorted(rates.items())):
        parts.extend(_bar(LEFT + 40 + number * STEP, workers, rate, workers * alone, top))
    return "\n".join([*parts, "</svg>", ""])


def _frame(result: dict) -> str:
    versions = result["versions"]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        'role="img" '
        f'aria-label="Renames per second by number of Ray workers"><style>{STYLE}</style>\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" class="paper"/>\n'
        f'<text x="{LEFT}" y="26" class="title">Renames per second, by Ray workers of 16 requests in '
        "flight</text>\n"
        f'<text x="{LEFT}" y="318" class="small">25 ms per request; dashed: one worker times their '
        f"number. "
        f"Commit {result['commit']}, Ray {versions['ray']}, {result['host']['cores']} cores.</text>"
    )


def _grid(top: int) -> list[str]:
    lines = []
    for rate in range(0, top + 1, 1000):
        y = _y(rate, top)
        lines.append(f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y}" y2="{y}" class="grid"/>')
        lines.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end" class="small">{rate:,}</text>')
    return lines


def _bar(x: int, workers: int, rate: float, ideal: float, top: int) -> list[str]:
    y, best, middle = _y(rate, top), _y(ideal, top), x + BAR // 2
    name = "1 worker" if workers == 1 else f"{workers} workers"
    label = f"{rate:,.0f} ({100 * rate / ideal:.0f} %)"
    return [
        f'<rect x="{x}" y="{y}" width="{BAR}" height="{BOTTOM - y}" class="bar"/>',
        f'<line x1="{x - 10}" x2="{x + BAR + 10}" y1="{best}" y2="{best}" class="ideal"/>',
        f'<text x="{middle}" y="{min(y, best) - 7}" text-anchor="middle">{label}</text>',
        f'<text x="{middle}" y="{BOTTOM + 19}" text-anchor="middle">{name}</text>',
    ]


def _y(rate: float, top: int) -> int:
    return round(BOTTOM - (BOTTOM - TOP) * rate / top)


if __name__ == "__main__":
    main()
