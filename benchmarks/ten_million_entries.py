"""How much memory does the driver need for ten million files, and is the time linear in files?

100,000 manifests of 100 entries, loaded, checked, planned and renamed by two Ray workers with a rename
that does nothing; a tenth of that for the slope. Memory is the driver's peak resident size
(``ru_maxrss``) in a process of its own, and its growth while it commits. What a shard costs the driver
is its processor time while files are renamed, over the shards; so, too, for 1,000 and 100,000 tasks of
one file each.

In one more shape the same files go to 100,000 partitions that are new, a hundred to each, from as many
tasks, and lie together by partition. Its store makes up the listing of each such directory, and puts
none of them in place although it says so. The driver knows how many tasks there are, as that of a job of
100,000 tasks does: one that does not lists all files of tasks itself.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import harness

from ray_committer import CommitOptions
from ray_committer.events import Event, ShardRenamed, StageEnded, StageStarted
from ray_committer.executors.ray.executor import RayExecutor
from ray_committer.limits.permits import Permits
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.manifest import FileEntry
from ray_committer.protocol.paths import STAGED, JobAttempt, new_job_attempt, parent
from ray_committer.protocol.staging import key_of, token_of
from ray_committer.protocol.uri import Location
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import FileStatus, StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import run_commit
from ray_committer.work.worker import Worker

MANY_FILES, ONE_FILE = 100, 1
FEW_TASKS = 1_000
GROUP = 100
"""The tasks that write to the same directories, and the directories of each such group."""
SIZE, MODIFIED = 16, 1
WORKERS = 2


class NothingMoves(LocalStore):
    """Local manifests, as if they were remote; renames and directories of the output are claimed, not
    made, and nobody looks at the files first."""

    network_file_system = StoreOperations.network_file_system

    def __init__(self, job: JobAttempt) -> None:
        super().__init__(StoreSpec("file"))
        self.capabilities = replace(self.capabilities, listing_is_cheap=False)
        self._temporary = job.temporary

    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        if dest.startswith(self._temporary):
            super().rename(source, dest, version)

    def mkdirs(self, path: str) -> None:
        if path.startswith(self._temporary):
            super().mkdirs(path)


class PartitionsMove(NothingMoves):
    """The same, for files that lie together by partition, in directories that are empty: what one would
    hold is made up from the time that it has, which is its number. To put it in place does nothing."""

    def __init__(self, job: JobAttempt) -> None:
        super().__init__(job)
        self.capabilities = replace(self.capabilities, listing_is_cheap=True)

    def list_status(self, path: str) -> list[FileStatus]:
        if parent(path).rpartition("/")[2] != STAGED:
            return super().list_status(path)
        group = int(os.stat(path).st_mtime) // GROUP
        return [
            FileStatus(f"{path}/{staged_name(task)}", False, size=SIZE, modified_milliseconds=MODIFIED)
            for task in range(group * GROUP, (group + 1) * GROUP)
        ]

    def move_whole(self, source: str, dest: str) -> None:
        if dest.startswith(self._temporary):
            super().move_whole(source, dest)


@dataclass(frozen=True, slots=True)
class OpenNothing:
    """Opens a worker on one of these stores."""

    job: JobAttempt
    store: type[NothingMoves]

    def __call__(self, permits: Permits) -> Worker:
        return Worker(self.store(self.job), self.job, permits, 4, in_driver=False)


Entries = Callable[[JobAttempt, int, int], Iterator[FileEntry]]


def write_manifests(root: Path, tasks: int, files: int, entries_of: Entries) -> None:
    """The manifests of a job of so many `tasks` with so many `files` each, without the files."""
    job = new_job_attempt(str(root), "job_1", 0)
    stamp = setup_job(LocalStore(StoreSpec("file")), job)
    for task in range(tasks):
        entries = list(entries_of(job, task, files))
        harness.write_manifest(job, task, entries, directories=0, stamp=stamp)


def of_days(job: JobAttempt, task: int, files: int) -> Iterator[FileEntry]:
    """The files of a task for one directory, which the next tasks share."""
    attempt = job.task_attempt(attempt_id(task))
    for number in range(files):
        name = f"year=2026/day={task // GROUP}/part-{task:06d}-{number:04d}.parquet"
        yield FileEntry(
            s=f"file://{attempt}/{name}", d=f"file://{job.destination}/{name}", z=SIZE, m=MODIFIED
        )


def of_partitions(job: JobAttempt, task: int, files: int) -> Iterator[FileEntry]:
    """The files of a task, each for a partition that the group of the task shares."""
    first, name = task // GROUP * GROUP, staged_name(task)
    for number in range(first, first + files):
        dest = f"{job.destination}/year=2026/item={number}"
        staged = staged_directory(job, dest, number, makes=task == first)
        yield FileEntry(s=f"file://{staged}/{name}", d=f"file://{dest}/{name}", z=SIZE, m=MODIFIED)


def staged_directory(job: JobAttempt, dest: str, number: int, *, makes: bool) -> str:
    """Where tasks put the files for a partition; the first of them makes it."""
    staged = job.staged(key_of(Location("", "", dest), Location("", "", job.destination)))
    if makes:
        os.makedirs(staged)
        os.utime(staged, (number, number))
    return staged


def attempt_id(task: int) -> str:
    return f"attempt_1_m_{task:06d}_0"


def staged_name(task: int) -> str:
    return f"part-{task:06d}-{token_of(attempt_id(task))}.parquet"


class RenamesWatch:
    """Processor seconds of this process while files are renamed, and how many shards there were."""

    def __init__(self) -> None:
        self.shards = 0
        self.seconds = 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, ShardRenamed):
            self.shards += 1
        elif isinstance(event, StageStarted) and event.stage == names.RENAME_FILES:
            self.seconds -= time.process_time()
        elif isinstance(event, StageEnded) and event.stage == names.RENAME_FILES:
            self.seconds += time.process_time()


def commit(
    job: JobAttempt,
    store: StoreOperations,
    opens: Callable[[Permits], Worker],
    *,
    tasks: int | None = None,
) -> dict[str, float]:
    """Commit in this process; seconds by stage and memory in megabytes. Workers open their stores by
    `opens`."""
    options = CommitOptions(
        workers=WORKERS, validate=False, cleanup=False, worker_threads=4, expected_tasks=tasks
    )
    with harness.local_ray(cpus=2):
        executor = RayExecutor(opens, options)
        executor.start_workers()
        before = rss()
        started = time.monotonic()
        watch = RenamesWatch()
        report = run_commit(store, job, options, executor=executor, on_event=watch)
        seconds = time.monotonic() - started
        executor.close()
    found = {name.removeprefix("job_stage_"): one for name, one in report.stage_seconds.items()}
    return {
        "files": report.files,
        "manifests": report.manifests,
        "whole": report.whole,
        "seconds": round(seconds, 2),
        "driver_cpu_seconds": round(resource.getrusage(resource.RUSAGE_SELF).ru_utime, 2),
        "peak_mb": round(peak() / 1e6, 1),
        "growth_mb": round((peak() - before) / 1e6, 1),
        "load_seconds": round(found["load_manifests"], 2),
        "rename_seconds": round(found["rename_files"], 2),
        "shards": watch.shards,
        "driver_ms_a_shard": round(1000 * watch.seconds / max(1, watch.shards), 3),
    }


def rss() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


SHAPES: dict[str, tuple[type[NothingMoves], Entries]] = {
    "days": (NothingMoves, of_days),
    "partitions": (PartitionsMove, of_partitions),
}


def measure(tasks: int, files: int, shape: str = "days") -> dict[str, float]:
    """A commit in a process of its own, of so many `tasks` with so many `files` each."""
    root = Path(tempfile.mkdtemp(prefix="ten-million-"))
    try:
        write_manifests(root, tasks, files, SHAPES[shape][1])
        run = subprocess.run(
            [
                sys.executable,
                __file__,
                "--commit",
                str(root),
                "--shape",
                shape,
                "--manifests",
                str(tasks),
            ],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
        print(found)
        return found
    finally:
        shutil.rmtree(root)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--manifests", type=int, default=100_000)
    parser.add_argument("--commit", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--shape", choices=SHAPES, help="measure only this one; nothing is saved")
    arguments = parser.parse_args()
    if arguments.commit:
        job, store = new_job_attempt(str(arguments.commit), "job_1", 0), SHAPES[arguments.shape][0]
        tasks = arguments.manifests if store is PartitionsMove else None
        print(json.dumps(commit(job, store(job), OpenNothing(job, store), tasks=tasks)))
        return
    if arguments.shape:
        measure(arguments.manifests, MANY_FILES, arguments.shape)
        return
    many = arguments.manifests
    few_ones, many_ones = measure(FEW_TASKS, ONE_FILE), measure(many, ONE_FILE)
    small, large = measure(many // 10, MANY_FILES), measure(many, MANY_FILES)
    new_partitions = measure(many, MANY_FILES, "partitions")
    slope = (large["seconds"] / large["files"]) / (small["seconds"] / small["files"])
    harness.save(
        "ten_million_entries",
        __doc__,
        {"runs": [few_ones, many_ones, small, large, new_partitions]},
        {
            "driver peak resident MB": (large["peak_mb"], "<=", 250),
            "driver peak resident MB, new partitions": (new_partitions["peak_mb"], "<=", 250),
            "new partitions that went whole": (new_partitions["whole"], ">=", many),
            "driver bytes a manifest": (
                round(
                    (large["peak_mb"] - small["peak_mb"])
                    * 1e6
                    / (large["manifests"] - small["manifests"])
                ),
                "<=",
                1024,
            ),
            "seconds a file, all over a tenth": (round(slope, 3), "<=", 1.1),
            "driver's ms a shard, many tasks of one file": (many_ones["driver_ms_a_shard"], "<=", 0.5),
            "driver's ms a shard, many tasks of one file over few": (
                round(many_ones["driver_ms_a_shard"] / few_ones["driver_ms_a_shard"], 2),
                "<=",
                2.0,
            ),
            "driver's ms a shard, many tasks": (large["driver_ms_a_shard"], "<=", 0.5),
        },
    )


if __name__ == "__main__":
    main()
