"""How much memory does the driver need for ten million files, and is the time linear in files?

100,000 manifests of 100 entries, loaded, checked, planned and renamed by two Ray workers with a rename
that does nothing; a tenth of that for the slope. Memory is the driver's peak resident size
(``ru_maxrss``) in a process of its own, and its growth while it commits.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import harness

from ray_committer import CommitOptions
from ray_committer.executors.ray.executor import RayExecutor
from ray_committer.protocol.manifest import FileEntry
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.stages.worker import Worker
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import run_commit

FILES_A_TASK = 100
TASKS_A_DIRECTORY = 100
WORKERS = 2


class NothingMoves(LocalStore):
    """Local manifests; renames and directories of the output are claimed, not made."""

    def __init__(self, job: JobAttempt) -> None:
        super().__init__(StoreSpec("file"))
        self._temporary = job.temporary

    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        if dest.startswith(self._temporary):
            super().rename(source, dest, version)

    def mkdirs(self, path: str) -> None:
        """Claim that it was made."""


@dataclass(frozen=True, slots=True)
class OpenNothing:
    """Opens a worker on `NothingMoves`."""

    job: JobAttempt

    def __call__(self) -> Worker:
        return Worker(NothingMoves(self.job), self.job, 4, in_driver=False)


def write_manifests(root: Path, tasks: int) -> JobAttempt:
    """The manifests of a job without its files."""
    job = new_job_attempt(str(root), "job_1", 0)
    Path(job.manifests).mkdir(parents=True)
    for task in range(tasks):
        harness.write_manifest(job, task, list(entries(job, task)), directories=0)
    return job


def entries(job: JobAttempt, task: int) -> Iterator[FileEntry]:
    attempt = job.task_attempt(f"attempt_1_m_{task:06d}_0")
    for number in range(FILES_A_TASK):
        name = f"year=2026/day={task // TASKS_A_DIRECTORY}/part-{task:06d}-{number:04d}.parquet"
        yield FileEntry(f"file://{attempt}/{name}", f"file://{job.destination}/{name}", 16, m=1)


def commit(root: Path) -> dict[str, float]:
    """Commit in this process; seconds by stage and memory in bytes."""
    job = new_job_attempt(str(root), "job_1", 0)
    options = CommitOptions(workers=WORKERS, validate=False, cleanup=False, worker_threads=4)
    with harness.local_ray(cpus=2):
        executor = RayExecutor(OpenNothing(job), options, commit_key="ten-million")
        executor.start_workers()
        before = rss()
        started = time.monotonic()
        report = run_commit(NothingMoves(job), job, options, executor=executor)
        seconds = time.monotonic() - started
        executor.close()
    found = {name.removeprefix("job_stage_"): one for name, one in report.stage_seconds.items()}
    return {
        "files": report.files,
        "manifests": report.manifests,
        "seconds": round(seconds, 2),
        "driver_cpu_seconds": round(resource.getrusage(resource.RUSAGE_SELF).ru_utime, 2),
        "peak_mb": round(peak() / 1e6, 1),
        "growth_mb": round((peak() - before) / 1e6, 1),
        "load_seconds": round(found["load_manifests"], 2),
        "rename_seconds": round(found["rename_files"], 2),
    }


def rss() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--manifests", type=int, default=100_000)
    parser.add_argument("--commit", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.commit:
        print(json.dumps(commit(arguments.commit)))
        return
    runs = []
    for tasks in (arguments.manifests // 10, arguments.manifests):
        root = Path(tempfile.mkdtemp(prefix="ten-million-"))
        try:
            write_manifests(root, tasks)
            run = subprocess.run(
                [sys.executable, __file__, "--commit", str(root)],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            runs.append(json.loads(run.stdout.splitlines()[-1]))
            print(runs[-1])
        finally:
            shutil.rmtree(root)
    small, large = runs
    slope = (large["seconds"] / large["files"]) / (small["seconds"] / small["files"])
    harness.save(
        "ten_million_entries",
        __doc__,
        {"runs": runs},
        {
            "driver peak resident MB": (large["peak_mb"], "<=", 250),
            "driver bytes a manifest": (
                round(
                    (large["peak_mb"] - small["peak_mb"])
                    * 1e6
                    / (large["manifests"] - small["manifests"])
                ),
                "<=",
                1024,
            ),
            "seconds a file, all over a tenth": (round(slope, 3), "<=", 1.2),
        },
    )


if __name__ == "__main__":
    main()
