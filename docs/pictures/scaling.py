"""Draw ``benchmarks/results/scaling.json`` as ``scaling.svg``: renames per second by number of workers.

``python -m docs.pictures.scaling`` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docs.pictures.axes import linear_axis
from docs.pictures.charts import Bar, bars

HERE = Path(__file__).parent
RESULT = HERE.parents[1] / "benchmarks" / "results" / "scaling.json"
PICTURE = HERE / "scaling.svg"


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(draw(json.loads(RESULT.read_text())))


def draw(result: Mapping[str, Any]) -> str:
    """The result of the benchmark as SVG: a bar for the median, a dashed line for ideal scaling."""
    rates = {
        int(workers): one["median"]["renames_per_second"] for workers, one in result["workers"].items()
    }
    rows = [_bar(workers, rate, workers * rates[1]) for workers, rate in sorted(rates.items())]
    axis = linear_axis([max(rates) * rates[1]])
    notes = (
        "25 ms per request, 16 requests in flight per worker. Dashed: one worker times their number.",
        f"Commit {result['commit']}, Ray {result['versions']['ray']}, {result['host']['cores']} cores.",
    )
    return bars("Renames per second, by Ray workers", {"": rows}, axis, notes=notes)


def _bar(workers: int, rate: float, ideal: float) -> Bar:
    name = "1 worker" if workers == 1 else f"{workers} workers"
    return Bar(name, rate, f"{rate:,.0f} ({100 * rate / ideal:.0f} %)", "ours", ideal=ideal)


if __name__ == "__main__":
    main()
