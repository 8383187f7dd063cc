"""What does the log of a table add to a commit, and how do 100 jobs fare that all commit to one table at
the same moment?

The requests are those of set-up and commit, with and without a log. Commits of 100,000 files, at 20
milliseconds per request, run with a log in threads, and on Ray with and without a log in turn. The log's
share is the time in which requests to it are under way, on Ray those of the driver; the checkpoint is
among them. Ten files are committed on local files without a price. Each of the 100 jobs is a thread of
one process. There a request takes 350 milliseconds, so that the processor of one machine, which 100
drivers would not share, matters little; the seconds are a tenth of those measured.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import harness

from ray_committer.executors.ray.executor import RayPool
from ray_committer.executors.threads import ThreadsExecutor
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.table_entry import TableCommit, TableDefinition
from ray_committer.protocol.table_paths import DIRECTORY, TablePlaces
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.tables.log import read_entries
from ray_committer.tables.put import complete_table, init_table
from ray_committer.testing import StoreCall, WrappedStore, run_commit, write_job
from ray_committer.work.worker import Worker

LARGE_TASKS, FILES_PER_TASK, LARGE_SECONDS, LARGE_ROUNDS = 1_000, 100, 0.020, 3
WORKERS, THREADS = 4, 32
COMMITTERS, COMMITTERS_SECONDS, SLOWER = 100, 0.035, 10
SMALL_ROUNDS = 50
DEFINITION = TableDefinition(table_id="id", created_milliseconds=1)

Make = Callable[[Path], object]


class TimedLog(harness.PricedStore):
    """Knows for how long requests to the log of a table were under way, and how many they were."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.log_seconds, self.log_requests = 0.0, 0
        self._lock, self._under_way, self._since = threading.Lock(), 0, 0.0

    def _pay(self, call: StoreCall) -> None:
        if call.operation == "sync":  # only local files need it
            return
        if not is_log(call):
            super()._pay(call)
            return
        with self._lock:
            if not self._under_way:
                self._since = time.monotonic()
            self._under_way += 1
            self.log_requests += 1
        super()._pay(call)
        with self._lock:
            self._under_way -= 1
            if not self._under_way:
                self.log_seconds += time.monotonic() - self._since


def is_log(call: StoreCall) -> bool:
    return any(f"/{DIRECTORY}/" in path for path in call.paths)


def make_table(root: Path) -> None:
    """An empty destination with a log."""
    root.mkdir(parents=True)
    init_table(LocalStore(StoreSpec("file")), TablePlaces(str(root)), DEFINITION)


def requests(root: Path, tasks: int, files: int, make: Make) -> dict[str, int]:
    """The requests of set-up and of the commit, and those of them to the log."""
    shutil.rmtree(root, ignore_errors=True)
    make(root)
    calls: list[StoreCall] = []
    store = WrappedStore(LocalStore(StoreSpec("file")), before=calls.append)
    setup_job(store, new_job_attempt(str(root), "job_1", 0))
    job = harness.write_job(root, tasks=tasks, files=files, directories=4, make=make)
    run_commit(store, job)
    calls = [call for call in calls if call.operation != "sync"]  # only local files need it
    return {"all": len(calls), "to_the_log": sum(map(is_log, calls))}


def more_requests(root: Path, tasks: int, files: int) -> dict[str, Any]:
    without, with_log = (requests(root, tasks, files, make) for make in (os.makedirs, make_table))
    return {"without": without, "with": with_log, "more": with_log["all"] - without["all"]}


def write_large_job(root: Path, make: Make) -> JobAttempt:
    return harness.write_job(root, tasks=LARGE_TASKS, files=FILES_PER_TASK, directories=10, make=make)


def large_commit(root: Path, pool: RayPool, make: Make) -> dict[str, float]:
    """One commit on Ray, from call to return."""
    job = write_large_job(root, make)
    store = TimedLog(LARGE_SECONDS)
    report, seconds = harness.commit_on_ray(
        job,
        harness.OpenPriced(LARGE_SECONDS, job, THREADS),
        seconds=LARGE_SECONDS,
        workers=WORKERS,
        threads=THREADS,
        pool=pool,
        store=store,
    )
    assert report.files == LARGE_TASKS * FILES_PER_TASK
    return {"seconds": seconds, "of_the_log": 100 * store.log_seconds / seconds}


def large_commit_in_threads(root: Path) -> dict[str, Any]:
    """One commit with a log by the executor that commits without Ray have by default."""
    job = harness.write_job(
        root, tasks=LARGE_TASKS, files=FILES_PER_TASK, directories=10, make=make_table
    )
    store, options = TimedLog(LARGE_SECONDS), CommitOptions(validate=False)
    executor = ThreadsExecutor(
        lambda permits: Worker(store, job, permits, options.threads, in_driver=True),
        threads=options.threads,
    )
    begun = time.monotonic()
    try:
        report = run_commit(store, job, options, executor=executor)
    finally:
        executor.close()
    seconds = time.monotonic() - begun
    assert report.files == LARGE_TASKS * FILES_PER_TASK
    return {
        "in_flight": options.threads,
        "seconds": round(seconds, 3),
        "percent_of_the_log": round(100 * store.log_seconds / seconds, 3),
    }


