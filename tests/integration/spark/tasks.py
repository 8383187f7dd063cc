"""One task attempt of a job that was set up in the JVM, called as Spark calls it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

from ray_committer.protocol.staging import token_of
from ray_committer.version import PROTOCOL_CLASS
from tests.integration.spark.metered import compiled

JOB_ID = "job-1"
_DESTINATION = "mapreduce.output.fileoutputformat.outputdir"


@dataclass(frozen=True)
class Job:
    """A job of which the driver has just been set up; `configuration` is that of its tasks, too."""

    jvm: Any
    protocol: Any
    configuration: Any
    dest: Path
    job_id: str

    @property
    def directory(self) -> Path:
        return self.dest / "_temporary" / self.job_id / "00"

    def abort(self) -> None:
        """What Spark calls when a job has failed."""
        self.protocol.abortJob(_context(self.jvm, self.configuration))

    def task(self, number: int = 3, attempt: int = 0, configuration: Any = None) -> Task:
        """Set up a task attempt, with another `configuration` if one is given."""
        mapreduce = self.jvm.org.apache.hadoop.mapreduce
        task_id = mapreduce.TaskID(_java_id(self.jvm), mapreduce.TaskType.MAP, number)
        context = mapreduce.task.TaskAttemptContextImpl(
            configuration or self.configuration, mapreduce.TaskAttemptID(task_id, attempt)
        )
        self.protocol.setupTask(context)
        committer = self.protocol.setupCommitter(context)
        root = Path(committer.getWorkPath().toUri().getPath())
        return Task(self.jvm, self.protocol, context, committer, self.dest, root)


@dataclass(frozen=True)
class Task:
    """One task attempt that was set up; `attempt` is the directory that it writes to."""

    jvm: Any
    protocol: Any
    context: Any
    committer: Any
    dest: Path
    attempt: Path

    @property
    def tasks(self) -> Path:
        """The directory of the files of all tasks."""
        return self.attempt.parent

    @property
    def token(self) -> str:
        """What the names of its files have in them."""
        token = token_of(self.attempt.name)
        assert token is not None
        return token

    def begin_file(self, partition: str | None, prefix: str = "", suffix: str = ".txt") -> Path:
        return _place(self.protocol.newTaskTempFile(*self.arguments(partition, prefix, suffix)))

    def arguments(
        self, partition: str | None, prefix: str = "", suffix: str = ".txt"
    ) -> tuple[Any, ...]:
        """How Spark asks where to write a file."""
        spec = self.jvm.org.apache.spark.internal.io.FileNameSpec(prefix, suffix)
        return self.context, self.jvm.scala.Option.apply(partition), spec

    def begin_file_at(self, directory: Path) -> Path:
        spec = self.jvm.org.apache.spark.internal.io.FileNameSpec("", ".txt")
        return _place(self.protocol.newTaskTempFileAbsPath(self.context, str(directory), spec))

    def save(self) -> None:
        """Commit the task."""
        self.committer.commitTask(self.context)

    def commit(self) -> dict[str, str]:
        """Commit the task; where its manifest says that each file goes."""
        self.save()
        return {_decoded(file["s"]): _decoded(file["d"]) for file in self.manifest()["files"]}

    def manifest(self) -> dict[str, Any]:
        """The only manifest of the job."""
        (manifest,) = self.attempt.parents[1].glob("manifests/*-manifest.json")
        content: dict[str, Any] = json.loads(manifest.read_bytes())
        return content

    def directories(self) -> dict[str, int]:
        return {_decoded(one["d"]): one["l"] for one in self.manifest()["directories"]}


def set_up(
    spark: SparkSession,
    dest: Path,
    settings: Mapping[str, str] = MappingProxyType({}),
    *,
    dynamic_partition_overwrite: bool = False,
    configuration: Any = None,
    url: str | None = None,
    job_id: str = JOB_ID,
) -> Job:
    """Set up a job in the JVM, as Spark does before any task runs; `url` is that of `dest`."""
    jvm: Any = spark._jvm
    hadoop = jvm.org.apache.hadoop.conf.Configuration
    configuration = configuration or hadoop(spark._jsc.hadoopConfiguration())
    for key, value in {_DESTINATION: url or str(dest), **settings}.items():
        configuration.set(key, value)
    protocol_class = reduce(getattr, PROTOCOL_CLASS.split("."), jvm)
    made = protocol_class(job_id, url or str(dest), dynamic_partition_overwrite)
    made.setupJob(_context(jvm, configuration))
    return Job(jvm, made, configuration, dest, job_id)


def configuration_with(
    spark: SparkSession, filesystem: str, settings: Mapping[str, str], scheme: str = "file"
) -> Any:
    """A configuration whose files with this scheme are those of a Java class of these tests."""
    jvm: Any = spark._jvm
    urls = spark.sparkContext._gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.io.File(str(compiled())).toURI().toURL()
    parent = jvm.Thread.currentThread().getContextClassLoader()
    configuration = jvm.org.apache.hadoop.conf.Configuration(spark._jsc.hadoopConfiguration())
    configuration.setClassLoader(jvm.java.net.URLClassLoader(urls, parent))
    own = {f"fs.{scheme}.impl": filesystem, f"fs.{scheme}.impl.disable.cache": "true"}
    for key, value in {**own, **settings}.items():
        configuration.set(key, value)
    return configuration


def _java_id(jvm: Any) -> Any:
    return jvm.org.apache.hadoop.mapreduce.JobID("20260101", 1)


def _context(jvm: Any, configuration: Any) -> Any:
    context = jvm.org.apache.hadoop.mapreduce.task.JobContextImpl
    return context(configuration, _java_id(jvm))


def _place(text: str) -> Path:
    """Where to write a file; with all directories above it, which Hadoop makes with the file."""
    path = Path(text.removeprefix("file:").removeprefix("s3a://bucket"))
    if text.startswith("file:"):
        path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _decoded(uri: str) -> str:
    return unquote(urlsplit(uri).path)
