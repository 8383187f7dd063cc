"""The public calls on a store that is slow to answer, and where tasks are told to write."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.errors import (
    CommitStateUnknownError,
    PathError,
    StoreFailedError,
    StoreRefusedError,
    StoreUnavailableError,
)
from ray_committer.jobs import open_job
from ray_committer.protocol.iostatistics import Mean
from ray_committer.protocol.statistic_names import COMMIT_JOB
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.output import open_output
from ray_committer.stores.registry import fsspec_url
from ray_committer.testing import MemoryStore, StoreCall
from tests.opening import opening


@pytest.fixture
def lost(no_pauses: None) -> Iterator[list[StoreCall]]:
    """Each request that may be made twice loses its first answer; the requests that lost it."""
    lost: list[StoreCall] = []

    def lose(call: StoreCall) -> None:
        # A pack gets another name when its writer asks again.
        known = [(one.operation, one.paths[0].rpartition("/packs/")[0] or one) for one in lost]
        this = call.operation, call.paths[0].rpartition("/packs/")[0] or call
        if call.operation not in ("rename", "replace") and this not in known:
            lost.append(call)
            raise StoreUnavailableError(call.paths[0], "lost")

    with opening(after=lose):
        yield lost


def test_every_call_asks_again(lost: list[StoreCall], dest: Path):
    job = ray_committer.setup_job(str(dest))
    with ray_committer.task_attempt(str(dest), job, 0) as attempt:
        Path(attempt.path("p=1/a")).write_text("x")
    assert ray_committer.list_jobs(str(dest))[0].manifests == 1
    assert ray_committer.plan_job(str(dest), job).files == 1
    ray_committer.commit_job(str(dest), executor="inline")
    assert ray_committer.validate_job(str(dest), job).compared == 1
    assert (dest / "p=1" / "a").read_text() == "x"
    assert not (dest / "_temporary").exists()
    assert len(lost) > 15


def test_a_store_that_cannot_be_opened_says_nothing_of_the_job(write_job, dest: Path, monkeypatch):
    write_job({0: {"a": "x"}})

    def fail(*_: object, **__: object) -> StoreOperations:
        raise StoreUnavailableError(str(dest), "no answer")

    monkeypatch.setattr(open_job, "open_store", fail)
    for run in (ray_committer.commit_job, ray_committer.abort_job, ray_committer.plan_job):
        with pytest.raises(CommitStateUnknownError, match="so the state of the job is not known"):
            run(str(dest))


def test_the_time_until_the_store_is_open_is_part_of_the_commits(write_job, dest: Path, monkeypatch):
    write_job({0: {"a": "x"}})
    opened = open_job.open_store

    def open_slowly(spec: StoreSpec, **_: float) -> StoreOperations:
        time.sleep(0.3)
        return opened(spec)

    monkeypatch.setattr(open_job, "open_store", open_slowly)
    report = ray_committer.commit_job(str(dest), executor="inline")
    assert report.seconds >= 0.3 + report.stage_seconds[COMMIT_JOB]


def test_every_abort_asks_again(lost: list[StoreCall], dest: Path):
    job = ray_committer.setup_job(str(dest))
    assert ray_committer.abort_job(str(dest), job)
    assert not (dest / "_temporary").exists()
    assert lost


@pytest.mark.parametrize(
    ("spec", "url"),
    [
        (StoreSpec("file"), "/d/a b%20#"),
        (StoreSpec("gs", "bucket"), "gs://bucket/d/a b%20#"),
        (StoreSpec("hdfs", "name:8020"), "hdfs://name:8020/d/a b%20#"),
    ],
)
def test_tasks_are_told_where_to_write_as_fsspec_names_it(spec: StoreSpec, url: str):
    assert fsspec_url(spec, "/d/a b%20#") == url


def test_a_file_is_opened_where_the_attempt_writes_and_only_once(dest: Path):
    job = ray_committer.setup_job(str(dest))
    with ray_committer.task_attempt(str(dest), job, 0) as attempt:
        with attempt.open("p=1/a") as file:
            file.write(b"x")
        with pytest.raises(StoreFailedError, match="p=1/a: File exists"):
            attempt.open("p=1/a")
        with pytest.raises(PathError, match="leads out of"):
            attempt.open("")
    ray_committer.commit_job(str(dest), executor="inline")
    assert (dest / "p=1" / "a").read_text() == "x"


def test_a_file_of_another_store_is_opened_by_fsspec():
    with open_output(MemoryStore(), "/d/a%20b") as file:
        file.write(b"x")
    assert fsspec.filesystem("memory").cat("/test/d/a%20b") == b"x"


def test_a_store_that_fsspec_does_not_know_is_refused():
    store = MemoryStore()
    store.spec = StoreSpec("none", "host")
    with pytest.raises(StoreRefusedError, match="none://host: fsspec cannot write there"):
        open_output(store, "/d/a")


def test_attempts_without_a_number_keep_their_manifests(dest: Path):
    job = ray_committer.setup_job(str(dest))
    named = []
    for _ in range(2):
        with ray_committer.task_attempt(str(dest), job, 0, attempt=None) as attempt:
            assert attempt.committed is None
        named.append(attempt.committed)
    assert ray_committer.list_jobs(str(dest))[0].manifests == 2
    options = CommitOptions(committed_tasks=(named[0],), ignore_other_attempts=True)
    assert ray_committer.commit_job(str(dest), job, options=options, executor="inline").manifests == 1


def test_a_secret_is_not_shown():
    assert "secret" not in repr(StoreSpec("gs", "bucket", {"token": "secret"}))


def test_success_adds_up_the_statistics_that_tasks_saved_in_their_manifests(dest: Path):
    job = ray_committer.setup_job(str(dest))
    for task, names in enumerate((["p=1/a", "p=1/b"], ["p=2/c"], [])):
        with ray_committer.task_attempt(str(dest), job, task) as attempt:
            for name in names:
                Path(attempt.path(name)).write_text("xyz")
    ray_committer.commit_job(str(dest), job)
    success = ray_committer.read_document(str(dest)).success
    assert success is not None
    assert success.iostatistics is not None
    found = success.iostatistics
    for name, values in (
        ("committer_task_file_count", (2, 1, 0)),
        ("committer_task_file_size", (6, 3, 0)),
        ("committer_task_directory_count", (1, 1, 0)),
    ):
        assert found.counters[name] == sum(values)
        assert (found.minimums[name], found.maximums[name]) == (min(values), max(values))
        assert found.meanstatistics[name] == Mean(3, sum(values))
    for name in ("task_stage_setup", "task_stage_commit"):
        assert found.counters[name] == found.meanstatistics[f"{name}.mean"].samples == 3
