"""About how many files a job has, by its manifests."""

from __future__ import annotations

import pytest

from ray_committer.job_files.manifests import estimate_files
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore, write_job
from tests.stages.support import JOB, with_job


def task(number: int, files: int) -> dict[str, bytes]:
    return {f"part-{number:04d}-{file:04d}": b"x" for file in range(files)}


@pytest.mark.parametrize("files", [[1], [7], [100] * 20, [0, 50, 3], [200, 1, 1, 1], range(1, 40)])
def test_the_estimate_is_near_and_costs_two_requests(files: list[int]):
    store, calls = MemoryStore(), list[StoreCall]()
    write_job(store, JOB, {number: task(number, count) for number, count in enumerate(files)})
    found = estimate_files(WrappedStore(store, before=calls.append), JOB)
    assert 0.9 * sum(files) <= found <= 1.1 * sum(files) + 2 * len(files)
    assert [call.operation for call in calls] == ["list_status", "read"]


@pytest.mark.parametrize("tasks", [{}, {0: {}}, {0: {}, 1: {}}])
def test_a_job_without_files_has_none(tasks: dict[int, dict[str, bytes]]):
    store = with_job(tasks)
    assert estimate_files(store, JOB) == 0


def test_a_job_that_is_not_there_has_no_files():
    store = MemoryStore()
    assert estimate_files(store, JOB) == 0
    store.write("/table", b"a file")
    assert estimate_files(store, JOB) == 0


def test_only_manifests_count():
    store = with_job({0: task(0, 10)})
    store.write(f"{JOB.manifests}/task_1_m_000009-manifest.json.tmp", b"x" * 100_000)
    assert estimate_files(store, JOB) == 10


def test_an_empty_manifest_is_for_others_to_refuse():
    store = with_job()
    store.write(JOB.manifest("task_1_m_000000"), b"")
    assert estimate_files(store, JOB) == 0


def test_a_manifest_that_vanishes_meanwhile_is_no_error():
    store = with_job({0: task(0, 10)})

    def vanish(call: StoreCall) -> None:
        if call.operation == "read":
            store.delete_directory(JOB.directory)

    assert estimate_files(WrappedStore(store, before=vanish), JOB) == 0
