"""What does a whole commit cost on Ray, from call to return, and from how many files does it pay?

On a warm pool: ten files of one task and 2,000 of 20, local files without a price. Cold on a running
cluster: ten files, with workers of the commit's own. 10,000 files at 20 ms a request with 128 in flight,
against as many threads. And at 20 ms the threads of one process, 32 in flight, against what `auto` would
start on four CPUs, warm and cold, for more and more files.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import harness

import ray_committer
from ray_committer import CommitOptions
from ray_committer.executors.choose import ExecutorName
from ray_committer.executors.ray.executor import RayPool
from ray_committer.executors.threads import ThreadsExecutor
from ray_committer.protocol.paths import JobAttempt
from ray_committer.testing import run_commit
from ray_committer.work.worker import Worker

SECONDS = 0.020
SMALL, MEDIUM, LARGE = (1, 10), (20, 100), (20, 500)
SIZES = ((5, 40), (10, 50), (10, 100), (20, 100), (20, 200), (20, 500))
DIRECTORIES = 10
IN_PROCESS = 32
WIDE_WORKERS, WIDE_THREADS = 4, 32
WORKERS, THREADS = 2, 16


def seconds_of(commit: Callable[[], object]) -> dict[str, float]:
    started = time.monotonic()
    commit()
    return {"seconds": time.monotonic() - started}


def measure(root: Path, size: tuple[int, int], executor: RayPool | ExecutorName) -> dict[str, float]:
    """A call of the public function on local files."""
    job = write_job(root, size)
    options = CommitOptions(workers=WORKERS)
    return seconds_of(
        lambda: ray_committer.commit_job(job.destination, job.job_id, executor=executor, options=options)
    )


def measure_priced(
    root: Path, size: tuple[int, int], pool: RayPool | None, *, workers: int, threads: int
) -> dict[str, float]:
    """A commit on Ray at 20 ms a request, workers of its own included if there is no `pool`."""
    job = write_job(root, size)
    return seconds_of(
        lambda: harness.commit_on_ray(
            job,
            harness.OpenPriced(SECONDS, job, threads),
            seconds=SECONDS,
            workers=workers,
            threads=threads,
            pool=pool,
        )
    )


def measure_threads(root: Path, size: tuple[int, int], threads: int) -> dict[str, float]:
    job = write_job(root, size)
    executor = ThreadsExecutor(
        lambda permits: Worker(harness.PricedStore(SECONDS), job, permits, in_driver=True),
        threads=threads,
    )
    store, options = harness.PricedStore(SECONDS), CommitOptions(validate=False)
    found = seconds_of(lambda: run_commit(store, job, options, executor=executor))
    executor.close()
    return found


def write_job(root: Path, size: tuple[int, int]) -> JobAttempt:
    tasks, files = size
    return harness.write_job(root, tasks=tasks, files=files, directories=DIRECTORIES)


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="ray-calls-")) / "table"
    threads = {
        tasks * files: harness.rounds(
            partial(measure_threads, root, (tasks, files), IN_PROCESS), number=3
        )
        for tasks, files in SIZES
    }
    wide = harness.rounds(lambda: measure_threads(root, LARGE, WIDE_WORKERS * WIDE_THREADS))
    with harness.local_ray():
        cold = harness.rounds(lambda: measure(root, SMALL, "ray"))
        cold_priced = {
            tasks * files: harness.rounds(
                partial(measure_priced, root, (tasks, files), None, workers=WORKERS, threads=THREADS),
                number=3,
            )
            for tasks, files in SIZES
        }
        pool = RayPool(CommitOptions(workers=WORKERS))
        small = harness.rounds(lambda: measure(root, SMALL, pool))
        medium = harness.rounds(lambda: measure(root, MEDIUM, pool))
        warm_priced = {
            tasks * files: harness.rounds(
                partial(measure_priced, root, (tasks, files), pool, workers=WORKERS, threads=THREADS),
                number=3,
            )
            for tasks, files in SIZES
        }
        pool.close()
        pool = RayPool(CommitOptions(workers=WIDE_WORKERS))
        wide_on_ray = harness.rounds(
            lambda: measure_priced(root, LARGE, pool, workers=WIDE_WORKERS, threads=WIDE_THREADS)
        )
        pool.close()
    times = wide_on_ray["median"]["seconds"] / wide["median"]["seconds"]
    harness.save(
        "ray_calls",
        __doc__,
        {
            "seconds_a_request": SECONDS,
            "warm, local files": {"1x10": small, "20x100": medium},
            "cold, local files": {"1x10": cold},
            "20x500 at 20 ms, 128 in flight": {"threads": wide, "warm": wide_on_ray},
            "at 20 ms, by files": {
                number: {
                    "threads": threads[number]["median"]["seconds"],
                    "warm": warm_priced[number]["median"]["seconds"],
                    "cold": cold_priced[number]["median"]["seconds"],
                }
                for number in threads
            },
        },
        {
            "warm pool, 1x10, seconds": (small["median"]["seconds"], "<=", 0.15),
            "warm pool, 20x100, seconds": (medium["median"]["seconds"], "<=", 0.4),
            "cold on a running cluster, 1x10, seconds": (cold["median"]["seconds"], "<=", 1.5),
            "20x500 at 20 ms, 128 in flight, Ray to threads": (round(times, 3), "<=", 1.25),
        },
    )


if __name__ == "__main__":
    main()
