"""What does one worker of four that is eight times slower cost?

20,000 files, 35 ms a request, 32 requests in flight a worker. Ideal is files over the sum of the
workers' speeds: shards must be small enough that the slow worker does not hold the last ones.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import harness

from ray_committer import CommitOptions
from ray_committer.executors.ray.executor import RayPool
from ray_committer.limits.permits import Permits
from ray_committer.protocol.paths import JobAttempt
from ray_committer.work.worker import Worker

SECONDS, SLOWER = 0.035, 8
TASKS, FILES_A_TASK, DIRECTORIES = 80, 250, 20
WORKERS, THREADS = 4, 32


@dataclass(frozen=True, slots=True)
class OpenOneSlow:
    """Opens a worker; whichever is opened first for a commit is the slow one."""

    job: JobAttempt
    mark: Path

    def __call__(self, permits: Permits) -> Worker:
        seconds = SECONDS
        try:
            self.mark.touch(exist_ok=False)
            seconds *= SLOWER
        except FileExistsError:
            pass
        return Worker(harness.PricedStore(seconds), self.job, permits, THREADS, in_driver=False)


def measure(root: Path, pool: RayPool) -> dict[str, float]:
    job = harness.write_job(root, tasks=TASKS, files=FILES_A_TASK, directories=DIRECTORIES)
    mark = root.parent / "slow"
    mark.unlink(missing_ok=True)
    report, _ = harness.commit_on_ray(
        job, OpenOneSlow(job, mark), seconds=SECONDS, workers=WORKERS, threads=THREADS, pool=pool
    )
    rename = report.stage_seconds["job_stage_rename_files"]
    ideal = TASKS * FILES_A_TASK * SECONDS / (THREADS * (WORKERS - 1 + 1 / SLOWER))
    return {"rename_seconds": rename, "times_ideal": rename / ideal}


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="straggler-")) / "table"
    with harness.local_ray():
        pool = RayPool(CommitOptions(workers=WORKERS))
        found = harness.rounds(lambda: measure(root, pool))
        pool.close()
    harness.save(
        "straggler",
        __doc__,
        found,
        {"times the ideal": (round(found["median"]["times_ideal"], 3), "<=", 1.25)},
    )


if __name__ == "__main__":
    main()
