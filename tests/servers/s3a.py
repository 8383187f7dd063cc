"""Hadoop's S3A client and its magic committer, the real ones of Hadoop 3.3, in a JVM.

No package index offers ``hadoop-aws``, but the source package of ``sagemaker_pyspark`` holds its jar and
the SDK of AWS that it needs. They are put once into a cache directory, work with the Hadoop of PySpark
3.5, and are no part of this package. A server of S3 is not here: a job is given the URL of one.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.servers import source_jars

CACHE = Path(__file__).parents[2] / ".cache" / "servers" / "s3a"
MAGIC = "org.apache.hadoop.fs.s3a.commit.magic.MagicS3GuardCommitter"
TRACKER = "202401011200"
"""Of the job id that Hadoop gives a job, beside its UUID."""

_JARS = {"hadoop-aws": "3.3.1", "aws-java-sdk-bundle": "1.11.901"}
_PACKAGE = "sagemaker_pyspark", "1.4.5"
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
_FACTORY = "mapreduce.outputcommitter.factory.scheme.s3a"
_S3A_FACTORY = "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"


def install(cache: Path = CACHE) -> str:
    """Put the jars into `cache`, once for all processes; the class path of the S3A client."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (cache / "installed").exists():
            if shutil.which("java") is None:
                raise RuntimeError("S3A for the tests needs Java 17 (Debian: openjdk-17-jre-headless)")
            shutil.rmtree(cache / "jars", ignore_errors=True)
            (cache / "jars").mkdir()
            with tempfile.TemporaryDirectory(dir=cache) as scratch:
                source_jars.fetch(*_PACKAGE, _JARS, cache / "jars", Path(scratch))
            (cache / "installed").touch()
    return ":".join(str(cache / "jars" / f"{name}-{version}.jar") for name, version in _JARS.items())


def settings(endpoint: str) -> dict[str, str]:
    """Hadoop's settings of an S3 server on this machine, and of the magic committer there."""
    return {
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.access.key": "test",
        "fs.s3a.secret.key": "test",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.fast.upload.buffer": "array",
        "fs.s3a.committer.name": "magic",
        "fs.s3a.committer.magic.enabled": "true",
        _FACTORY: _S3A_FACTORY,
    }


@dataclass(frozen=True)
class S3AJob:
    """One job of the magic committer that writes to the URL `destination`."""

    jvm: Any
    destination: str
    uuid: str
    endpoint: str
    options: Mapping[str, str] = field(default_factory=dict)

    def setup_job(self) -> None:
        self._committer(0, 0).setupJob(self._job_context())

    def write_task(self, task: int, files: Mapping[str, bytes], attempt: int = 0) -> None:
        """Set up a task attempt and write its files, each of which becomes a pending upload."""
        committer = self._committer(task, attempt)
        committer.setupTask(self._task_context(task, attempt))
        work = committer.getWorkPath()
        filesystem = work.getFileSystem(self._configuration())
        for name, data in files.items():
            stream = filesystem.create(self.jvm.org.apache.hadoop.fs.Path(work, name), False)
            stream.write(data)
            stream.close()

    def commit_task(self, task: int, attempt: int = 0) -> None:
        """Save the task's pendingset; `Py4JJavaError` if Hadoop's committer fails, here and below."""
        self._committer(task, attempt).commitTask(self._task_context(task, attempt))

    def run_tasks(self, tasks: Mapping[int, Mapping[str, bytes]]) -> None:
        """Set up the job, and write and commit its tasks; the job itself is not committed."""
        self.setup_job()
        for task, files in tasks.items():
            self.write_task(task, files)
            self.commit_task(task)

    def commit_job(self) -> None:
        """Complete all uploads that the pendingsets name, as a new driver would."""
        committer = self._committer(0, 0)
        assert committer.getClass().getName() == MAGIC
        committer.commitJob(self._job_context())

    def pending_set(self, path: str) -> Any:
        """A pendingset as Hadoop itself reads and checks it."""
        hadoop_path = self.jvm.org.apache.hadoop.fs.Path(path)
        pending_set = self.jvm.org.apache.hadoop.fs.s3a.commit.files.PendingSet
        return pending_set.load(hadoop_path.getFileSystem(self._configuration()), hadoop_path)

    def _configuration(self) -> Any:
        configuration = self.jvm.org.apache.hadoop.conf.Configuration()
        given = {
            "fs.s3a.impl.disable.cache": "true",
            "spark.sql.sources.writeJobUUID": self.uuid,
            "fs.s3a.committer.uuid": self.uuid,
        }
        for name, value in {**settings(self.endpoint), **given, **self.options}.items():
            configuration.set(name, value)
        return configuration

    def _java_job_id(self) -> Any:
        return self.jvm.org.apache.hadoop.mapreduce.JobID(TRACKER, 7)

    def _job_context(self) -> Any:
        context = self.jvm.org.apache.hadoop.mapreduce.task.JobContextImpl
        return context(self._configuration(), self._java_job_id())

    def _task_context(self, task: int, attempt: int) -> Any:
        mapreduce = self.jvm.org.apache.hadoop.mapreduce
        task_id = mapreduce.TaskID(self._java_job_id(), mapreduce.TaskType.MAP, task)
        attempt_id = mapreduce.TaskAttemptID(task_id, attempt)
        return mapreduce.task.TaskAttemptContextImpl(self._configuration(), attempt_id)

    def _committer(self, task: int, attempt: int) -> Any:
        factory = self.jvm.org.apache.hadoop.mapreduce.lib.output.PathOutputCommitterFactory
        path = self.jvm.org.apache.hadoop.fs.Path(self.destination)
        return factory.createCommitter(path, self._task_context(task, attempt))


class S3AJvm:
    """A JVM with the S3A client, from `start` to `stop`; what it logs is in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._gateway: Any = None

    @property
    def jvm(self) -> Any:
        return self._gateway.jvm

    def start(self) -> S3AJvm:
        """Start it; the first start installs the jars."""
        arguments = f"--driver-memory 512m --driver-class-path {install()}"
        options = f"--driver-java-options '{_JAVA_OPTIONS}'"
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PySpark's own imports warn
            patch.delenv("SPARK_HOME", raising=False)
            patch.setenv("LC_ALL", "C.UTF-8")
            patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
            patch.setenv("PYSPARK_SUBMIT_ARGS", f"{arguments} {options} pyspark-shell")
            from pyspark.java_gateway import launch_gateway

            with (self._directory / "stderr").open("wb") as log:
                popen = {"cwd": str(self._directory), "stderr": log}
                self._gateway = launch_gateway(popen_kwargs=popen)
        return self

    def kill(self) -> None:
        """End it as a machine that fails does: nothing that it would do at its end is done."""
        self._gateway.proc.kill()
        self._gateway.proc.wait(60)

    def stop(self) -> None:
        """End it; idempotent, also after `kill`."""
        gateway, self._gateway = self._gateway, None
        if gateway is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(60)
            if gateway.proc.stdout:
                gateway.proc.stdout.close()


@contextlib.contextmanager
def s3a_jvm(directory: Path) -> Iterator[S3AJvm]:
    """A JVM for the length of a block."""
    server = S3AJvm(directory).start()
    try:
        yield server
    finally:
        server.stop()
