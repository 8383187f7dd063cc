"""How long does an export of 10,000 Parquet files in 100 partitions take, and what does a job add?

On local files, from call to return, each time of a new table. The export is the first one of the table.
After it, a job with one file is committed and exported.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path

import harness
import pyarrow as pa
import pyarrow.parquet as pq

import ray_committer

FILES, PARTITIONS = 10_000, 100
ONE_FILE = pa.table({"x": [1], "text": ["one"]})


def commit(table: Path, files: int, name: str) -> None:
    """Commit a job whose one task writes copies of one file."""
    job = ray_committer.setup_job(str(table))
    with ray_committer.task_attempt(str(table), job, task=0) as attempt:
        with attempt.open(f"k=0/{name}-0.parquet") as first:
            pq.write_table(ONE_FILE, first)
        source = attempt.path(f"k=0/{name}-0.parquet")
        for number in range(1, files):
            shutil.copyfile(source, attempt.path(f"k={number % PARTITIONS}/{name}-{number}.parquet"))
    ray_committer.commit_job(str(table), job, executor="threads")


def seconds_of_export(table: Path) -> float:
    begun = time.perf_counter()
    ray_committer.export_delta(str(table))
    return time.perf_counter() - begun


def measure(root: Path) -> dict[str, float]:
    """The first export of a table, and that of one more job."""
    table = root / "table"
    table.mkdir()
    ray_committer.init_table(str(table))
    commit(table, FILES, "many")
    first = seconds_of_export(table)
    commit(table, 1, "one")
    found = {"first": first, "one_more_job": seconds_of_export(table)}
    shutil.rmtree(table)
    return found


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="exports-", dir=os.environ.get("TMPDIR")))
    try:
        found = harness.rounds(partial(measure, root), number=3)
    finally:
        shutil.rmtree(root)
    bars = {"first export to Delta, seconds": (found["median"]["first"], "<=", 3.0)}
    harness.save("exports", __doc__, {"files": FILES, "partitions": PARTITIONS, **found}, bars)


if __name__ == "__main__":
    main()
