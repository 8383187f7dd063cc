"""All committers beside each other, in turns: which is faster, where, and what does each cost?

A job is written anew for each commit, with tasks that have ended; what is measured is the commit of the
job, from call to return. Hadoop 3.5's committers run in one JVM that has warmed up, on the file system
that has the price of `harness.PricedStore`. Stores: local files behind 20 ms a request, local files,
HDFS on this machine, and S3, 35 ms away. All committers that can have several requests in flight have
as many, 32 or 128: Hadoop's default is 32, ours 32 threads or 16 for each Ray worker. On S3, S3A's magic
committer has its default threads.

v1 and a loop of fsspec's `mv` make one request after another: at 20 ms their requests are counted on
local files, and 20 ms each is added to the time there (`computed`). v2 moves files when its tasks
commit, 32 tasks at once: this is `tasks_seconds`.

The published commit had 94,499 files, one of each task, and took 4 h 28 min in v1's loop. The price of a
request is chosen, in whole milliseconds, so that v1, by the number of its requests, takes as long. With
that price, and 128 requests in flight, it is then committed by the others. At last Spark itself
overwrites 200 partitions dynamically, end to end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

import harness
from peer_bars import LARGE, LOCAL, SPARK, bars
from peer_hadoop import hadoop
from peer_parts import IN_FLIGHT, PARTS, WORKERS, Bench, in_spark

from ray_committer import CommitOptions
from ray_committer.executors.ray.executor import RayPool

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.servers.s3a import s3a_jvm

ALL = (*PARTS, SPARK)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=ALL, default=[*ALL], help="parts to measure")
    parser.add_argument("--save", action="store_true", help="save them beside the others of the result")
    given = parser.parse_args()
    found, runs = measure(given.only)
    if set(given.only) == set(ALL) or given.save:
        save(found, runs)


def measure(wanted: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The wanted parts; and of each its run, how long it took, and how busy the machine was before."""
    found: dict[str, Any] = {}
    runs: dict[str, Any] = {}
    begun = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

    def run(name: str, part: Callable[[], dict[str, Any]]) -> None:
        load, started = os.getloadavg(), time.monotonic()
        found[name] = part()
        seconds = round(time.monotonic() - started)
        runs[name] = {"run": begun, "commit": harness.commit(), "load": load, "seconds": seconds}
        print(f"{name}: {runs[name]}", flush=True)

    if parts := {name: part for name, part in PARTS.items() if name in wanted}:
        root = Path(tempfile.mkdtemp(prefix="peers-"))
        # PySpark starts a JVM by a fork, which can hang once this process has threads: S3A's is the
        # first.
        with s3a_jvm(root) as s3a, hadoop() as jvm, harness.local_ray():
            bench = Bench(root, jvm, s3a, RayPool(CommitOptions(workers=WORKERS)))
            for one in (*bench.at_once(IN_FLIGHT), *bench.one_by_one()):  # to warm up
                one.measure(bench.local(LOCAL), LARGE)
            for name, part in parts.items():
                run(name, partial(part, bench))
            bench.pool.close()
        shutil.rmtree(root)
    if SPARK in wanted:
        run(SPARK, in_spark)
    return found, runs


def save(found: dict[str, Any], runs: dict[str, Any]) -> None:
    """Save what one run has found, beside the parts of other runs if it has not measured all."""
    if found.keys() != set(ALL):
        before = json.loads((harness.RESULTS / "peers.json").read_text())
        found, runs = before["commits"] | found, before["runs"] | runs
    others = len({one["run"] for one in runs.values()}) - 1
    harness.save(
        "peers",
        __doc__,
        {"runs": runs, "commits": found},
        bars(found) | {"other runs that parts are from": (others, "<=", 0)},
    )


if __name__ == "__main__":
    main()
