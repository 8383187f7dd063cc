"""Committers that `peers.py` compares: ours, and a loop of fsspec's `mv`."""

from __future__ import annotations

import gc
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import harness
from fsspec.implementations.local import LocalFileSystem
from one_file_tasks import processor_seconds
from peer_jobs import Place, Shape

from ray_committer import CommitOptions, CommittedTask
from ray_committer.events import ignore
from ray_committer.executors.ray.executor import RayExecutor, RayPool
from ray_committer.executors.threads import ThreadsExecutor
from ray_committer.job_files.read_job import as_set_up
from ray_committer.job_files.set_up_here import take
from ray_committer.jobs.commit import run_commit as run_commit_at
from ray_committer.options import TEXT_BYTES, TEXT_FILES
from ray_committer.protocol.manifest import TaskManifest, digest, encode_manifest
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.staging import key_of, token_of
from ray_committer.protocol.uri import Location
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreSpec
from ray_committer.testing import run_commit
from ray_committer.testing.harness import load_ahead
from ray_committer.work.load_ahead import LoadAhead
from ray_committer.work.worker import Worker

THREADS, WARM, COLD = "ray_committer, threads", "ray_committer, warm pool", "ray_committer, cold"
ALONE = "ray_committer, threads, manifests read at the commit"
MOVES = "fsspec mv"

ROOT = Path(__file__).parents[1]
SETTLE_SECONDS = 0.2
"""For what the committer before has left to do: a JVM goes on compiling, a disk goes on writing."""
JOB = "5f0c1e7a-7b1f-4c35-9a51-0d8f3c2b6a10"


class Committer(ABC):
    """A way to commit a job at a place: `write` its tasks, then `commit` it, which is measured."""

    name: str

    @abstractmethod
    def write(self, place: Place, shape: Shape) -> dict[str, float]:
        """Write a job; what else was measured meanwhile."""

    @abstractmethod
    def commit(self, place: Place) -> dict[str, float]:
        """Commit it; what was counted."""

    def measure(self, place: Place, shape: Shape) -> dict[str, float]:
        place.clear()
        found = self.write(place, shape)
        gc.collect()  # what the tasks have left is not the commit's to collect
        time.sleep(SETTLE_SECONDS)
        computed = processor_seconds()
        begun = time.perf_counter()
        counted = self.commit(place)
        seconds = time.perf_counter() - begun
        found |= {"seconds": seconds, "processor_seconds": processor_seconds() - computed, **counted}
        place.check(shape)
        return found


class WithManifests(Committer):
    """A committer of jobs whose tasks have saved manifests."""

    def write(self, place: Place, shape: Shape) -> dict[str, float]:
        job = new_job_attempt(place.root, JOB, 0)
        # What a job that appends will declare is written now, as on a store behind a network.
        store = harness.AsRemote(StoreSpec("file")) if place.seconds else place.store
        stamp = setup_job(store, job, writes=(place.root,), is_new_id=True)
        files = place.write(shape, partial(self.where, job))
        scheme = place.url.removesuffix(place.root)

        def save(task: int) -> CommittedTask:
            owns = [own for own in shape.of_task(task) if own]
            manifest = harness.task_manifest(
                job, task, files[task], directories=owns, stamp=stamp, store=scheme
            )
            data = encode_manifest(manifest)
            place.store.write(job.manifest(harness.task_name(task)), data)
            return committed_task(job.manifest(harness.task_name(task)), data, manifest)

        self.committed = place.map(save, range(shape.tasks))
        return {}

    def where(self, job: JobAttempt, task: int, own: str) -> tuple[str, str]:
        """Where a task writes files for a directory: as Hadoop's tasks do, in a directory of its own."""
        return f"{job.task_attempt(_attempt(task))}{own}", ""


def _attempt(task: int) -> str:
    return f"attempt_1_m_{task:06d}_0"


def committed_task(path: str, data: bytes, manifest: TaskManifest) -> CommittedTask:
    """What a task's driver is told of it: a small manifest itself."""
    files = len(manifest.files)
    is_small = len(data) <= TEXT_BYTES and files <= TEXT_FILES
    name, text = path.rpartition("/")[2], data if is_small else None
    return CommittedTask(name, digest(data), manifest.task_attempt_id, len(data), files, text)


