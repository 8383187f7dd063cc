"""How many directories a second does the coordinating actor deduplicate, and how many are made by it?

Batches of 1,000 directories, each named by five tasks, sent by four workers at once; then 20,000
leaves made at 20 ms each by four workers of 64 requests in flight, which claim them.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import harness

from ray_committer import CommitOptions
from ray_committer.executors.directories import DirectoryCoordinator
from ray_committer.executors.ray.executor import RayExecutor
from ray_committer.limits.permits import Permits
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.stages.context import JobContext
from ray_committer.stages.create_output_directories import create_output_directories
from ray_committer.stores.guarded import GuardedStore
from ray_committer.work.worker import Worker

BATCH, BATCHES, TASKS_A_DIRECTORY = 1_000, 400, 5
LEAVES, SECONDS = 20_000, 0.020
WORKERS, THREADS = 4, 64


class NoDirectories(harness.PricedStore):
    """Takes its time to make nothing, so that the disk is not what is measured."""

    def mkdirs(self, path: str) -> None:
        time.sleep(SECONDS)


@dataclass(frozen=True, slots=True)
class OpenNoDirectories:
    """Opens a worker on `NoDirectories`."""

    job: JobAttempt

    def __call__(self, permits: Permits) -> Worker:
        return Worker(NoDirectories(SECONDS), self.job, permits, THREADS, in_driver=False)


@dataclass(frozen=True, slots=True)
class Collect:
    """Work: name many batches of directories."""

    directories: DirectoryCoordinator

    def __call__(self, worker: Worker, numbers: range) -> int:
        for number in numbers:
            first = number % (BATCHES // TASKS_A_DIRECTORY) * BATCH
            paths = [f"/table/year=2026/hour={n // 100}/part={n}" for n in range(first, first + BATCH)]
            self.directories.collect(number, paths, b"")
        return len(numbers) * BATCH


def measure(root: Path) -> dict[str, float]:
    job = new_job_attempt(str(root), "job_1", 0)
    options = CommitOptions(workers=WORKERS, worker_threads=THREADS)
    executor = RayExecutor(OpenNoDirectories(job), options)
    try:
        executor.start_workers()
        quarters = [range(low, BATCHES, 4) for low in range(4)]
        started = time.monotonic()
        named = sum(executor.run(Collect(executor.directories), quarters))
        collected = time.monotonic() - started
        executor.directories.renew()
        leaves = [f"/made/p={n // 100}/q={n}" for n in range(LEAVES)]
        executor.directories.collect(BATCHES, leaves, b"")
        store = GuardedStore(NoDirectories(SECONDS), executor.permits)
        context = JobContext(store, job, options, executor)
        started = time.monotonic()
        made = create_output_directories(context)
        seconds = time.monotonic() - started
    finally:
        executor.close()
    return {
        "deduplicated_per_second": named / collected,
        "made_per_second": made / seconds,
        "made": made,
        "ideal_made_per_second": WORKERS * THREADS / SECONDS,
    }


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="coordinator-")) / "table"
    with harness.local_ray():
        found = harness.rounds(lambda: measure(root))
    harness.save(
        "coordinator",
        __doc__,
        found,
        {
            "directories deduplicated a second": (
                round(found["median"]["deduplicated_per_second"]),
                ">=",
                300_000,
            ),
            "directories made a second at 20 ms": (
                round(found["median"]["made_per_second"]),
                ">=",
                5_000,
            ),
        },
    )


if __name__ == "__main__":
    main()
