"""The real manifest committer of Hadoop 3.5, in a JVM that PySpark's gateway starts once a session.

No Spark application runs and nothing is compiled: the classes are those in PySpark 4's jars. Without
them, or without Java, these tests fail; they never skip.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

FACTORY = "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitterFactory"
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
JOB_TRACKER = "202401011200"

Tree = dict[str, bytes | None]


@dataclass(frozen=True)
class JavaManifest:
    """What Hadoop's ``TaskManifest`` says once it has loaded and validated a file."""

    job_id: str
    task_id: str
    task_attempt_id: str
    files: dict[str, tuple[str, int, str | None]]
    directories: list[str]


@dataclass(frozen=True)
class JavaSuccess:
    """What Hadoop's ``ManifestSuccessData`` says once it has loaded and validated a file."""

    job_id: str
    job_id_source: str
    success: bool
    committer: str
    timestamp: int
    filenames: list[str]
    diagnostics: dict[str, str]
    counters: dict[str, int]


@dataclass(frozen=True)
class HadoopJob:
    """One job of Hadoop's committer: job `number`, or with `uuid` one as Spark names it."""

    jvm: Any
    destination: Path
    number: int = 7
    uuid: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    @property
    def job_id(self) -> str:
        return self.uuid or f"job_{JOB_TRACKER}_{self.number:04d}"

    @property
    def directory(self) -> Path:
        return self.destination / "_temporary" / self.job_id / "00"

    def manifest(self, task: int) -> Path:
        """The manifest that Hadoop saves for a task."""
        return (
            self.directory
            / "manifests"
            / f"task_{JOB_TRACKER}_{self.number:04d}_m_{task:06d}-manifest.json"
        )

    def setup_job(self) -> None:
        self._committer(0, 0).setupJob(self._job_context())

    def setup_task(self, task: int, attempt: int = 0) -> Path:
        """Set up a task attempt and return the directory that it writes to."""
        committer = self._committer(task, attempt)
        committer.setupTask(self._task_context(task, attempt))
        return Path(committer.getWorkPath().toUri().getPath())

    def commit_task(self, task: int, attempt: int = 0) -> None:
        self._committer(task, attempt).commitTask(self._task_context(task, attempt))

    def commit_job(self) -> None:
        self._committer(0, 0).commitJob(self._job_context())

    def run_task(self, task: int, files: dict[str, bytes], attempt: int = 0) -> None:
        """Set up a task attempt, write its `files` (``name/`` is a directory), commit it."""
        root = self.setup_task(task, attempt)
        write_files(root, files)
        self.commit_task(task, attempt)

    def _configuration(self) -> Any:
        configuration = self.jvm.org.apache.hadoop.conf.Configuration()
        configuration.set("mapreduce.outputcommitter.factory.scheme.file", FACTORY)
        if self.uuid:
            configuration.set("spark.sql.sources.writeJobUUID", self.uuid)
        for name, value in self.options.items():
            configuration.set(name, value)
        return configuration

    def _java_job_id(self) -> Any:
        return self.jvm.org.apache.hadoop.mapreduce.JobID(JOB_TRACKER, self.number)

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
        path = java_path(self.jvm, self.destination)
        return factory.createCommitter(path, self._task_context(task, attempt))


