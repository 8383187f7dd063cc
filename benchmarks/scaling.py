"""How efficient are 1, 2, 4 and 8 workers of 16 requests in flight each?

The rename stage on a store of 25 ms a request; files in proportion to the workers, so that the ideal
time is the same. Efficiency is a worker's renames a second over those of one worker alone.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import harness

from ray_committer import CommitOptions
from ray_committer.executors.ray.executor import RayPool

SECONDS, THREADS = 0.025, 16
TASKS_A_WORKER, FILES_A_TASK, DIRECTORIES = 10, 250, 20
SIZES = (1, 2, 4, 8)


def measure(root: Path, pool: RayPool, workers: int) -> dict[str, float]:
    job = harness.write_job(
        root, tasks=TASKS_A_WORKER * workers, files=FILES_A_TASK, directories=DIRECTORIES
    )
    report, _ = harness.commit_on_ray(
        job,
        harness.OpenPriced(SECONDS, job, THREADS),
        seconds=SECONDS,
        workers=workers,
        threads=THREADS,
        pool=pool,
    )
    return {"renames_per_second": report.renames_per_second}


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="scaling-")) / "table"
    found = {}
    with harness.local_ray():
        for workers in SIZES:
            pool = RayPool(CommitOptions(workers=workers))
            found[workers] = harness.rounds(lambda: measure(root, pool, workers))  # noqa: B023
            pool.close()
    speed = {workers: found[workers]["median"]["renames_per_second"] for workers in SIZES}
    harness.save(
        "scaling",
        __doc__,
        {"workers": found},
        {
            f"efficiency of {workers} workers": (
                round(speed[workers] / workers / speed[1], 3),
                ">=",
                0.9,
            )
            for workers in SIZES[1:]
        },
    )


if __name__ == "__main__":
    main()
