"""Is a write of Ray Data slower with `ManifestDatasink` than with Ray Data's own `write_parquet`?

One gigabyte of Arrow tables in eight blocks, on a Ray of two CPUs and on local files: from Ray's memory
to eight files; read from eight Parquet files, mapped and written; and from memory to 50 partitions. Ray
Data's writer is called without options, and with one row group per file, as the sink makes it. All make
as many files, with the same compression, and take turns, in another order each round.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import ray.data

from ray_committer.writers.ray_data import ManifestDatasink

BLOCKS = 8
ROWS = 1_000_000
"""In each block: fewer than the rows at which Arrow begins another row group."""
PARTITIONS = 50
ROUNDS = 7
OURS, THEIRS, THEIRS_IN_ONE_GROUP = WRITERS = ("ours", "theirs", "theirs, in one row group per file")


@dataclass(frozen=True, slots=True)
class Shape:
    """What is written: `dataset` makes it, and `files` is how many files there must be."""

    dataset: Callable[[Path], ray.data.Dataset]
    files: int
    partition_by: tuple[str, ...] = ()


def block(number: int, rows: int) -> pa.Table:
    """Rows of about 130 bytes: numbers, and text that compresses as names and comments do."""
    random = np.random.default_rng(number)
    words = pa.array([f"word-{one}" for one in range(5_000)])
    chosen = [words.take(pa.array(random.integers(0, len(words), rows))) for _ in range(6)]
    texts = {
        f"text{one}": pc.binary_join_element_wise(*chosen[3 * one : 3 * one + 3], " ") for one in (0, 1)
    }
    prices = {f"price{one}": random.random(rows).round(2) * 1_000 for one in range(4)}
    return pa.table(
        {
            "id": np.arange(number * rows, (number + 1) * rows),
            "p": random.integers(0, PARTITIONS, rows),
            **prices,
            **texts,
        }
    )


def in_memory(source: Path) -> ray.data.Dataset:
    return ray.data.from_arrow([pyarrow.parquet.read_table(path) for path in sorted(source.iterdir())])


def from_files(source: Path) -> ray.data.Dataset:
    read = ray.data.read_parquet(str(source), override_num_blocks=BLOCKS)
    return read.map_batches(lambda table: table, batch_format="pyarrow", batch_size=None)


SHAPES = {
    "from memory": Shape(in_memory, BLOCKS),
    "read, mapped, written": Shape(from_files, BLOCKS),
    "from memory to 50 partitions": Shape(in_memory, BLOCKS * PARTITIONS, ("p",)),
}


def write(who: str, dataset: ray.data.Dataset, dest: Path, shape: Shape, rows: int) -> None:
    if who == OURS:
        dataset.write_datasink(ManifestDatasink(str(dest), partition_by=shape.partition_by))
    else:
        columns = list(shape.partition_by) or None
        options = {"row_group_size": rows} if who == THEIRS_IN_ONE_GROUP else {}
        dataset.write_parquet(str(dest), partition_cols=columns, **options)


def measure(
    who: str, dataset: ray.data.Dataset, dest: Path, shape: Shape, rows: int
) -> dict[str, float]:
    os.sync()
    used = processor_seconds()
    begun = time.perf_counter()
    write(who, dataset, dest, shape, rows)
    seconds = time.perf_counter() - begun
    used = processor_seconds() - used
    files = [pyarrow.parquet.read_metadata(path) for path in dest.rglob("*.parquet")]
    assert sum(file.num_rows for file in files) == BLOCKS * rows
    assert {file.row_group(0).column(0).compression for file in files} == {"SNAPPY"}
    found = {
        "seconds": seconds,
        "processor_seconds": used,
        "files": len(files),
        "row_groups": sum(file.num_row_groups for file in files),
        "megabytes": sum(path.stat().st_size for path in dest.rglob("*.parquet")) / 1e6,
    }
    shutil.rmtree(dest)
    return found


def processor_seconds() -> float:
    """What this process and Ray's workers below it have used so far."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            parents[int(path.name)] = int(fields[1])
            if (path / "cmdline").read_bytes().startswith(b"ray::") or path.name == str(os.getpid()):
                ticks = int(fields[11]) + int(fields[12])
                used[int(path.name)] = ticks / os.sysconf("SC_CLK_TCK")

    def is_ours(process: int) -> bool:
        while process not in (0, os.getpid()):
            process = parents.get(process, 0)
        return process != 0

    return sum(seconds for process, seconds in used.items() if is_ours(process))


def alternate(source: Path, dest: Path, shape: Shape, rows: int, number: int) -> dict[str, Any]:
    """Rounds of all writers, after one round to warm up."""
    dataset = shape.dataset(source)
    found: dict[str, list[dict[str, float]]] = {who: [] for who in WRITERS}
    for turn in range(number + 1):
        first = turn % len(WRITERS)
        for who in WRITERS[first:] + WRITERS[:first]:
            found[who].append(measure(who, dataset, dest, shape, rows))
            print(who, found[who][-1], flush=True)
    return {
        who: {"rounds": measured[1:], "median": harness.medians(measured[1:])}
        for who, measured in found.items()
    }


def ratios(shapes: dict[str, Any], whose: str) -> dict[str, dict[str, float]]:
    """Our medians, divided by those of another writer."""
    return {
        name: {
            what: round(one[OURS]["median"][what] / one[whose]["median"][what], 3)
            for what in ("seconds", "processor_seconds")
        }
        for name, one in shapes.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="in each of the blocks")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="ray-data-"))
    source = root / "source"
    source.mkdir()
    tables = 0
    for number in range(BLOCKS):
        table = block(number, given.rows)
        tables += table.nbytes
        pyarrow.parquet.write_table(table, source / f"{number}.parquet")
    try:
        with harness.local_ray(2):
            ray.data.DataContext.get_current().enable_progress_bars = False
            shapes = {
                name: alternate(source, root / "table", shape, given.rows, given.rounds)
                for name, shape in SHAPES.items()
            }
    finally:
        shutil.rmtree(root, ignore_errors=True)
    found = {
        "megabytes_of_arrow": round(tables / 1e6),
        "pyarrow": pa.__version__,
        "ratios": {whose: ratios(shapes, whose) for whose in (THEIRS, THEIRS_IN_ONE_GROUP)},
        "shapes": shapes,
    }
    bars = {
        f"seconds, ours of theirs: {name}": (ratio["seconds"], "<=", 1.0)
        for name, ratio in found["ratios"][THEIRS].items()
    }
    harness.save("ray_data", __doc__ or "", found, bars)


if __name__ == "__main__":
    main()
