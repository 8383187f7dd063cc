"""How much processor time does one rename cost, where it waits for a store and where the kernel does it?

The rename stage of a commit with the threads of this process, events and statistics included: 10,000
renames that do nothing but take 20 ms, by 32 threads, and as many on the local file system. Microseconds
of user and system time a file. Beside each what nobody can save: threads that wait as often, and the
kernel's rename by itself. And is a Ray worker with 64 threads slower there than one with 16?
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import harness

from ray_committer import CommitOptions
from ray_committer.events import Event, StageEnded, StageStarted
from ray_committer.executors.threads import ThreadsExecutor
from ray_committer.limits.permits import Permits
from ray_committer.limits.ratelimit import RateLimit
from ray_committer.protocol.paths import JobAttempt
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import run_commit
from ray_committer.work.worker import Worker

SECONDS = 0.020
TASKS, FILES_A_TASK, DIRECTORIES, THREADS = 20, 500, 10, 32
FILES = TASKS * FILES_A_TASK
RENAME = "job_stage_rename_files"


def measure(root: Path, store: StoreOperations) -> dict[str, float]:
    """One commit: processor time of its rename stage."""
    job = harness.write_job(root, tasks=TASKS, files=FILES_A_TASK, directories=DIRECTORIES)
    executor = ThreadsExecutor(
        lambda permits: Worker(store, job, permits, in_driver=True), threads=THREADS
    )
    used: dict[str, float] = {}

    def listen(event: Event) -> None:
        if isinstance(event, StageStarted | StageEnded) and event.stage == RENAME:
            used[type(event).__name__] = time.process_time()

    report = run_commit(store, job, CommitOptions(validate=False), executor=executor, on_event=listen)
    executor.close()
    seconds = used["StageEnded"] - used["StageStarted"]
    return {
        "microseconds_a_file": seconds / FILES * 1e6,
        "stage_seconds": report.stage_seconds[RENAME],
    }


class WaitingStore(LocalStore):
    """Local files whose renames do nothing but wait."""

    capabilities = replace(LocalStore.capabilities, renames_are_local=False)

    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        time.sleep(SECONDS)


def only_wait() -> dict[str, float]:
    """As many waits, on as many threads."""

    def wait(_: int) -> None:
        for _ in range(FILES // THREADS):
            time.sleep(SECONDS)

    begun = time.process_time()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(wait, range(THREADS)))
    return {"microseconds_a_file": (time.process_time() - begun) / FILES * 1e6}


def pairs_of(root: Path, job: JobAttempt) -> list[tuple[str, str]]:
    """Where each file of a job is, and where it goes; the directories are made."""
    for number in range(DIRECTORIES):
        os.makedirs(f"{root}/p={number}", exist_ok=True)
    sources = [str(path) for path in Path(job.tasks).rglob("part-*")]
    return [
        (one, f"{root}/p={n % DIRECTORIES}/{os.path.basename(one)}") for n, one in enumerate(sources)
    ]


def on_threads_of_a_worker(root: Path, threads: int) -> float:
    """Seconds of the renames by a worker's threads, without anything else."""
    job = harness.write_job(root, tasks=TASKS, files=FILES_A_TASK, directories=DIRECTORIES)
    permits = Permits(RateLimit(), "here", is_here=True)
    worker = Worker(LocalStore(StoreSpec("file")), job, permits, threads, in_driver=False)
    pairs, begun = pairs_of(root, job), time.monotonic()
    list(worker.map(lambda pair: worker.store.rename(*pair), pairs))
    seconds = time.monotonic() - begun
    worker.close()
    return seconds


def sixty_four_to_sixteen(root: Path) -> dict[str, float]:
    """How many times as long 64 threads take."""
    return {"ratio": on_threads_of_a_worker(root, 64) / on_threads_of_a_worker(root, 16)}


def only_rename(root: Path) -> dict[str, float]:
    """As many renames of as long names, each from a task's directory to a partition's."""
    shutil.rmtree(root, ignore_errors=True)
    job = harness.write_job(root, tasks=TASKS, files=FILES_A_TASK, directories=DIRECTORIES)
    pairs = pairs_of(root, job)
    begun = time.process_time()
    for source, dest in pairs:
        os.rename(source, dest)
    return {"microseconds_a_file": (time.process_time() - begun) / len(pairs) * 1e6}


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="rename-cpu-")) / "table"
    waiting = harness.rounds(lambda: measure(root, WaitingStore(StoreSpec("file"))))
    local = harness.rounds(lambda: measure(root, LocalStore(StoreSpec("file"))))
    waits, renames = harness.rounds(only_wait), harness.rounds(lambda: only_rename(root))
    pools = harness.rounds(lambda: sixty_four_to_sixteen(root))
    harness.save(
        "rename_cpu",
        __doc__,
        {
            "files": FILES,
            "waiting": waiting,
            "local": local,
            "only_waiting": waits,
            "only_renaming": renames,
            "threads_of_a_worker": pools,
        },
        {
            "a waiting rename, microseconds": (waiting["median"]["microseconds_a_file"], "<=", 45.0),
            "a local rename, microseconds": (local["median"]["microseconds_a_file"], "<=", 15.0),
            "local renames, 64 threads of a worker to 16": (pools["median"]["ratio"], "<=", 1.5),
        },
    )


if __name__ == "__main__":
    main()
