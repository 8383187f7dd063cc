"""The committers that `peers.py` compares: ours, Hadoop's in a JVM, and a loop of fsspec's `mv`."""

from __future__ import annotations

import gc
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import harness
from fsspec.implementations.local import LocalFileSystem
from one_file_tasks import processor_seconds
from peer_jobs import Place, Shape

import ray_committer
from ray_committer import CommitOptions, CommittedTask
from ray_committer.executors.ray.executor import RayExecutor, RayPool
from ray_committer.executors.threads import ThreadsExecutor
from ray_committer.job_files.read_job import as_set_up
from ray_committer.job_files.set_up_here import take
from ray_committer.options import TEXT_BYTES, TEXT_FILES
from ray_committer.protocol.manifest import TaskManifest, digest, encode_manifest
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.staging import key_of, token_of
from ray_committer.protocol.uri import Location
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreSpec
from ray_committer.testing import run_commit
from ray_committer.work.load_ahead import LoadAhead
from ray_committer.work.worker import Worker

THREADS, WARM, COLD = "ray_committer, threads", "ray_committer, warm pool", "ray_committer, cold"
MANIFEST, MOVES = "Hadoop's manifest committer", "fsspec mv"
V1, V2 = "FileOutputCommitter v1", "FileOutputCommitter v2"
TASKS_AT_ONCE = 32

ROOT = Path(__file__).parents[1]
SETTLE_SECONDS = 0.2
"""For what the committer before has left to do: a JVM goes on compiling, a disk goes on writing."""
JOB = "5f0c1e7a-7b1f-4c35-9a51-0d8f3c2b6a10"
_TRACKER = "202401011200"
_JARS = ".venv-spark4/lib/python3*/site-packages/pyspark/jars"
_METERED = ROOT / "tests" / "integration" / "spark" / "java" / "MeteredFileSystem.java"
_FACTORIES = "mapreduce.outputcommitter.factory.scheme"
_FACTORY = "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitterFactory"
_OLD_NAMENODE = {
    "fs.hdfs.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
    "fs.hdfs.impl.disable.cache": "true",
    "fs.viewfs.overload.scheme.target.hdfs.impl": "org.apache.hadoop.hdfs.DistributedFileSystem",
}
"""With a mount of all of HDFS, the manifest committer spares a request that the NameNode here lacks."""


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
        directories = len(shape.directories) if shape.files > 1 else 0

        def save(task: int) -> CommittedTask:
            manifest = harness.task_manifest(
                job, task, files[task], directories=directories, stamp=stamp, store=scheme
            )
            data = encode_manifest(manifest)
            place.store.write(job.manifest(harness.task_name(task)), data)
            return committed_task(job.manifest(harness.task_name(task)), data, manifest)

        with ThreadPoolExecutor(place.threads) as pool:
            self.committed = list(pool.map(save, range(shape.tasks)))
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
    """This package, by threads or by Ray: workers that are ready in a `pool`, or of the commit's own."""

    def __init__(
        self,
        name: str,
        in_flight: int,
        workers: int | None = None,
        pool: RayPool | None = None,
        *,
        store: Callable[[float], harness.PricedStore] = harness.PricedStore,
    ) -> None:
        self.name = name
        self._store = store
        self.ahead: LoadAhead | None = None
        """What the driver has loaded while tasks ran, if anything."""
        self._in_flight = in_flight
        self._pool = pool
        threads = in_flight if workers is None else in_flight // workers
        self._options = CommitOptions(
            validate=False, workers=workers, worker_threads=threads, threads=in_flight
        )

    def commit(self, place: Place) -> dict[str, float]:
        job = new_job_attempt(place.root, JOB, 0)
        if place.seconds:
            return self._commit_priced(place.seconds, job)
        executor: Any = self._pool or ("ray" if self._options.workers else "threads")
        ray_committer.commit_job(
            place.url, JOB, committed=self.committed, executor=executor, options=self._options
        )
        return {}

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
            run_commit(store, job, self._exactly(), executor=executor, state=state, ahead=self.ahead)
        finally:
            executor.close()
        counted = len(store.requests) + store.requests.count("write")
        return {} if self._options.workers else {"requests": counted}

    def _exactly(self) -> CommitOptions:
        return self._options.changed(
            expected_tasks=len(self.committed),
            committed_tasks=tuple(self.committed),
            ignore_other_attempts=True,
        )


