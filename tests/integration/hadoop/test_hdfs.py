"""Hadoop's committer and ours on one HDFS: either writes the tasks, the other commits the job."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import ray_committer
from ray_committer import CommitOptions, Outcome
from ray_committer.protocol.manifest import decode_manifest
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.uri import quote_path
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.registry import open_store
from ray_committer.testing import SimulatedCrash, StoreCall, WrappedStore, run_commit, visible_files
from ray_committer.testing.harness import put_file
from tests.servers.hdfs import HdfsServer

if TYPE_CHECKING:
    from .conftest import Hadoop

pytestmark = [
    pytest.mark.wide,
    pytest.mark.hadoop,
    pytest.mark.xdist_group("hadoop"),
    pytest.mark.timeout(180),
]

MOUNTS = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
FACTORY = "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitterFactory"
TRACKER = "202401011200"
JOB_ID = f"job_{TRACKER}_0007"
TASKS = {
    0: {"p=a%3A0 b/part 0": b"0", "p=é/日本": b"11", "plain": b"222"},
    1: {"p=a%3A0 b/part 1": b"", "100%/a+b&c;d": b"4444", "q\"'#?[]/{x}": b"5"},
    2: {},
}
FILES = {name: data for files in TASKS.values() for name, data in files.items()}


@dataclass(frozen=True)
class HdfsJob:
    """A job of Hadoop's committer at `path` of an HDFS; our store on the same."""

    jvm: Any
    store: StoreOperations
    path: str

    @property
    def url(self) -> str:
        return f"hdfs://{self.store.spec.authority}{quote_path(self.path)}"

    def setup_job(self) -> None:
        context = self.jvm.org.apache.hadoop.mapreduce.task.JobContextImpl
        self._committer(0).setupJob(context(self._configuration(), self._java_job_id()))

    def run_task(self, task: int, files: dict[str, bytes]) -> None:
        """Write the files of a task as Java does, and commit it."""
        committer = self._committer(task)
        committer.setupTask(self._task_context(task))
        path = self.jvm.org.apache.hadoop.fs.Path
        work = committer.getWorkPath()
        filesystem = work.getFileSystem(self._configuration())
        for name, data in files.items():
            stream = filesystem.create(path(work, name))
            stream.write(data)
            stream.close()
        committer.commitTask(self._task_context(task))

    def commit_job(self) -> None:
        """Commit as Hadoop 3.5 does, but for one request that a NameNode of 2.7 does not know.

        The committer does without it on a file system of mounts: here one, of the whole HDFS.
        """
        configuration = self._configuration()
        configuration.set("fs.hdfs.impl", MOUNTS)
        configuration.set(
            "fs.viewfs.overload.scheme.target.hdfs.impl", "org.apache.hadoop.hdfs.DistributedFileSystem"
        )
        context = self.jvm.org.apache.hadoop.mapreduce.task.JobContextImpl
        self._committer(0, configuration).commitJob(context(configuration, self._java_job_id()))

    def load_success(self) -> Any:
        path = self.jvm.org.apache.hadoop.fs.Path(self.jvm.java.net.URI(f"{self.url}/_SUCCESS"))
        files = self.jvm.org.apache.hadoop.mapreduce.lib.output.committer.manifest.files
        return files.ManifestSuccessData.load(path.getFileSystem(self._configuration()), path)

    def _configuration(self) -> Any:
        configuration = self.jvm.org.apache.hadoop.conf.Configuration()
        configuration.set("mapreduce.outputcommitter.factory.scheme.hdfs", FACTORY)
        configuration.set("mapreduce.manifest.committer.validate.output", "true")
        configuration.set("fs.hdfs.impl.disable.cache", "true")
        return configuration

    def _task_context(self, task: int, configuration: Any = None) -> Any:
        mapreduce = self.jvm.org.apache.hadoop.mapreduce
        task_id = mapreduce.TaskID(self._java_job_id(), mapreduce.TaskType.MAP, task)
        attempt_id = mapreduce.TaskAttemptID(task_id, 0)
        return mapreduce.task.TaskAttemptContextImpl(configuration or self._configuration(), attempt_id)

    def _java_job_id(self) -> Any:
        return self.jvm.org.apache.hadoop.mapreduce.JobID(TRACKER, 7)

    def _committer(self, task: int, configuration: Any = None) -> Any:
        factory = self.jvm.org.apache.hadoop.mapreduce.lib.output.PathOutputCommitterFactory
        destination = self.jvm.org.apache.hadoop.fs.Path(self.jvm.java.net.URI(self.url))
        return factory.createCommitter(destination, self._task_context(task, configuration))


