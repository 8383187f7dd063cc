"""Defects of S3A's magic committer: the real one of Hadoop 3.3, and ours, on a server that fails.

Each scenario takes the committer as a function, so both get the same input: what real tasks have left by
the S3A client on the same server. The numbers are those of `docs/conformance.md`.
"""

from __future__ import annotations

import json
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

Committer = Callable[[S3AJob], None]
"""Commits a job whose tasks have committed, as a driver on another machine would; raises if it fails."""


def hadoops(job: S3AJob) -> None:
    job.commit_job()


def ours(job: S3AJob) -> None:
    options = CommitOptions(expected_tasks=len(TASKS), retry_seconds=20)
    ray_committer.commit_job(
        job.destination, job.uuid, executor="threads", options=options, storage_options=access(job)
    )


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

    def commit(self, committer: Committer, *faults: Fault) -> Seen:
        """Commit through the proxy, while it has these faults."""
        with self.proxy.faulty(*faults):
            try:
                committer(replace(self.job, endpoint=self.proxy.url))
                return self.seen()
            except (Py4JError, RayCommitterError) as e:
                return self.seen(e)

    def seen(self, error: Exception | None = None) -> Seen:
        names = self.bucket.names("table/")
        success = "table/_SUCCESS"
        hidden = (success, "table/__magic/", "table/_temporary/")
        data = [name for name in names if not name.startswith(hidden) and not name.endswith("/")]
        visible = {name: self.bucket.read(name) for name in data}
        pendingsets = sum(name.endswith(".pendingset") for name in names)
        return Seen(error, visible, len(self.bucket.uploads()), pendingsets, success in names)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoServer]:
    moto = MotoServer(tmp_path_factory.mktemp("moto"))
    moto.start()
    yield moto
    moto.stop()


@pytest.fixture(scope="module")
def s3a(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3AJvm]:
    with s3a_jvm(tmp_path_factory.mktemp("jvm")) as started:
        yield started


@pytest.fixture
def answers() -> Answerer:
    """How the server answers; a test chooses by its parameters."""
    return LikeMinio()


@pytest.fixture
def world(server: MotoServer, s3a: S3AJvm, answers: Answerer) -> Iterator[World]:
    proxy = Proxy(server.url, answers).start()
    try:
        with new_bucket(server.url) as bucket:
            job = S3AJob(s3a.jvm, f"s3a://{bucket.name}/table", str(uuid.uuid4()), server.url)
            job.run_tasks(TASKS)
            yield World(bucket, proxy, job)
    finally:
        proxy.stop()


WHOLE = Seen(error=None, visible=FILES, uploads=0, pendingsets=0, success=True)
"""A job that is committed."""


def completes(key: str) -> Callable[[Request], bool]:
    """Whether a request completes the upload of `key`."""
    return lambda request: is_completion(request) and f"/{key}?" in unquote(request.path)


def lost_answer(world: World, committer: Committer) -> Seen:
    """The connection breaks after a completion was made, and before it was answered."""
    return world.commit(committer, Fault(Harm.LOSE, completes(AMONG), times=1))


def expired_upload(world: World, committer: Committer) -> Seen:
    """A rule of the bucket has aborted an upload that was old."""
    world.bucket.abort(AMONG)
    return world.commit(committer)


def foreign_object(world: World, committer: Committer) -> Seen:
    """Another program has written an object with the name of a file of the job."""
    world.bucket.write(AMONG, b"of somebody else")
    return world.commit(committer)


def died(world: World, committer: Committer, directory: Path) -> Seen:
    """The driver is killed in the middle of its commit: the process, and all that it would do then."""
    with s3a_jvm(directory) as driver:
        job = replace(world.job, jvm=driver.jvm, endpoint=world.proxy.url)
        commit = threading.Thread(target=_until_killed, args=(committer, job))
        with world.proxy.faulty(Fault(Harm.DELAY, completes(AMONG), seconds=3600)):
            commit.start()
            _wait(lambda: world.proxy.counts[Harm.DELAY] == 1)
            driver.kill()
            commit.join(WAIT_SECONDS)
    return world.seen()


def _until_killed(committer: Committer, job: S3AJob) -> None:
    with pytest.raises(Py4JError):
        committer(job)


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def lost_a_part(seen: Seen) -> bool:
    """Whether a job has failed, a part of its data is visible, and the rest of it is gone for good."""
    some = 0 < len(seen.visible) < len(FILES)
    return (
        seen.error is not None
        and some
        and (seen.uploads, seen.pendingsets, seen.success) == (0, 0, False)
    )


