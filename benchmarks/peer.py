"""With equal requests in flight, is a commit slower than Hadoop's own manifest committer?

20 tasks of 500 files over ten directories, 32 requests in flight, 20 ms a request for both. The peer's
time is read from ``--peer``: one JSON line a repetition with ``commit_job_ms``, the first of which is a
cold JVM.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path

import harness

from ray_committer import CommitOptions
from ray_committer.executors.threads import ThreadsExecutor
from ray_committer.stages.worker import Worker
from ray_committer.testing import run_commit

SECONDS, THREADS = 0.020, 32
TASKS, FILES_A_TASK, DIRECTORIES = 20, 500, 10


def measure(root: Path) -> dict[str, float]:
    job = harness.write_job(root, tasks=TASKS, files=FILES_A_TASK, directories=DIRECTORIES)
    executor = ThreadsExecutor(
        lambda: Worker(harness.PricedStore(SECONDS), job, in_driver=True), threads=THREADS
    )
    options = CommitOptions(validate=False)
    report = run_commit(harness.PricedStore(SECONDS), job, options, executor=executor)
    executor.close()
    return {
        "commit_seconds": report.stage_seconds["committer_commit_job"],
        "rename_seconds": report.stage_seconds["job_stage_rename_files"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", type=Path, required=True)
    lines = [json.loads(line) for line in parser.parse_args().peer.read_text().splitlines()]
    warm = [line["commit_job_ms"] / 1000 for line in lines[1:]]
    root = Path(tempfile.mkdtemp(prefix="peer-")) / "table"
    found = harness.rounds(lambda: measure(root))
    ratio = statistics.median(warm) / found["median"]["commit_seconds"]
    harness.save(
        "peer",
        __doc__,
        {
            "files": TASKS * FILES_A_TASK,
            "ours": found,
            "hadoop_warm_seconds": warm,
            "hadoop_cold_seconds": lines[0]["commit_job_ms"] / 1000,
            "ideal_rename_seconds": TASKS * FILES_A_TASK * SECONDS / THREADS,
        },
        {"times as fast as Hadoop's": (round(ratio, 3), ">=", 1.0)},
    )


if __name__ == "__main__":
    main()