class Ours(WithManifests):
    """This package, by threads or by Ray: workers that are ready in a `pool`, or of the commit's own.

    What the tasks have saved is loaded before the commit, as by Spark's driver while other tasks still
    run, unless it `reads_manifests` itself, as for a program that calls `commit_job`. Hadoop's committer
    reads manifests at the commit, since its driver is told nothing of its tasks before."""

    def __init__(
        self,
        name: str,
        in_flight: int,
        workers: int | None = None,
        pool: RayPool | None = None,
        *,
        reads_manifests: bool = False,
        store: Callable[[float], harness.PricedStore] = harness.PricedStore,
    ) -> None:
        self.name = name
        self._store = store
        self._reads_manifests = reads_manifests
        self._in_flight = in_flight
        self._pool = pool
        threads = in_flight if workers is None else in_flight // workers
        self._options = CommitOptions(workers=workers, worker_threads=threads, threads=in_flight)

    def write(self, place: Place, shape: Shape) -> dict[str, float]:
        super().write(place, shape)
        self._ahead: LoadAhead | None = None
        if self._reads_manifests:
            return {}
        store = harness.PricedStore(0.0) if place.seconds else place.store
        self._ahead = load_ahead(store, new_job_attempt(place.root, JOB, 0), self.committed)
        return {"requests_ahead": requests_of(store)} if isinstance(store, harness.PricedStore) else {}

    def commit(self, place: Place) -> dict[str, float]:
        job = new_job_attempt(place.root, JOB, 0)
        if place.seconds:
            return self._commit_priced(place.seconds, job)
        result = run_commit_at(
            place.url,
            JOB,
            executor=self._pool or ("ray" if self._options.workers else "threads"),
            options=self._exactly(),
            storage_options=None,
            on_event=ignore,
            ahead=self._ahead,
        )
        return {"whole": result.whole}

    def where(self, job: JobAttempt, task: int, own: str) -> tuple[str, str]:
        """Beside the files of other tasks for the same directory."""
        token = token_of(_attempt(task))
        if not own:
            return job.staged_root(task), f"-{token}"
        place, table = Location("", "", job.destination + own), Location("", "", job.destination)
        return job.staged(key_of(place, table)), f"-{token}"

    def _commit_priced(self, seconds: float, job: JobAttempt) -> dict[str, float]:
        store = self._store(seconds)
        executor: Any
        if self._options.workers:
            opens = harness.OpenPriced(seconds, job, self._options.worker_threads)
            executor = RayExecutor(opens, self._options, pool=self._pool)
        else:
            executor = ThreadsExecutor(
                lambda permits: Worker(store, job, permits, in_driver=True),
                threads=self._in_flight,
                waits=True,
            )
        known = take(store, job.destination, job.job_id, 0)
        assert known is not None, "another process has set it up"
        try:
            state = as_set_up(store, *known)
            result = run_commit(
                store, job, self._exactly(), executor=executor, state=state, ahead=self._ahead
            )
        finally:
            executor.close()
        counted = {} if self._options.workers else {"requests": requests_of(store)}
        return {"whole": result.whole, **counted}

    def _exactly(self) -> CommitOptions:
        return self._options.changed(
            expected_tasks=len(self.committed),
            committed_tasks=tuple(self.committed),
            ignore_other_attempts=True,
        )


def requests_of(store: harness.PricedStore) -> int:
    """The requests of a store so far; a file that is written is two, to create and to close it."""
    return len(store.requests) + store.requests.count("write")


class Moves(Committer):
    """A loop of fsspec's `mv` over the files of each task, as scripts do it."""

    name = MOVES

    def write(self, place: Place, shape: Shape) -> dict[str, float]:
        job = f"{place.root}/_temporary/0"
        place.write(shape, lambda task, own: (f"{job}/task_{task:06d}{own}", ""))
        return {}

    def commit(self, place: Place) -> dict[str, float]:
        job = f"{place.root}/_temporary/0"
        self._requests, self._filesystem = 1, self._open(place)
        self._filesystem.makedirs(place.root, exist_ok=True)
        for task in self._list(job):
            self._move_all(task["name"], place.root)
        self._filesystem.rm(f"{place.root}/_temporary", recursive=True)
        return {"requests": self._requests + 1} if place.url.startswith("file:") else {}

    def _move_all(self, directory: str, dest: str) -> None:
        for one in self._list(directory):
            target = f"{dest}/{one['name'].rpartition('/')[2]}"
            self._requests += 1
            if one["type"] == "directory":
                self._filesystem.makedirs(target, exist_ok=True)
                self._move_all(one["name"], target)
            else:
                self._filesystem.mv(one["name"], target)

    def _list(self, directory: str) -> list[dict[str, Any]]:
        self._requests += 1
        found: list[dict[str, Any]] = self._filesystem.ls(directory, detail=True)
        return found

    def _open(self, place: Place) -> Any:
        if place.url.startswith("file:"):
            return LocalFileSystem()
        from hdfs_native.fsspec import HdfsFileSystem

        host, _, port = place.store.spec.authority.partition(":")
        return HdfsFileSystem(host, int(port))
