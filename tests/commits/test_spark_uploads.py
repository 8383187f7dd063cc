"""Jobs of Spark on a strict S3 without a network: what their tasks leave below ``__magic`` or unnamed.

`tests/integration/s3a/test_df_write.py` does the same with Spark and the real S3A client.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import pytest

from ray_committer import CommitOptions, Outcome
from ray_committer.job_files.spark_uploads import end_spark_uploads
from ray_committer.jobs.remains import find_remains
from ray_committer.protocol.magic_paths import MagicJob
from ray_committer.protocol.manifest import TaskManifest
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.record import ConflictMode
from ray_committer.testing import SimulatedCrash, run_abort, run_commit, visible_files, write_job
from tests.commits.test_adopted_jobs import upload
from tests.pendingsets import encode_pendingset
from tests.servers.fake_s3 import FakeS3, Hook, direct_store

pytestmark = pytest.mark.usefixtures("no_pauses")

TABLE = "/t/table"
UUID, OTHER = "0b0c7a4e-7b52-4f2e-9f0a-1c2d3e4f5a6b", "1b0c7a4e-7b52-4f2e-9f0a-1c2d3e4f5a6b"
TASKS = {0: {f"p=1/part-00000-{UUID}.c000.csv": b"a"}, 1: {f"p=2/part-00001-{UUID}.c000.csv": b"b"}}
ALL = {name: data for files in TASKS.values() for name, data in files.items()}
ends = pytest.mark.parametrize("end", [run_commit, run_abort], ids=["commit", "abort"])


@pytest.fixture
def job() -> JobAttempt:
    return new_job_attempt(TABLE, UUID, 0)


def leave_pending(fake: FakeS3, job_id: str, layout: int = 0) -> None:
    """What an attempt leaves whose executor was killed: a closed file, and one that it was writing."""
    magic = MagicJob("bucket", TABLE, job_id)
    base = f"{magic.directories[layout]}/{'00/' * layout}tasks/attempt_1_m_000001_0/__base"
    store = direct_store(fake)
    store.begin_upload(f"{TABLE}/p=3/part-00001-{job_id}.c000.csv", None)
    name = f"p=1/{layout}-of no job's name"
    entry = upload(fake, f"{TABLE}/{name}", b"x")
    text = encode_pendingset(TaskManifest(files=[entry]), magic)
    (single,) = msgspec.json.decode(text)["commits"]
    store.write(f"{base}/{name}.pending", msgspec.json.encode(single))
    store.write(f"{base}/{name}", b"")
    store.mkdirs(f"{magic.directories[layout]}/tasks")


def left(fake: FakeS3, job_id: str) -> list[str]:
    """The uploads and files that a job has left."""
    names = [one.name for one in fake.uploads.values() if job_id in one.name or "of no job" in one.name]
    return [*names, *(one for one in fake.buckets["bucket"] if job_id in one and "_magic" in one)]


@ends
@pytest.mark.parametrize("layout", [0, 1])
def test_what_killed_tasks_left_ends_with_their_job(
    job: JobAttempt, end: Callable[..., object], layout: int
):
    fake = FakeS3()
    write_job(direct_store(fake), job, TASKS)
    leave_pending(fake, UUID, layout)
    end(direct_store(fake), job)
    assert left(fake, UUID) == []
    assert [name for name in fake.buckets["bucket"] if "__magic" in name or "_temporary" in name] == []
    names = visible_files(direct_store(fake), TABLE)
    assert {name: data for name, data in names.items() if name != "_SUCCESS"} in (ALL, {})


def test_vacuum_takes_a_dead_job_although_its_killed_tasks_have_left_something(job: JobAttempt):
    fake = FakeS3()
    write_job(direct_store(fake), job, TASKS)
    leave_pending(fake, UUID)
    later = time.time_ns() // 1_000_000 + 3_600_000
    (remains,) = find_remains(direct_store(fake), TABLE, older_than_seconds=60.0, now_milliseconds=later)
    assert (remains.status.job.job_id, remains.kept) == (UUID, None)


@ends
def test_what_another_job_has_pending_stays(job: JobAttempt, end: Callable[..., object]):
    fake = FakeS3()
    write_job(direct_store(fake), job, TASKS)
    leave_pending(fake, OTHER)
    found = left(fake, OTHER)
    end(direct_store(fake), job)
    assert left(fake, OTHER) == found
    assert len(found) == 5


def test_the_end_of_an_attempt_aborts_no_upload_of_another_one_that_goes_on(job: JobAttempt):
    """The files of both have the id of the job in their names."""
    fake = FakeS3()
    store, newer = direct_store(fake), new_job_attempt(TABLE, UUID, 1)
    write_job(store, job, {0: {"p=1/of the old attempt": b"x"}})
    write_job(store, newer, TASKS)
    assert run_abort(store, job)
    assert sorted(one.name for one in fake.uploads.values()) == sorted(f"t/table/{one}" for one in ALL)


def test_a_recorded_attempt_loses_nothing_by_the_abort_of_an_older_one(job: JobAttempt):
    fake = FakeS3()
    store, newer = direct_store(fake), new_job_attempt(TABLE, UUID, 1)
    write_job(store, job, {})
    write_job(store, newer, TASKS)
    with pytest.raises(SimulatedCrash):
        run_commit(direct_store(fake, before=crash_at_completion), newer)
    assert run_abort(store, job)
    assert run_commit(store, newer).outcome is Outcome.COMMITTED
    assert visible_files(store, TABLE) == ALL


def crash_at_completion(method: str, name: str, query: str) -> None:
    if method == "POST" and "uploadId=" in query and name.endswith(".csv"):
        raise SimulatedCrash(name)


def test_uploads_end_if_the_other_attempts_have_ended(job: JobAttempt):
    fake = FakeS3()
    store, newer = direct_store(fake), new_job_attempt(TABLE, UUID, 1)
    write_job(store, job, {})
    write_job(store, newer, TASKS)
    store.begin_upload(f"{TABLE}/p=3/part-00001-{UUID}.c000.csv", None)
    assert run_commit(store, newer).outcome is Outcome.COMMITTED
    assert fake.uploads == {}


def test_an_overwrite_replaces_nothing_of_a_job_whose_tasks_still_write(job: JobAttempt):
    fake = FakeS3()
    store = direct_store(fake)
    store.write(f"{TABLE}/p=1/old.csv", b"old")
    write_job(store, job, TASKS, mode=ConflictMode.OVERWRITE)
    leave_pending(fake, OTHER, 0)
    leave_pending(fake, OTHER, 1)
    found = left(fake, OTHER)
    report = run_commit(store, job, CommitOptions(mode=ConflictMode.OVERWRITE))
    assert (report.outcome, report.replaced) == (Outcome.COMMITTED, 1)
    assert left(fake, OTHER) == found
    assert f"{TABLE[1:]}/p=1/old.csv" not in fake.buckets["bucket"]


def test_a_job_that_died_in_its_clean_up_leaves_nothing_after_the_same_command(job: JobAttempt):
    fake = FakeS3()
    write_job(direct_store(fake), job, TASKS)
    leave_pending(fake, UUID)
    number = 0
    while True:
        number += 1
        tried = fake.copy()
        try:
            run_commit(direct_store(tried, after=crash_at_deletion(number)), job)
        except SimulatedCrash:
            run_commit(direct_store(tried), job)
            assert left(tried, UUID) == []
        else:
            break
    assert number > 4


def crash_at_deletion(number: int) -> Hook:
    """Die after a request that deletes or aborts something, counted from 1."""
    seen: list[str] = []

    def hook(method: str, name: str, query: str) -> None:
        if method == "DELETE" or "delete" in query:
            seen.append(name)
            if len(seen) == number:
                raise SimulatedCrash(name)

    return hook


def test_nothing_is_done_for_a_job_that_is_no_longer_the_same(job: JobAttempt):
    fake = FakeS3()
    fake.buckets["bucket"] = {}
    leave_pending(fake, UUID)
    found = left(fake, UUID)
    assert end_spark_uploads(direct_store(fake), job, lambda: False) == 0
    assert left(fake, UUID) == found
    assert end_spark_uploads(direct_store(fake), job, lambda: True) == 2
    assert end_spark_uploads(direct_store(fake), job, lambda: True) == 0
    assert left(fake, UUID) == []


def test_other_ids_than_those_of_spark_cost_no_request():
    fake = FakeS3()
    store = direct_store(fake)
    fake.requests.clear()
    assert end_spark_uploads(store, new_job_attempt(TABLE, "job_1", 0), lambda: True) == 0
    assert fake.requests == []
