"""What all benchmarks share: jobs to commit, stores with a price for each request, rounds and results.

A result is one JSON file in ``benchmarks/results`` with the commit, the machine, its load and the
versions. This machine's absolute numbers mean little; ratios within one run do.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

import ray_committer
from ray_committer import CommitOptions
from ray_committer.executors.ray.executor import RayExecutor, RayPool
from ray_committer.limits.permits import Permits
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.protocol.manifest import STAMP, DirEntry, FileEntry, TaskManifest, encode_manifest
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import StoreCall, WrappedStore, run_commit
from ray_committer.work.worker import Worker

RESULTS = Path(__file__).parent / "results"
ROUNDS = 5
_LOAD_BEFORE = os.getloadavg()
_NO_RESULTS = ":(exclude)benchmarks/results"


class AsRemote(LocalStore):
    """Local files as on a store behind a network, which has no links and no other file systems."""

    capabilities = replace(LocalStore.capabilities, renames_are_local=False)
    first_link = StoreOperations.first_link
    real_path = StoreOperations.real_path
    file_system = StoreOperations.file_system
    network_file_system = StoreOperations.network_file_system


class PricedStore(WrappedStore):
    """Local files as behind a network: each request is `seconds` long, and is counted."""

    def __init__(self, seconds: float) -> None:
        super().__init__(AsRemote(StoreSpec("file")), before=self._pay)
        self.requests: deque[str] = deque()
        self._seconds = seconds

    def _pay(self, call: StoreCall) -> None:
        self.requests.append(call.operation)
        time.sleep(self._seconds * (2 if call.operation == "write" else 1))  # create and close


@dataclass(frozen=True, slots=True)
class OpenPriced:
    """Opens a worker on a `PricedStore`; travels to Ray's workers."""

    seconds: float
    job: JobAttempt
    concurrency: int

    def __call__(self, permits: Permits) -> Worker:
        return Worker(PricedStore(self.seconds), self.job, permits, self.concurrency, in_driver=False)


def write_job(
    root: Path,
    *,
    tasks: int,
    files: int,
    directories: int,
    make: Callable[[Path], object] = os.makedirs,
) -> JobAttempt:
    """A fresh job of `tasks` tasks with `files` files each, every task in all of the `directories`;
    `make` makes its destination."""
    shutil.rmtree(root, ignore_errors=True)
    job = new_job_attempt(str(root), "job_1", 0)
    make(root)
    stamp = setup_job(LocalStore(StoreSpec("file")), job)
    for task in range(tasks):
        attempt = job.task_attempt(f"attempt_1_m_{task:06d}_0")
        entries = []
        for number in range(directories):
            os.makedirs(f"{attempt}/p={number}")
        for number in range(files):
            name = f"p={number % directories}/part-{task:05d}-{number:05d}"
            with open(f"{attempt}/{name}", "wb") as file:
                file.write(b"0123456789abcdef")
            modified = os.stat(f"{attempt}/{name}").st_mtime_ns // 1_000_000
            entries.append(
                FileEntry(s=f"file://{attempt}/{name}", d=f"file://{root}/{name}", z=16, m=modified)
            )
        write_manifest(job, task, entries, directories=directories, stamp=stamp)
    return job


def write_manifest(
    job: JobAttempt, task: int, entries: list[FileEntry], *, directories: int, stamp: str | None = None
) -> None:
    """Save the manifest of one task; without a `stamp` it is one of a job that Hadoop set up."""
    named = [f"/p={number}" for number in range(directories)]
    manifest = task_manifest(job, task, entries, directories=named, stamp=stamp)
    Path(job.manifest(task_name(task))).write_bytes(encode_manifest(manifest))


def task_name(task: int) -> str:
    """The id of a task."""
    return f"task_1_m_{task:06d}"


def task_manifest(
    job: JobAttempt,
    task: int,
    entries: list[FileEntry],
    *,
    directories: Iterable[str],
    stamp: str | None,
    store: str = "file://",
) -> TaskManifest:
    """What a task says of itself that wrote to `directories` below the destination, each after a slash;
    its paths begin with `store`."""
    return TaskManifest(
        job_id=job.job_id,
        task_id=task_name(task),
        task_attempt_id=f"attempt_1_m_{task:06d}_0",
        task_attempt_dir=store + job.task_attempt(f"attempt_1_m_{task:06d}_0"),
        files=entries,
        directories=[DirEntry(f"{store}{job.destination}{own}") for own in directories],
        extra_data={} if stamp is None else {STAMP: stamp},
    )


def rounds(measure: Callable[[], dict[str, float]], *, number: int = ROUNDS) -> dict[str, Any]:
    """Measure once to warm up, then `number` times: every value of each, and the medians."""
    measure()
    found = [measure() for _ in range(number)]
    return {"rounds": found, "median": medians(found)}


def medians(found: list[dict[str, float]]) -> dict[str, float]:
    """The median of each value of several measurements."""
    return {key: round(statistics.median(one[key] for one in found), 4) for key in found[0]}


def commit_on_ray(
    job: JobAttempt,
    opens: Callable[[Permits], Worker],
    *,
    seconds: float,
    workers: int,
    threads: int,
    pool: RayPool | None = None,
    store: PricedStore | None = None,
) -> tuple[CommitResult, float]:
    """Commit a job on Ray: its report, and the seconds of the whole commit with the start of workers.
    `store` is the driver's."""
    options = CommitOptions(workers=workers, worker_threads=threads, validate=False)
    started = time.monotonic()
    executor = RayExecutor(opens, options, pool=pool)
    try:
        executor.start_workers()
        report = run_commit(store or PricedStore(seconds), job, options, executor=executor)
    finally:
        executor.close()
    return report, time.monotonic() - started


@contextmanager
def local_ray(cpus: int = 4) -> Iterator[None]:
    """A Ray of this machine alone, which ends with the block."""
    import ray

    ray.init(
        address="local",
        num_cpus=cpus,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="warning",
    )
    try:
        yield
    finally:
        ray.shutdown()


def save(
    name: str, question: str, found: dict[str, Any], bars: dict[str, tuple[float, str, float]]
) -> None:
    """Write ``results/name.json`` and print it; exit 1 if a bar is missed.

    `bars` are what was measured, ``>=`` or ``<=``, and the bar.
    """
    met = {
        text: {"measured": value, "bar": f"{sign} {bar}", "met": _holds(value, sign, bar)}
        for text, (value, sign, bar) in bars.items()
    }
    result = {
        "benchmark": name,
        "question": " ".join(question.split()),
        "commit": commit(),
        "host": {"cores": os.cpu_count(), "machine": platform.machine(), "kernel": platform.release()},
        "load": {"before": _LOAD_BEFORE, "after": os.getloadavg()},
        "versions": {
            "python": platform.python_version(),
            "ray_committer": ray_committer.__version__,
            "ray": version("ray"),
            "msgspec": msgspec.__version__,
        },
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "bars": met,
        **found,
    }
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(result, indent=1)
    (RESULTS / f"{name}.json").write_text(text + "\n")
    print(json.dumps({"benchmark": name, "bars": met}, indent=1))
    if not all(one["met"] for one in met.values()):
        sys.exit(1)


def _holds(value: float, sign: str, bar: float) -> bool:
    return value >= bar if sign == ">=" else value <= bar


def commit() -> str:
    """The commit that is checked out, and whether anything but results differs from it."""
    described, changed = (
        subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
        for arguments in (["describe", "--always"], ["diff", "HEAD", "--quiet", "--", ".", _NO_RESULTS])
    )
    return (described.stdout.strip() or "unknown") + ("-dirty" if changed.returncode else "")
