"""How many requests a commit without faults makes, as Hadoop's own tests count them."""

from __future__ import annotations

from collections import Counter

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.protocol.paths import JobAttempt
from ray_committer.stages.cleanup_job import FEW_ATTEMPTS
from ray_committer.testing import StoreCall, WrappedStore, run_commit

FIXED = 12


def count(store, job: JobAttempt, options: CommitOptions) -> Counter[str]:
    calls: list[StoreCall] = []
    report = run_commit(WrappedStore(store, before=calls.append), job, options)
    assert report.moved == report.files
    return Counter(call.operation for call in calls)


@pytest.mark.parametrize(
    ("tasks", "files", "directories"), [(1, 1, 1), (5, 40, 4), (20, 20, 10), (40, 2, 2)]
)
def test_a_commit_without_faults_keeps_its_budget(
    store, write_job, tasks: int, files: int, directories: int
):
    job = write_job(
        {task: {f"p={n % directories}/f-{task}-{n}": "x" for n in range(files)} for task in range(tasks)}
    )
    found = count(store, job, CommitOptions(validate=False))
    leaves = min(files, directories)
    attempts = tasks if tasks > FEW_ATTEMPTS else 0
    assert found.total() == tasks * files + tasks + leaves + attempts + FIXED
    assert found["get_status"] == 0  # no HEAD, of a file or of anything else
    assert found["read"] == tasks
    assert found["mkdirs"] == leaves
    assert found["rename"] == tasks * files + 2  # the record, the commit point


def test_validation_costs_one_listing_a_directory_and_no_request_a_file(store, write_job):
    job = write_job({task: {f"p={n}/f-{task}": "x" for n in range(7)} for task in range(3)})
    without = count(store, job, CommitOptions(validate=False))
    job = write_job(
        {task: {f"p={n}/g-{task}": "x" for n in range(7)} for task in range(3)}, job_id="job_2"
    )
    found = count(store, job, CommitOptions(validate=True))
    assert found - without == Counter(list_status=7)


def test_a_job_that_must_be_looked_for_costs_two_listings_more(monkeypatch, store, write_job, dest):
    write_job({0: {"a": "x"}})
    calls: list[StoreCall] = []
    monkeypatch.setattr(
        ray_committer.open_job, "open_store", lambda spec: WrappedStore(store, before=calls.append)
    )
    ray_committer.commit_job(str(dest), executor="inline", options=CommitOptions(validate=False))
    assert len(calls) == 1 + 1 + 0 + FIXED + 2
