"""How close to the ideal is the whole commit of 94,499 tasks of one file each, on four Ray workers?

Spark's usual write without partitions, and as many files as a published slow commit had. A request takes
35 ms, and each of four warm workers has 64 in flight. Ideal is all of the commit's requests x latency /
requests in flight; the manifest of a task, the look at its file and the rename are one each. What all
processes of the machine compute meanwhile is given in seconds of processor time.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import harness

from ray_committer import CommitOptions
from ray_committer.executors.ray.executor import RayPool

TASKS = 94_499
SECONDS = 0.035
WORKERS, THREADS = 4, 64


class TreesGoAtOnce(harness.PricedStore):
    """Deletes a tree by one request that takes no longer than others, as HDFS does: here it is moved to
    the `trash`, to be deleted after the commit."""

    def __init__(self, seconds: float, trash: Path) -> None:
        super().__init__(seconds)
        self._trash = trash

    def delete_directory(self, path: str) -> bool:
        with self._call("delete_directory", path):
            if not os.path.exists(path):
                return False
            os.rename(path, tempfile.mkdtemp(dir=self._trash))
            return True


def measure(root: Path, tasks: int, pool: RayPool) -> dict[str, float]:
    """One commit, from call to return."""
    job = harness.write_job(root, tasks=tasks, files=1, directories=1)
    computed = processor_seconds()
    report, seconds = harness.commit_on_ray(
        job,
        harness.OpenPriced(SECONDS, job, THREADS),
        seconds=SECONDS,
        workers=WORKERS,
        threads=THREADS,
        pool=pool,
        store=TreesGoAtOnce(SECONDS, root.parent),
    )
    assert report.files == tasks
    ideal = report.requests * SECONDS / (WORKERS * THREADS)
    stages = {
        name: report.stage_seconds[f"job_stage_{name}"] for name in ("load_manifests", "rename_files")
    }
    return {
        "seconds": seconds,
        "requests": report.requests,
        "of_ideal": seconds / ideal,
        "processor_seconds": processor_seconds() - computed,
        **stages,
    }


def processor_seconds() -> float:
    """What all processes of this machine have used since it started."""
    user, nice, system = Path("/proc/stat").read_text().split(None, 4)[1:4]
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=TASKS)
    tasks = parser.parse_args().tasks
    root = Path(tempfile.mkdtemp(prefix="one-file-tasks-")) / "table"
    with harness.local_ray():
        pool = RayPool(CommitOptions(workers=WORKERS, worker_threads=THREADS))
        measure(root, tasks // 100, pool)  # to warm up
        begun = time.monotonic()
        found = measure(root, tasks, pool)
        print(f"{time.monotonic() - begun:.0f} s with the writing of the job")
        pool.close()
    harness.save(
        "one_file_tasks",
        __doc__,
        {"tasks": tasks, "seconds_a_request": SECONDS, "in_flight": WORKERS * THREADS, "run": found},
        {"the whole call, of the ideal": (round(found["of_ideal"], 3), "<=", 1.25)},
    )


if __name__ == "__main__":
    main()
