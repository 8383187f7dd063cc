"""What loses a job of S3A's magic committer does no harm here, on a server that fails.

The input is what real tasks of Hadoop 3.3 have left by the S3A client on the same server. The numbers
are those of `docs/conformance.md`.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from py4j.protocol import Py4JError

import ray_committer
from ray_committer import CommitOptions
from ray_committer.errors import CommitConflictError, ManifestError, RayCommitterError
from tests.servers.moto import MotoServer
from tests.servers.proxy import Answerer, Fault, Harm, Proxy, Request
from tests.servers.s3_bucket import Bucket, new_bucket
from tests.servers.s3_completions import LikeMinio, is_completion, like_aws
from tests.servers.s3a import S3AJob, S3AJvm, s3a_jvm

pytestmark = [
    pytest.mark.wide,
    pytest.mark.spark,
    pytest.mark.server,
    pytest.mark.xdist_group("s3"),
    pytest.mark.timeout(900),
]

TASKS = {
    task: {f"p={number % 3}/part-{task}-{number}": b"%d" % number for number in range(10)}
    for task in range(3)
}
FILES = {f"table/{name}": data for files in TASKS.values() for name, data in files.items()}
AMONG = "table/p=1/part-1-4"
"""A file in the middle of a task's files."""
WAIT_SECONDS = 120.0


def access(job: S3AJob) -> dict[str, str]:
    return {"endpoint_url": job.endpoint, "key": "test", "secret": "test"}


@dataclass(frozen=True)
class Seen:
    """What there is after a commit: its error, the data that readers see, and what is left."""

    error: Exception | None
    visible: dict[str, bytes]
    uploads: int
    pendingsets: int
    success: bool


@dataclass(frozen=True)
class World:
    """A bucket of a server behind a proxy, and a job that real S3A tasks have written there."""

    bucket: Bucket
    proxy: Proxy
    job: S3AJob

    def commit(self, *faults: Fault) -> Seen:
        """Commit through the proxy, while it has these faults, as on another machine."""
        options = CommitOptions(expected_tasks=len(TASKS), retry_seconds=20)
        job = replace(self.job, endpoint=self.proxy.url)
        with self.proxy.faulty(*faults):
            try:
                ray_committer.commit_job(
                    job.destination,
                    job.uuid,
                    executor="threads",
                    options=options,
                    storage_options=access(job),
                )
                return self.seen()
            except RayCommitterError as e:
                return self.seen(e)

    def seen(self, error: Exception | None = None) -> Seen:
        names = self.bucket.names("table/")
        success = "table/_SUCCESS"
        hidden = (success, "table/__magic/", "table/_temporary/")
        data = [name for name in names if not name.startswith(hidden) and not name.endswith("/")]
        visible = {name: self.bucket.read(name) for name in data}
        pendingsets = sum(name.endswith(".pendingset") for name in names)
        return Seen(error, visible, len(self.bucket.uploads()), pendingsets, success in names)


@pytest.fixture
def answers() -> Answerer:
    """How the server answers; a test chooses by its parameters."""
    return LikeMinio()


@pytest.fixture
def world(moto: MotoServer, s3a: S3AJvm, answers: Answerer) -> Iterator[World]:
    proxy = Proxy(moto.url, answers).start()
    try:
        with new_bucket(moto.url) as bucket:
            job = S3AJob(s3a.jvm, f"s3a://{bucket.name}/table", str(uuid.uuid4()), moto.url)
            job.run_tasks(TASKS)
            yield World(bucket, proxy, job)
    finally:
        proxy.stop()


WHOLE = Seen(error=None, visible=FILES, uploads=0, pendingsets=0, success=True)
"""A job that is committed."""


def completes(key: str) -> Callable[[Request], bool]:
    """Whether a request completes the upload of `key`."""
    return lambda request: is_completion(request) and f"/{key}?" in unquote(request.path)


def hadoops_died(world: World, directory: Path) -> Seen:
    """The driver of Hadoop's committer is killed in the middle of its commit."""
    with s3a_jvm(directory) as driver:
        job = replace(world.job, jvm=driver.jvm, endpoint=world.proxy.url)
        commit = threading.Thread(target=_until_killed, args=(job,))
        with world.proxy.faulty(Fault(Harm.DELAY, completes(AMONG), seconds=3600)):
            commit.start()
            _wait(lambda: world.proxy.counts[Harm.DELAY] == 1)
            driver.kill()
            commit.join(WAIT_SECONDS)
    return world.seen()


def _until_killed(job: S3AJob) -> None:
    with pytest.raises(Py4JError):
        job.commit_job()


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


both_servers = pytest.mark.parametrize(
    "answers", [LikeMinio(), like_aws], ids=["like MinIO", "like AWS"]
)


@both_servers
def test_s0_without_a_fault_the_job_is_committed(world: World):
    assert world.commit() == WHOLE


@both_servers
def test_s1_a_lost_answer_does_no_harm(world: World):
    """The connection breaks after a completion was made, and before it was answered."""
    assert world.commit(Fault(Harm.LOSE, completes(AMONG), times=1)) == WHOLE


@both_servers
def test_s2_an_upload_that_expired_is_found_before_anything_is_visible(world: World):
    world.bucket.abort(AMONG)  # as a rule of the bucket does
    seen = world.commit()
    assert isinstance(seen.error, ManifestError)
    assert AMONG in str(seen.error)
    assert (seen.visible, seen.uploads, seen.pendingsets) == ({}, len(FILES) - 1, len(TASKS))


@both_servers
def test_s3_a_foreign_object_is_kept_and_the_commit_goes_on_without_it(world: World):
    world.bucket.write(AMONG, b"of somebody else")
    seen = world.commit()
    assert isinstance(seen.error, CommitConflictError)
    assert AMONG in str(seen.error)
    assert seen.visible[AMONG] == b"of somebody else"
    world.bucket.client.delete_object(Bucket=world.bucket.name, Key=AMONG)
    assert world.commit() == WHOLE


@both_servers
def test_s4_a_commit_that_died_is_finished_by_the_same_command(world: World):
    with world.proxy.faulty(Fault(Harm.DELAY, completes(AMONG), seconds=3600)):
        driver = subprocess.Popen(command(replace(world.job, endpoint=world.proxy.url)))
        _wait(lambda: world.proxy.counts[Harm.DELAY] == 1)
        driver.kill()
        driver.wait(WAIT_SECONDS)
    assert len(world.seen().visible) < len(FILES)
    time.sleep(31)  # a process counts as at work so long after its last sign of life
    subprocess.run(
        command(replace(world.job, endpoint=world.proxy.url)), check=True, timeout=WAIT_SECONDS
    )
    assert world.seen() == WHOLE


@both_servers
def test_s4_a_commit_of_hadoops_that_died_is_finished(world: World, tmp_path: Path):
    assert 0 < len(hadoops_died(world, tmp_path).visible) < len(FILES)
    assert world.commit() == WHOLE


def command(job: S3AJob) -> list[str]:
    """Our command that commits the job."""
    options = [f"{name}={value}" for name, value in access(job).items()]
    program = [sys.executable, "-m", "ray_committer.cli", "commit", job.destination]
    chosen = ["--job-id", job.uuid, "--expect-tasks", str(len(TASKS)), "--executor", "threads"]
    return [*program, *chosen, *(part for one in options for part in ("-o", one))]
