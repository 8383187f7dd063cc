"""With equal requests in flight, what does a commit cost beside Hadoop's own manifest committer?

Three jobs, each with 32 requests in flight, at 0 and at 20 ms a request: 1 task of 2 files, 20 of 100,
20 of 500 over ten directories. The peer's costs are read from ``--peer``: one JSON line a repetition
with ``tasks``, ``files_per_task``, ``latency_ms``, ``commit_job_ms`` and ``job_ops``, for each job and
latency the first of them in a cold JVM. Writing a file is two requests, its creation and its close, for
both. At 0 ms ours are plain local files.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import harness

import ray_committer
from ray_committer import CommitOptions
from ray_committer.executors.threads import ThreadsExecutor
from ray_committer.stages.find_job import read_state_and_manifests
from ray_committer.stages.worker import Worker
from ray_committer.testing import run_commit

SHAPES = ((1, 2, 1), (20, 100, 10), (20, 500, 10))
"""Tasks, files of each, directories."""
LATENCIES = (0, 20)
THREADS = 32
OPTIONS = CommitOptions(validate=False)
SMALL, LOCAL_SECONDS, REMOTE_SECONDS = "1x2", 0.010, 0.340
"""What the smallest commit may take on local files, and at 20 ms a request."""


def measure(root: Path, shape: tuple[int, int, int], milliseconds: int) -> dict[str, float]:
    tasks, files, directories = shape
    job = harness.write_job(root, tasks=tasks, files=files, directories=directories)
    if not milliseconds:
        begun = time.perf_counter()
        ray_committer.commit_job(str(root), job.job_id, options=OPTIONS)
        return {"commit_seconds": time.perf_counter() - begun}
    store = harness.PricedStore(milliseconds / 1000)
    executor = ThreadsExecutor(lambda: Worker(store, job, in_driver=True), threads=THREADS)
    begun = time.perf_counter()
    state = read_state_and_manifests(store, job)
    run_commit(store, job, OPTIONS, executor=executor, state=state)
    executor.close()
    seconds = time.perf_counter() - begun
    return {"commit_seconds": seconds, "requests": len(store.requests) + store.requests.count("write")}


def of_peer(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Its seconds and requests."""
    warm = [line["commit_job_ms"] / 1000 for line in lines[1:]]
    return {
        "cold_seconds": lines[0]["commit_job_ms"] / 1000,
        "warm_seconds": warm,
        "median": {
            "commit_seconds": round(statistics.median(warm), 4),
            "requests": sum(lines[-1]["job_ops"].values()),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", type=Path, required=True)
    theirs = defaultdict(list)
    for line in map(json.loads, parser.parse_args().peer.read_text().splitlines()):
        theirs[line["tasks"], line["files_per_task"], line["latency_ms"]].append(line)
    root = Path(tempfile.mkdtemp(prefix="peer-")) / "table"
    found: dict[str, Any] = {}
    for tasks, files, directories in SHAPES:
        for milliseconds in LATENCIES:
            ours = harness.rounds(partial(measure, root, (tasks, files, directories), milliseconds))
            hadoop = of_peer(theirs[tasks, files, milliseconds])
            found[f"{tasks}x{files} at {milliseconds} ms"] = {"ours": ours, "hadoop": hadoop}
    seconds = {
        name: {who: one["median"]["commit_seconds"] for who, one in both.items()}
        for name, both in found.items()
    }
    large = seconds["20x500 at 20 ms"]
    harness.save(
        "peer",
        __doc__,
        {"threads": THREADS, "commits": found},
        {
            "times as fast as Hadoop's, 20x500 at 20 ms": (
                round(large["hadoop"] / large["ours"], 3),
                ">=",
                0.95,
            ),
            "seconds of 1x2 at 20 ms": (seconds[f"{SMALL} at 20 ms"]["ours"], "<=", REMOTE_SECONDS),
            "seconds of 1x2 on local files": (seconds[f"{SMALL} at 0 ms"]["ours"], "<=", LOCAL_SECONDS),
        },
    )


if __name__ == "__main__":
    main()