@dataclass(frozen=True)
class Hadoop:
    """Hadoop in the JVM behind `jvm`."""

    jvm: Any

    def job(
        self, destination: Path, *, number: int = 7, uuid: str | None = None, **options: str
    ) -> HadoopJob:
        """A job at `destination`; `options` are configuration keys with ``__`` for each dot."""
        configured = {name.replace("__", "."): value for name, value in options.items()}
        return HadoopJob(self.jvm, destination, number, uuid, configured)

    def load_manifest(self, path: Path) -> JavaManifest:
        loaded = self._files().TaskManifest.load(self._local(), java_path(self.jvm, path))
        loaded.validate()
        files = {
            entry.getDestPath().toUri().getPath(): (
                entry.getSourcePath().toUri().getPath(),
                entry.getSize(),
                entry.getEtag(),
            )
            for entry in loaded.getFilesToCommit()
        }
        directories = [entry.getDestPath().toUri().getPath() for entry in loaded.getDestDirectories()]
        ids = loaded.getJobId(), loaded.getTaskID(), loaded.getTaskAttemptID()
        return JavaManifest(*ids, files, directories)

    def load_success(self, path: Path) -> JavaSuccess:
        loaded = self._files().ManifestSuccessData.load(self._local(), java_path(self.jvm, path))
        loaded.validate()
        return JavaSuccess(
            loaded.getJobId(),
            loaded.getJobIdSource(),
            loaded.getSuccess(),
            loaded.getCommitter(),
            loaded.getTimestamp(),
            [item.toUri().getPath() for item in loaded.getFilenamePaths()],
            dict(loaded.getDiagnostics()),
            dict(loaded.getIOStatistics().counters()),
        )

    def read(self, path: Path) -> bytes:
        """Read a file through Hadoop's checksummed local file system."""
        stream = self._local().open(java_path(self.jvm, path))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def write(self, path: Path, data: bytes) -> None:
        """Write a file through Hadoop's checksummed local file system, with its ``.crc`` file."""
        stream = self._local().create(java_path(self.jvm, path), True)
        stream.write(data)
        stream.close()

    def quote(self, name: str) -> str:
        """What Hadoop makes of a file called `name` in ``file:/base``."""
        path = self.jvm.org.apache.hadoop.fs.Path
        return str(path(path("file:///base"), name).toUri().toString())

    def unquote(self, uri: str) -> str:
        """The path that Hadoop takes a manifest's URI for."""
        parsed = self.jvm.org.apache.hadoop.fs.Path(self.jvm.java.net.URI(uri))
        return str(parsed.toUri().getPath())

    def _files(self) -> Any:
        return self.jvm.org.apache.hadoop.mapreduce.lib.output.committer.manifest.files

    def _local(self) -> Any:
        configuration = self.jvm.org.apache.hadoop.conf.Configuration()
        return self.jvm.org.apache.hadoop.fs.FileSystem.getLocal(configuration)


def java_path(jvm: Any, path: Path) -> Any:
    return jvm.org.apache.hadoop.fs.Path(jvm.java.io.File(str(path)).toURI())


def write_files(root: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


@pytest.fixture(scope="session")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    directory = tmp_path_factory.mktemp("jvm")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        # PySpark's own imports warn; what this project does in the tests still may not.
        warnings.simplefilter("ignore")
        patch.delenv("SPARK_HOME", raising=False)
        patch.setenv("LC_ALL", "C.UTF-8")
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv(
            "PYSPARK_SUBMIT_ARGS",
            f"--driver-memory 256m --driver-java-options '{JAVA_OPTIONS}' pyspark-shell",
        )
        from pyspark.java_gateway import launch_gateway

        with open(directory / "stderr", "wb") as log:
            gateway = launch_gateway(popen_kwargs={"cwd": str(directory), "stderr": log})
    try:
        version = gateway.jvm.org.apache.hadoop.util.VersionInfo.getVersion()
        if not re.match(r"3\.[5-9]", version):
            raise RuntimeError(f"the Hadoop 3.5 classes of PySpark 4 are needed, this is {version}")
        gateway.jvm.java.lang.Class.forName(FACTORY)
        yield Hadoop(gateway.jvm)
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=30)
        if gateway.proc.stdout:
            gateway.proc.stdout.close()


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    """Where a job writes to; the space and the umlaut are in every URI of every test."""
    path = tmp_path / "table öne"
    path.mkdir()
    return path


def read_tree(root: Path) -> Tree:
    """Everything below a directory: a file's content, None for a directory; no ``.crc`` files."""
    found: Tree = {}
    for path in sorted(root.rglob("*")):
        if not (path.name.startswith(".") and path.name.endswith(".crc")):
            found[str(path.relative_to(root))] = path.read_bytes() if path.is_file() else None
    return found


def make_tree(*parts: dict[str, bytes]) -> Tree:
    """The tree that files (and directories, with a ``/`` at the end) make, with all parents."""
    made: Tree = {}
    for name, data in ((name, data) for files in parts for name, data in files.items()):
        path = Path(name)
        made[str(path)] = None if name.endswith("/") else data
        made.update({str(above): None for above in path.parents if str(above) != "."})
    return made
