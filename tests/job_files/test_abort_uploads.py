"""Aborts of a job's uploads: its own, all of them, and never those of a later job with its id."""

from __future__ import annotations

import pytest

from ray_committer.job_files.abort_uploads import abort_uploads
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.testing import write_job
from tests.servers.fake_s3 import FakeS3, direct_store

TASKS = {0: {"a": b"1", "b": b"2"}, 1: {"c": b"3"}}


@pytest.fixture
def job() -> JobAttempt:
    return new_job_attempt("/t", "job_1", 0)


@pytest.fixture
def fake(job: JobAttempt) -> FakeS3:
    fake = FakeS3()
    write_job(direct_store(fake), job, TASKS)
    return fake


def uploads(fake: FakeS3) -> list[str]:
    return sorted(one.name for one in fake.uploads.values())


def test_all_uploads_of_the_job_are_aborted_once(fake: FakeS3, job: JobAttempt):
    store = direct_store(fake)
    assert abort_uploads(store, job, lambda: True, is_committed=False) == 3
    assert uploads(fake) == []
    assert abort_uploads(store, job, lambda: True, is_committed=False) == 0


def test_uploads_are_found_in_manifests_without_notes(fake: FakeS3, job: JobAttempt):
    for name in [one for one in fake.buckets["bucket"] if "/tasks/" in one]:
        del fake.buckets["bucket"][name]
    assert abort_uploads(direct_store(fake), job, lambda: True, is_committed=False) == 3


def test_nothing_is_aborted_if_the_id_was_set_up_again(fake: FakeS3, job: JobAttempt):
    """The state is looked at after the files of the job were read."""
    seen: list[int] = []

    def is_meant() -> bool:
        seen.append(len([one for one in fake.requests if one[0] == "GET" and one[1]]))
        return False

    fake.requests.clear()
    assert abort_uploads(direct_store(fake), job, is_meant, is_committed=False) == 0
    assert len(uploads(fake)) == 3
    assert seen == [4]  # two manifests and their copies
    assert not any(method == "DELETE" for method, _, _ in fake.requests)


def test_after_a_commit_only_what_is_pending_is_looked_for(fake: FakeS3, job: JobAttempt):
    store = direct_store(fake)
    other = store.begin_upload("/t/of another", None)
    assert abort_uploads(store, job, lambda: True, is_committed=True) == 3
    assert [*fake.uploads] == [other]
    store.abort_upload("/t/of another", other)
    fake.requests.clear()
    assert abort_uploads(store, job, lambda: True, is_committed=True) == 0
    assert len(fake.requests) == 1
