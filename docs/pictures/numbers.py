"""Draw the pictures of ``docs/numbers.md`` from results of the benchmarks.

``python -m docs.pictures.numbers`` writes those whose result is in ``benchmarks/results``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from docs.pictures.axes import item_axis, linear_axis, number_axis, number_text, time_axis
from docs.pictures.charts import Bar, Panel, bars, lines
from ray_committer.report.amounts import counted

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "benchmarks" / "results"
PLACES = {
    "20 ms": "at 20 ms per request, 32 in flight",
    "HDFS": "on HDFS, 32 requests in flight",
    "the published commit": "at 43 ms per request, 128 in flight",
}
"""Where the commits were made that have a picture; the tables have all."""
GROWTH = {"manifests": "manifests, of as many files", "workers": "workers, files in proportion"}
"""What grows, where its name in the result does not say it."""
FAULTS = {
    "worker": "a worker is killed",
    "node": "a node is lost",
    "coordinator": "the coordinator is killed",
    "limit": "the host of the limit is killed",
    "refused-1": "1 % of requests refused",
    "refused-1-retry-after": "1 % refused, each for 1 s",
    "refused-10": "10 % of requests refused",
    "refused-10-retry-after": "10 % refused, each for 1 s",
    "slow-worker": "one of four workers is slow",
    "driver": "the driver is killed",
    "driver-elsewhere": "the same, on another machine",
}
SECONDS = ("seconds", "commit_seconds", "wall_seconds")
MEGABYTES = ("driver_mb", "peak_mb of driver", "peak_mb")
"""The names of what is drawn, in the results of `growth`: the first of them that a point has."""

Result = Mapping[str, Any]
Points = list[tuple[float, float]]


def main() -> None:
    """Write the pictures, and print their names."""
    for name, picture in pictures():
        (HERE / name).write_text(picture)
        print(name)


def pictures(results: Path = RESULTS) -> Iterator[tuple[str, str]]:
    """The name and the text of each picture."""
    for name, draw in DRAWN.items():
        result = results / f"{name}.json"
        if result.exists():
            yield from draw(json.loads(result.read_text())).items()


def peers(result: Result) -> dict[str, str]:
    """The seconds of a commit by committer, in a picture for each store."""
    return {f"peers-{_slug(store)}.svg": _peers_on(store, result) for store in PLACES}


def _peers_on(store: str, result: Result) -> str:
    shapes = result["commits"][store]
    groups = {
        _shape(shape): [_peer(name, one) for name, one in committers.items()]
        for shape, committers in shapes.items()
    }
    values = [bar.value for group in groups.values() for bar in group]
    notes = (
        ["Medians. A dashed frame: computed, not measured."] if _any_computed(groups) else ["Medians."]
    )
    title = f"Time of a commit by committer, {PLACES[store]}"
    return bars(title, groups, time_axis([min(values) / 2, *values]), notes=[*notes, _source(result)])


def _peer(name: str, found: Result) -> Bar:
    seconds = found["median"]["seconds"]
    return Bar(
        name,
        seconds,
        _seconds(seconds),
        kind="ours" if name.startswith("ray_committer") else "other",
        computed=bool(found.get("computed")),
    )


def growth(result: Result) -> dict[str, str]:
    """Seconds, and the driver's memory, by what grows."""
    panels = []
    for name, series in result["series"].items():
        points = series["points"]
        numbers = [float(point[name]) for point in points]
        for label, keys, axis in (
            ("Time", SECONDS, time_axis),
            ("Driver's memory, MB", MEGABYTES, number_axis),
        ):
            values = [_value(point, keys) for point in points]
            panels.append(
                Panel(
                    label,
                    {"": list(zip(numbers, values, strict=True))},
                    item_axis(numbers),
                    axis(values),
                    GROWTH.get(name, name),
                )
            )
    title = "Time of a commit, and memory of its driver, by what grows"
    return {"growth.svg": lines(title, panels, columns=2, notes=[_source(result)])}


def _value(point: Result, keys: tuple[str, ...]) -> float:
    """The first of the keys that a point of a series has, itself or as a median."""
    found = {**point, **point.get("median", {})}
    return next(float(found[key]) for key in keys if key in found)


def faults(result: Result) -> dict[str, str]:
    """The seconds that each fault costs."""
    lost = {
        FAULTS.get(name, name): _value(one, ("seconds_lost",))
        for name, one in result["faults"].items()
        if not name.startswith("none")
    }
    rows = [Bar(name, value, f"{value:.1f} s", "ours") for name, value in lost.items()]
    title = "Seconds that a commit takes longer if something fails"
    picture = bars(
        title, {"": rows}, linear_axis(lost.values(), "s"), notes=["Medians.", _source(result)]
    )
    return {"faults.svg": picture}


def estimates(result: Result) -> dict[str, str]:
    """Simulated time by number of workers, on each store, in a panel for each number of files."""
    panels = []
    for files, cases in result["curves"].items():
        curves: dict[str, Points] = {
            name: [(float(workers), seconds) for workers, seconds in one["seconds"].items()]
            for name, one in cases.items()
        }
        points = [point for curve in curves.values() for point in curve]
        panels.append(
            Panel(
                f"{number_text(int(files))} files",
                curves,
                item_axis(x for x, _ in points),
                time_axis(y for _, y in points),
                f"workers of {result['in_flight']} requests in flight",
            )
        )
    title = "Simulated time of a commit by number of workers"
    notes = ["Simulated with the limits that providers publish; 50 ms a request, 2 ms on HDFS."]
    return {"estimates.svg": lines(title, panels, columns=1, notes=[*notes, _source(result)])}


DRAWN: dict[str, Callable[[Result], dict[str, str]]] = {
    "peers": peers,
    "growth": growth,
    "faults": faults,
    "estimates": estimates,
}


def _any_computed(groups: Mapping[str, list[Bar]]) -> bool:
    return any(bar.computed for group in groups.values() for bar in group)


def _shape(shape: str) -> str:
    """``20x500, existing`` in words."""
    match = re.fullmatch(r"([\d,]+)x(\d+)(.*)", shape)
    if match is None:
        return shape
    tasks, files = int(match[1].replace(",", "")), int(match[2])
    return f"{counted(tasks, 'task')} of {counted(files, 'file')}{match[3]}"


def _slug(store: str) -> str:
    return "-".join("".join(one if one.isalnum() else " " for one in store.lower()).split())


def _seconds(seconds: float) -> str:
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:,.0f} s" if seconds >= 100 else f"{seconds:.3g} s"


def _source(result: Result) -> str:
    return f"Commit {result['commit']}, {result['host']['cores']} cores."


if __name__ == "__main__":
    main()