class Jvm:
    """A JVM with the Hadoop of PySpark 4, driven by py4j; its local files are metered."""

    def __init__(self, gateway: Any) -> None:
        self.jvm = gateway.jvm

    def reset(self, millis: float) -> None:
        self.jvm.MeteredFileSystem.reset(int(millis))

    def requests(self) -> int:
        lines = self.jvm.MeteredFileSystem.counts().splitlines()
        return sum(int(line.rpartition(": ")[2]) for line in lines)

    def committer(self, place: Place, settings: dict[str, str]) -> tuple[Any, Any]:
        """A job's committer and context."""
        mapreduce = self.jvm.org.apache.hadoop.mapreduce
        context = mapreduce.task.JobContextImpl(
            self._configuration(place, settings), mapreduce.JobID(_TRACKER, 1)
        )
        return self._created(place, self.task(place, settings, 0)), context

    def commit_task(self, place: Place, settings: dict[str, str], number: int) -> None:
        context = self.task(place, settings, number)
        self._created(place, context).commitTask(context)

    def task(self, place: Place, settings: dict[str, str], number: int) -> Any:
        """The context of a task."""
        mapreduce = self.jvm.org.apache.hadoop.mapreduce
        job = mapreduce.JobID(_TRACKER, 1)
        attempt = mapreduce.TaskAttemptID(mapreduce.TaskID(job, mapreduce.TaskType.MAP, number), 0)
        return mapreduce.task.TaskAttemptContextImpl(self._configuration(place, settings), attempt)

    def _created(self, place: Place, context: Any) -> Any:
        path = self.jvm.org.apache.hadoop.fs.Path(place.url)
        factory = self.jvm.org.apache.hadoop.mapreduce.lib.output.PathOutputCommitterFactory
        return factory.createCommitter(path, context)

    def _configuration(self, place: Place, settings: dict[str, str]) -> Any:
        found = self.jvm.org.apache.hadoop.conf.Configuration()
        given = {"fs.file.impl": "MeteredFileSystem", "spark.sql.sources.writeJobUUID": JOB}
        if any(name.startswith("mapreduce.manifest") for name in settings):
            given |= {f"{_FACTORIES}.{scheme}": _FACTORY for scheme in ("file", "hdfs")} | _OLD_NAMENODE
        for name, value in {**given, **settings}.items():
            found.set(name, value)
        return found


@contextmanager
def hadoop() -> Iterator[Jvm]:
    """A JVM with Hadoop 3.5, which PySpark 4 brings (``make spark4``)."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    jars = next(iter(ROOT.glob(_JARS)), None)
    if jars is None:
        raise SystemExit(f"{ROOT / _JARS}: no jars of Hadoop 3.5. Run `make spark4` first.")
    with tempfile.TemporaryDirectory(prefix="peers-classes-") as classes:
        compile_ = ["javac", "-nowarn", "-cp", f"{jars}/*", "-d", classes, str(_METERED)]
        subprocess.run(compile_, check=True, capture_output=True)
        port = launch_gateway(
            jarpath=str(next(jars.glob("py4j*.jar"))),
            classpath=f"{classes}:{jars}/*",
            javaopts=["-Xmx1500m"],
            die_on_exit=True,
        )
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        try:
            yield Jvm(gateway)
        finally:
            gateway.shutdown()


class HadoopManifest(WithManifests):
    """Hadoop's manifest committer; it commits jobs of our tasks as its own."""

    name = MANIFEST

    def __init__(self, jvm: Jvm, in_flight: int) -> None:
        self._jvm = jvm
        self._settings = {"mapreduce.manifest.committer.io.threads": str(in_flight)}

    def commit(self, place: Place) -> dict[str, float]:
        return commit_by(self._jvm, place, self._settings)


class FileOutput(Committer):
    """Hadoop's FileOutputCommitter, whose tasks leave their files in directories."""

    def __init__(self, jvm: Jvm, version: int) -> None:
        self.name = {1: V1, 2: V2}[version]
        self._jvm = jvm
        self._settings = {"mapreduce.fileoutputcommitter.algorithm.version": str(version)}

    def write(self, place: Place, shape: Shape) -> dict[str, float]:
        job = f"{place.root}/_temporary/0"
        if self.name == V1:
            place.write(shape, lambda task, own: (f"{job}/task_{_TRACKER}_0001_m_{task:06d}{own}", ""))
            return {}
        attempts = f"{job}/_temporary/attempt_{_TRACKER}_0001_m_"
        place.write(shape, lambda task, own: (f"{attempts}{task:06d}_0{own}", ""))
        self._jvm.reset(place.seconds * 1000)
        begun = time.perf_counter()
        with ThreadPoolExecutor(TASKS_AT_ONCE) as pool:
            commit = partial(self._jvm.commit_task, place, self._settings)
            list(pool.map(commit, range(shape.tasks)))
        taken = time.perf_counter() - begun
        return {"tasks_seconds": taken} if place.seconds else {}

    def commit(self, place: Place) -> dict[str, float]:
        return commit_by(self._jvm, place, self._settings)


def commit_by(jvm: Jvm, place: Place, settings: dict[str, str]) -> dict[str, float]:
    jvm.reset(place.seconds * 1000)
    committer, context = jvm.committer(place, settings)
    committer.commitJob(context)
    counted = jvm.requests()
    jvm.reset(0)
    return {"requests": counted} if place.url.startswith("file:") else {}


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