@pytest.fixture
def job(hadoop: Hadoop, hdfs: HdfsServer) -> HdfsJob:
    store = open_store(StoreSpec("hdfs", hdfs.authority))
    path = f"/tests/{uuid.uuid4()} ö"
    store.mkdirs(path)
    return HdfsJob(hadoop.jvm, store, path)


def run_java_tasks(job: HdfsJob) -> None:
    job.setup_job()
    for task, files in TASKS.items():
        job.run_task(task, files)


@pytest.mark.parametrize("way", ["rpc", "web"])
def test_what_java_tasks_wrote_is_committed(job: HdfsJob, hdfs: HdfsServer, way: str):
    run_java_tasks(job)
    storage_options = {"webhdfs_url": hdfs.http_url} if way == "web" else {}
    report = ray_committer.commit_job(
        job.url, executor="threads", options=CommitOptions(threads=4), storage_options=storage_options
    )
    assert (report.outcome, report.moved, report.manifests) == (Outcome.COMMITTED, len(FILES), 3)
    assert report.validated == len(FILES)
    assert visible_files(job.store, job.path) == FILES
    assert job.store.get_status(f"{job.path}/_temporary") is None
    success = job.load_success()
    assert success.getJobId() == JOB_ID
    assert {str(one.toUri().getPath()) for one in success.getFilenamePaths()} == {
        f"{job.path}/{name}" for name in FILES
    }


@pytest.mark.parametrize("ours", [True, False], ids=["our setup", "java setup"])
def test_java_commits_and_validates_what_our_tasks_wrote(job: HdfsJob, ours: bool):
    if ours:
        ray_committer.setup_job(job.url, JOB_ID)
    else:
        job.setup_job()
    for task, files in TASKS.items():
        with ray_committer.task_attempt(job.url, JOB_ID, task) as attempt:
            root = new_job_attempt(job.path, JOB_ID, 0).task_attempt(attempt.task_attempt_id)
            for name, data in files.items():
                put_file(job.store, f"{root}/{name}", data)
    job.commit_job()
    assert visible_files(job.store, job.path) == FILES
    assert job.load_success().getIOStatistics().counters()["committer_files_committed"] == len(FILES)


def test_both_quote_one_tree_alike(job: HdfsJob):
    run_java_tasks(job)
    attempt = new_job_attempt(job.path, JOB_ID, 0)
    paths = [f"{attempt.manifests}/task_{TRACKER}_0007_m_{task:06d}-manifest.json" for task in TASKS]
    javas = [decode_manifest(job.store.read(path), path) for path in paths]
    for task, files in TASKS.items():
        with ray_committer.task_attempt(job.url, JOB_ID, task, 1) as running:
            for name, data in files.items():
                root = attempt.task_attempt(running.task_attempt_id)
                put_file(job.store, f"{root}/{name}", data)
    ours = [decode_manifest(job.store.read(path), path) for path in paths]
    for java, own in zip(javas, ours, strict=True):
        assert sorted((file.d, file.z) for file in own.files) == sorted(
            (file.d, file.z) for file in java.files
        )
        assert sorted(file.s.replace("_0007_m_", "").rpartition("_1/")[2] for file in own.files) == (
            sorted(file.s.replace("_0007_m_", "").rpartition("_0/")[2] for file in java.files)
        )


def test_a_commit_of_javas_tasks_that_died_is_finished(job: HdfsJob):
    """Hadoop's manifests have neither times nor etags, so that a size is all that proves."""
    run_java_tasks(job)
    attempt = new_job_attempt(job.path, JOB_ID, 0)
    renames: list[StoreCall] = []

    def die(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[0].startswith(attempt.tasks):
            renames.append(call)
            if len(renames) == 3:
                raise SimulatedCrash(call)

    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(job.store, after=die), attempt)
    assert 0 < len(visible_files(job.store, job.path)) < len(FILES)
    report = ray_committer.commit_job(job.url, executor="threads")
    assert (report.resumed, report.moved, sum(report.proved.values())) == (True, len(FILES) - 3, 3)
    assert visible_files(job.store, job.path) == FILES
