"""Hadoop's committers, of Hadoop 3.5 in a JVM that Python drives, beside those of `peer_committers`."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from peer_committers import JOB, ROOT, Committer, WithManifests
from peer_jobs import Place, Shape

MANIFEST = "Hadoop's manifest committer"
V1, V2 = "FileOutputCommitter v1", "FileOutputCommitter v2"
TASKS_AT_ONCE = 32

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
