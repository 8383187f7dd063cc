"""How close to the ideal are four Ray workers of 64 requests in flight, and how far from one process?

The rename stage on a store of 35 ms a request, against threads of one process with 32 in flight. Ideal
is files x latency / requests in flight. Warm workers serve many commits; a cold commit starts its own.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import harness

from ray_committer import CommitOptions
from ray_committer.executors.ray.executor import RayExecutor, RayPool
from ray_committer.executors.threads import ThreadsExecutor
from ray_committer.protocol.paths import JobAttempt
from ray_committer.stages.worker import Worker
from ray_committer.testing import run_commit

SECONDS = 0.035
TASKS, FILES_A_TASK, DIRECTORIES = 160, 250, 40
WORKERS, THREADS = 4, 64
IN_PROCESS = 32


def measure(root: Path, pool: RayPool | None) -> dict[str, float]:
    """Seconds of the rename stage and of the commit on Ray, over their ideals."""
    job = harness.write_job(root, tasks=TASKS, files=FILES_A_TASK, directories=DIRECTORIES)
    options = CommitOptions(workers=WORKERS, worker_threads=THREADS, validate=False)
    executor = RayExecutor(
        harness.OpenPriced(SECONDS, job, THREADS), options, commit_key=str(root), pool=pool
    )
    try:
        report = run_commit(harness.PricedStore(SECONDS), job, options, executor=executor)
    finally:
        executor.close()
    files = TASKS * FILES_A_TASK
    rename = report.stage_seconds["job_stage_rename_files"]
    return {
        "rename_seconds": rename,
        "rename_of_ideal": files * SECONDS / (WORKERS * THREADS) / rename,
        "commit_seconds": report.stage_seconds["committer_commit_job"],
    }


def measure_threads(root: Path) -> dict[str, float]:
    """The same with the threads of this process."""
    job = harness.write_job(root, tasks=TASKS, files=FILES_A_TASK, directories=DIRECTORIES)
    report = run_commit(
        harness.PricedStore(SECONDS),
        job,
        CommitOptions(validate=False),
        executor=ThreadsExecutor(lambda: open_here(job), threads=IN_PROCESS),
    )
    rename = report.stage_seconds["job_stage_rename_files"]
    files = TASKS * FILES_A_TASK
    return {
        "rename_seconds": rename,
        "rename_of_ideal": files * SECONDS / IN_PROCESS / rename,
        "commit_seconds": report.stage_seconds["committer_commit_job"],
    }


def open_here(job: JobAttempt) -> Worker:
    return Worker(harness.PricedStore(SECONDS), job, in_driver=True)


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="ray-speed-")) / "table"
    threads = harness.rounds(lambda: measure_threads(root), number=2)
    with harness.local_ray():
        cold = harness.rounds(lambda: measure(root, None), number=2)
        pool = RayPool(CommitOptions(workers=WORKERS))
        warm = harness.rounds(lambda: measure(root, pool))
        pool.close()
    times = threads["median"]["rename_seconds"] / warm["median"]["rename_seconds"]
    whole = threads["median"]["commit_seconds"] / warm["median"]["commit_seconds"]
    harness.save(
        "ray_speed",
        __doc__,
        {
            "files": TASKS * FILES_A_TASK,
            "seconds_a_request": SECONDS,
            "threads_32": threads,
            "ray_4x64_warm": warm,
            "ray_4x64_cold": cold,
            "whole_commit_times_faster": round(whole, 2),
        },
        {
            "times one process with 32 threads": (round(times, 2), ">=", 7.0),
            "of the ideal, warm": (round(warm["median"]["rename_of_ideal"], 3), ">=", 0.93),
        },
    )


if __name__ == "__main__":
    main()