both_servers = pytest.mark.parametrize(
    "answers", [LikeMinio(), like_aws], ids=["like MinIO", "like AWS"]
)


@both_servers
@pytest.mark.parametrize("committer", [hadoops, ours])
def test_s0_without_a_fault_the_job_is_committed(world: World, committer: Committer):
    assert world.commit(committer) == WHOLE


def test_s1_a_lost_answer_loses_the_job(world: World):
    seen = lost_answer(world, hadoops)
    assert lost_a_part(seen)
    assert AMONG in seen.visible  # although the commit failed for it


@pytest.mark.parametrize("answers", [like_aws], ids=["like AWS"])
def test_s1_a_lost_answer_does_no_harm_where_a_second_completion_succeeds(world: World):
    assert lost_answer(world, hadoops) == WHOLE


@both_servers
def test_s2_an_upload_that_expired_is_found_after_others_were_completed_and_loses_the_job(world: World):
    seen = expired_upload(world, hadoops)
    assert seen.error is not None
    assert (seen.uploads, seen.pendingsets, seen.success) == (0, 0, False)
    assert sum(map(is_completion, world.proxy.requests)) > 1


def test_s3_a_foreign_object_is_replaced_without_a_word(world: World):
    assert foreign_object(world, hadoops) == WHOLE


def test_s4_a_commit_whose_driver_died_loses_the_job_if_it_is_run_again(world: World, tmp_path: Path):
    seen = died(world, hadoops, tmp_path)
    assert 0 < len(seen.visible) < len(FILES)
    assert (seen.pendingsets, seen.success) == (len(TASKS), False)
    again = world.commit(hadoops)
    assert again.error is not None
    assert (again.uploads, again.pendingsets, again.success) == (0, 0, False)
    assert len(again.visible) < len(FILES)


def test_s4_the_next_job_takes_away_what_is_left_of_one_whose_driver_died(
    world: World, server: MotoServer, tmp_path: Path
):
    before = died(world, hadoops, tmp_path).visible
    other = replace(world.job, uuid=str(uuid.uuid4()))
    other.run_tasks({0: {"p=1/other": b"other"}})
    other.commit_job()
    seen = world.seen()
    assert (seen.uploads, seen.pendingsets, seen.success) == (0, 0, True)
    assert seen.visible == {**before, "table/p=1/other": b"other"}
    assert json.loads(world.bucket.read("table/_SUCCESS"))["jobId"] == other.uuid


@both_servers
def test_s1_ours_a_lost_answer_does_no_harm(world: World):
    assert lost_answer(world, ours) == WHOLE


@both_servers
def test_s2_ours_an_upload_that_expired_is_found_before_anything_is_visible(world: World):
    seen = expired_upload(world, ours)
    assert isinstance(seen.error, ManifestError)
    assert AMONG in str(seen.error)
    assert (seen.visible, seen.uploads, seen.pendingsets) == ({}, len(FILES) - 1, len(TASKS))


@both_servers
def test_s3_ours_a_foreign_object_is_kept_and_the_commit_goes_on_without_it(world: World):
    seen = foreign_object(world, ours)
    assert isinstance(seen.error, CommitConflictError)
    assert AMONG in str(seen.error)
    assert seen.visible[AMONG] == b"of somebody else"
    world.bucket.client.delete_object(Bucket=world.bucket.name, Key=AMONG)
    assert world.commit(ours) == WHOLE


@both_servers
def test_s4_ours_a_commit_that_died_is_finished_by_the_same_command(world: World):
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
def test_s4_ours_a_commit_of_hadoops_that_died_is_finished(world: World, tmp_path: Path):
    assert 0 < len(died(world, hadoops, tmp_path).visible) < len(FILES)
    assert world.commit(ours) == WHOLE


def command(job: S3AJob) -> list[str]:
    """Our command that commits the job."""
    options = [f"{name}={value}" for name, value in access(job).items()]
    program = [sys.executable, "-m", "ray_committer.cli", "commit", job.destination]
    chosen = ["--job-id", job.uuid, "--expect-tasks", str(len(TASKS)), "--executor", "threads"]
    return [*program, *chosen, *(part for one in options for part in ("-o", one))]
