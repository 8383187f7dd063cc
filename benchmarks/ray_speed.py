"""How close to the ideal are four Ray workers of 64 requests in flight, and how far from one process?

The rename stage of 94,500 files on a store of 35 ms a request, against threads of one process with 32
in flight. Ideal is files x latency / requests in flight. Warm workers serve many commits; a cold commit
starts its own.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import harness

from ray_committer import CommitOptions
from ray_committer.executors.ray.executor import RayPool
from ray_committer.executors.threads import ThreadsExecutor
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.protocol.paths import JobAttempt
from ray_committer.testing import run_commit
from ray_committer.work.worker import Worker

SECONDS = 0.035
TASKS, FILES_A_TASK, DIRECTORIES = 378, 250, 40  # as many files as a published slow commit had
FILES = TASKS * FILES_A_TASK
WORKERS, THREADS = 4, 64
IN_PROCESS = 32


def write_job(root: Path) -> JobAttempt:
    return harness.write_job(root, tasks=TASKS, files=FILES_A_TASK, directories=DIRECTORIES)


def measure(root: Path, pool: RayPool | None) -> dict[str, float]:
    """One commit on Ray."""
    job = write_job(root)
    report, seconds = harness.commit_on_ray(
        job,
        harness.OpenPriced(SECONDS, job, THREADS),
        seconds=SECONDS,
        workers=WORKERS,
        threads=THREADS,
        pool=pool,
    )
    return result(report, in_flight=WORKERS * THREADS) | {"with_start_seconds": seconds}


def measure_threads(root: Path) -> dict[str, float]:
    """The same with the threads of this process."""
    job = write_job(root)
    executor = ThreadsExecutor(
        lambda permits: Worker(harness.PricedStore(SECONDS), job, permits, in_driver=True),
        threads=IN_PROCESS,
    )
    options = CommitOptions(validate=False)
    report = run_commit(harness.PricedStore(SECONDS), job, options, executor=executor)
    executor.close()
    return result(report, in_flight=IN_PROCESS)


def result(report: CommitResult, *, in_flight: int) -> dict[str, float]:
    rename = report.stage_seconds["job_stage_rename_files"]
    return {
        "rename_seconds": rename,
        "rename_of_ideal": FILES * SECONDS / in_flight / rename,
        "commit_seconds": report.stage_seconds["committer_commit_job"],
    }


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="ray-speed-")) / "table"
    threads = harness.rounds(lambda: measure_threads(root), number=1)
    with harness.local_ray():
        cold = harness.rounds(lambda: measure(root, None), number=2)
        pool = RayPool(CommitOptions(workers=WORKERS))
        warm = harness.rounds(lambda: measure(root, pool))
        pool.close()
    renames = threads["median"]["rename_seconds"] / warm["median"]["rename_seconds"]
    whole = threads["median"]["commit_seconds"] / warm["median"]["commit_seconds"]
    harness.save(
        "ray_speed",
        __doc__,
        {
            "files": FILES,
            "seconds_a_request": SECONDS,
            "threads_32": threads,
            "ray_4x64_warm": warm,
            "ray_4x64_cold": cold,
            "whole_commit_times_faster": round(whole, 2),
        },
        {
            "renames, times one process with 32 threads": (round(renames, 2), ">=", 7.0),
            "of the ideal, warm": (round(warm["median"]["rename_of_ideal"], 3), ">=", 0.93),
        },
    )


if __name__ == "__main__":
    main()
