"""Which results of the benchmarks have moved by more than noise since those that are committed?

Compares ``benchmarks/results`` with the results of a commit (``HEAD``), number by number. A number has
moved if it changed by more than a tenth, and by more than twice the spread of its rounds, old or new.
Prints one line for each, and exits with 1 if there is one. Names of results can be given.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
LEAST = 0.10
"""A change by less is noise."""
SPREADS = 2.0
_FACTS = {"host", "versions", "load", "bars", "rounds", "runs"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="results to compare; all that differ by default")
    parser.add_argument("--with", dest="revision", default="HEAD", help="the commit to compare with")
    arguments = parser.parse_args()
    names = arguments.names or sorted(path.stem for path in RESULTS.glob("*.json"))
    moved = [line for name in names for line in compare(name, arguments.revision)]
    print("\n".join(moved) or "nothing has moved by more than noise")
    sys.exit(1 if moved else 0)


def compare(name: str, revision: str) -> Iterator[str]:
    """The numbers of one result that have moved, as lines."""
    new = json.loads((RESULTS / f"{name}.json").read_text())
    old = committed(name, revision)
    if old is None or old == new:
        return
    before, after = dict(numbers(old)), dict(numbers(new))
    for path in before.keys() & after.keys():
        (was, spread), (found, spread_now) = before[path], after[path]
        change = abs(found - was)
        if change > LEAST * abs(was) and change > SPREADS * max(spread, spread_now):
            yield (
                f"{name}: {path}: {was:g} -> {found:g} ({(found - was) / was:+.0%})"
                if was
                else (f"{name}: {path}: 0 -> {found:g}")
            )


def committed(name: str, revision: str) -> dict[str, Any] | None:
    """The result as it is in a commit; None if it is not there."""
    path = f"{revision}:benchmarks/results/{name}.json"
    run = subprocess.run(["git", "show", path], cwd=RESULTS, capture_output=True, text=True, check=False)
    return json.loads(run.stdout) if run.returncode == 0 else None


def numbers(value: Any, path: str = "", spreads: dict[str, float] | None = None) -> Iterator[Any]:
    """All numbers of a result by their paths, each with the spread of its rounds, 0 if it has none."""
    if isinstance(value, dict):
        own = spread_of(value["rounds"]) if "rounds" in value else {}
        for key, one in value.items():
            if key not in _FACTS:
                inner = {key: own.get(key, 0.0)} if key in own else own
                yield from numbers(one, f"{path}.{key}" if path else key, inner)
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from numbers(one, f"{path}.{number}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, (float(value), (spreads or {}).get(path.rpartition(".")[2], 0.0))


def spread_of(rounds: Any) -> dict[str, float]:
    """Half of the distance between the least and the largest value of each number of some rounds."""
    if not isinstance(rounds, list) or not rounds or not isinstance(rounds[0], dict):
        return {}
    return {
        key: (max(one[key] for one in rounds) - min(one[key] for one in rounds)) / 2
        for key, first in rounds[0].items()
        if isinstance(first, int | float)
    }


if __name__ == "__main__":
    main()
