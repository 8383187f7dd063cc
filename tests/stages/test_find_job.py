"""About how many files a job has, for two requests."""

from __future__ import annotations

import pytest

from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.stages.find_job import estimate_files
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore, write_job


@pytest.fixture
def job() -> JobAttempt:
    return new_job_attempt("/table", "job_1", 0)


def task(number: int, files: int) -> dict[str, bytes]:
    return {f"part-{number:04d}-{file:04d}": b"x" for file in range(files)}


@pytest.mark.parametrize("files", [[1], [7], [100] * 20, [0, 50, 3], [200, 1, 1, 1], range(1, 40)])
def test_the_estimate_is_near_and_costs_two_requests(job: JobAttempt, files: list[int]):
    store, calls = MemoryStore(), list[StoreCall]()
    write_job(store, job, {number: task(number, count) for number, count in enumerate(files)})
    found = estimate_files(WrappedStore(store, before=calls.append), job)
    assert 0.9 * sum(files) <= found <= 1.1 * sum(files) + 2 * len(files)
    assert [call.operation for call in calls] == ["list_status", "read"]


@pytest.mark.parametrize("tasks", [{}, {0: {}}, {0: {}, 1: {}}])
def test_a_job_without_files_has_none(job: JobAttempt, tasks: dict[int, dict[str, bytes]]):
    store = MemoryStore()
    write_job(store, job, tasks)
    assert estimate_files(store, job) == 0


def test_a_job_that_is_not_there_has_no_files(job: JobAttempt):
    store = MemoryStore()
    assert estimate_files(store, job) == 0
    store.write("/table", b"a file")
    assert estimate_files(store, job) == 0


def test_only_manifests_count(job: JobAttempt):
    store = MemoryStore()
    write_job(store, job, {0: task(0, 10)})
    store.write(f"{job.manifests}/task_1_m_000009-manifest.json.tmp", b"x" * 100_000)
    assert estimate_files(store, job) == 10


def test_an_empty_manifest_is_for_others_to_refuse(job: JobAttempt):
    store = MemoryStore()
    write_job(store, job, {})
    store.write(job.manifest("task_1_m_000000"), b"")
    assert estimate_files(store, job) == 0


def test_a_manifest_that_vanishes_meanwhile_is_no_error(job: JobAttempt):
    store = MemoryStore()
    write_job(store, job, {0: task(0, 10)})

    def vanish(call: StoreCall) -> None:
        if call.operation == "read":
            store.delete_directory(job.directory)

    assert estimate_files(WrappedStore(store, before=vanish), job) == 0