def large_commits(root: Path) -> dict[str, Any]:
    """With and without a log in turn; the share of the log in per cent."""
    with harness.local_ray():
        pool = RayPool(CommitOptions(workers=WORKERS, worker_threads=THREADS))
        large_commit(root, pool, make_table)  # to warm up
        pairs = [
            (large_commit(root, pool, os.makedirs), large_commit(root, pool, make_table))
            for _ in range(LARGE_ROUNDS)
        ]
        pool.close()
    return {
        "in_flight": WORKERS * THREADS,
        "seconds_without": [round(one["seconds"], 3) for one, _ in pairs],
        "seconds_with": [round(one["seconds"], 3) for _, one in pairs],
        "percent_of_the_log": round(statistics.median(one["of_the_log"] for _, one in pairs), 3),
    }


def small_commit(root: Path, make: Make) -> float:
    """Milliseconds of a commit of ten local files."""
    job = harness.write_job(root, tasks=1, files=10, directories=2, make=make)
    begun = time.perf_counter()
    run_commit(LocalStore(StoreSpec("file")), job)
    return 1000 * (time.perf_counter() - begun)


def small_commits(root: Path) -> dict[str, float]:
    """Medians of commits with and without a log in turn."""
    pairs = [
        (small_commit(root, os.makedirs), small_commit(root, make_table)) for _ in range(SMALL_ROUNDS)
    ]
    without, with_log = (statistics.median(one) for one in zip(*pairs, strict=True))
    return {
        "milliseconds_without": round(without, 2),
        "milliseconds_with": round(with_log, 2),
        "milliseconds_more": round(statistics.median(more - less for less, more in pairs), 2),
    }


def at_once(root: Path) -> dict[str, Any]:
    """Jobs of one file that all commit to one table at the same moment."""
    make_table(root)
    complete_table(LocalStore(StoreSpec("file")), TablePlaces(str(root)), DEFINITION)
    jobs = [new_job_attempt(str(root), f"job_{number}", 0) for number in range(COMMITTERS)]
    for number, job in enumerate(jobs):
        write_job(LocalStore(StoreSpec("file")), job, {0: {f"part-{number}": b"x"}})
    gate = threading.Barrier(COMMITTERS)

    def commit(job: JobAttempt) -> tuple[float, TimedLog]:
        store = TimedLog(COMMITTERS_SECONDS * SLOWER)
        gate.wait()
        begun = time.monotonic()
        run_commit(store, job)
        return time.monotonic() - begun, store

    with ThreadPoolExecutor(COMMITTERS) as pool:
        ended = list(pool.map(commit, jobs))
    entries = read_entries(LocalStore(StoreSpec("file")), TablePlaces(str(root)))
    committed = {entry.job_id for _, entry in entries if isinstance(entry, TableCommit)}
    assert len(committed) == COMMITTERS
    assert [version for version, _ in entries] == list(range(1, len(entries) + 1))
    return {
        "seconds": round(max(seconds for seconds, _ in ended) / SLOWER, 2),
        "entries": len(entries),
        "most_requests": max(len(store.requests) for _, store in ended),
        "most_requests_to_the_log": max(store.log_requests for _, store in ended),
        "median_requests": statistics.median(len(store.requests) for _, store in ended),
    }


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="table-commits-"))
    try:
        few, many = more_requests(root / "few", 10, 100), more_requests(root / "many", 100, 200)
        small = small_commits(root / "small")
        rivals = at_once(root / "rivals")
        in_threads = large_commit_in_threads(root / "threads")
        on_ray = large_commits(root / "ray")
    finally:
        shutil.rmtree(root)
    harness.save(
        "table_commits",
        __doc__,
        {
            "1,000_files": few,
            "20,000_files": many,
            "ten_local_files": small,
            "at_once": {"jobs": COMMITTERS, "seconds_a_request": COMMITTERS_SECONDS, **rivals},
            "100,000_files": {
                "seconds_a_request": LARGE_SECONDS,
                "in_threads": in_threads,
                "on_ray": on_ray,
            },
        },
        {
            "requests without a log": (few["without"]["to_the_log"], "<=", 1),
            "more requests, 1,000 files": (few["more"], "<=", 14),
            "more requests, 20,000 files": (many["more"], "<=", 16),
            "ten local files, milliseconds more": (small["milliseconds_more"], "<=", 20.0),
            "100 jobs at once, seconds": (rivals["seconds"], "<=", 15.0),
            "100 jobs at once, requests of one": (rivals["most_requests"], "<=", 110),
            "100,000 files in threads, per cent of the log": (
                in_threads["percent_of_the_log"],
                "<=",
                2.0,
            ),
            "100,000 files on Ray, per cent of the log": (on_ray["percent_of_the_log"], "<=", 2.0),
        },
    )


if __name__ == "__main__":
    main()
