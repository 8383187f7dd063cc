"""What clean-up deletes, how often it asks, and what a failure of it means.

Beside `tests/stages/test_cleanup_job`. Source: Hadoop TestCleanupStage, by scenario.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions, Outcome
from ray_committer.protocol.paths import JobAttempt
from ray_committer.stages.cleanup_job import FEW_ATTEMPTS
from ray_committer.stages.setup_task import setup_task
from ray_committer.testing import StoreCall, WrappedStore, run_commit

TEN_TASKS = {task: {f"f{task}": "x"} for task in range(10)}
MANY_TASKS = {task: {f"f{task}": "x"} for task in range(FEW_ATTEMPTS + 1)}


@pytest.fixture
def deletes_name_by_name(store) -> None:
    """As a network file system does, and stores that this project does not know."""
    store.capabilities = replace(store.capabilities, deletes_trees=False)


def deleted(store, job: JobAttempt) -> list[str]:
    """Commit; the directories whose deletion was asked for, below that of the job attempt, in order.

    It is taken away, by one rename, before anything in it is deleted.
    """
    calls: list[StoreCall] = []
    run_commit(WrappedStore(store, before=calls.append), job)
    (gone,) = (
        call.paths[1]
        for call in calls
        if call.operation == "move_directory" and call.paths[0] == job.directory
    )
    paths = [call.paths[0] for call in calls if call.operation == "delete_directory"]
    assert all(path.startswith(gone) for path in paths)
    return [path.removeprefix(gone).lstrip("/") for path in paths]


@pytest.mark.usefixtures("deletes_name_by_name")
def test_each_task_attempt_is_deleted_by_a_request_of_its_own_and_the_job_last(store, write_job, dest):
    job = write_job(MANY_TASKS)
    attempts = [f"tasks/attempt_1_m_{task:06d}_0" for task in MANY_TASKS]
    found = deleted(store, job)
    assert sorted(found[: len(attempts)]) == attempts
    assert found[len(attempts) :] == [""]
    assert not (dest / "_temporary").exists()


@pytest.mark.usefixtures("deletes_name_by_name")
def test_few_task_attempts_are_deleted_by_one_request(store, write_job, dest):
    assert deleted(store, write_job(TEN_TASKS)) == [""]
    assert not (dest / "_temporary").exists()


def test_any_number_is_deleted_by_one_request_where_the_store_can(store, write_job, dest):
    assert deleted(store, write_job(MANY_TASKS)) == [""]
    assert not (dest / "_temporary").exists()


@pytest.mark.usefixtures("deletes_name_by_name")
def test_attempts_that_never_committed_are_deleted_too(store, write_job, dest: Path):
    job = write_job(MANY_TASKS)
    directory, _ = setup_task(store, job, "attempt_1_m_000099_0")
    Path(directory, "unfinished").write_text("x")
    assert len(deleted(store, job)) == len(MANY_TASKS) + 1
    assert not (dest / "_temporary").exists()


def test_a_job_without_a_directory_of_tasks_is_cleaned_up(store, write_job, dest: Path):
    job = write_job(TEN_TASKS)
    run_commit(store, job, CommitOptions(cleanup=False))
    shutil.rmtree(job.tasks)
    assert ray_committer.commit_job(str(dest)).outcome is Outcome.COMMITTED
    assert not (dest / "_temporary").exists()


def test_nothing_to_clean_up_is_a_job_committed_already(store, write_job, dest: Path):
    job = write_job(TEN_TASKS)
    run_commit(store, job, CommitOptions(cleanup=False))
    shutil.rmtree(dest / "_temporary")
    for cleanup in (True, False):
        report = ray_committer.commit_job(str(dest), "job_1", options=CommitOptions(cleanup=cleanup))
        assert report.outcome is Outcome.ALREADY_COMMITTED
        assert report.notices == []


@pytest.mark.usefixtures("deletes_name_by_name")
def test_one_attempt_that_cannot_be_deleted_leaves_the_job_committed_and_the_next_run_finishes(
    store, write_job, dest: Path, tree
):
    job = write_job(MANY_TASKS)

    def fail(call: StoreCall) -> None:
        if call.operation == "delete_directory" and "m_000004" in call.paths[0]:
            raise TimeoutError("Simulated failure of delete")

    report = run_commit(WrappedStore(store, before=fail), job)
    assert report.outcome is Outcome.COMMITTED
    assert ["Simulated failure of delete" in notice for notice in report.notices] == [True]
    assert ray_committer.commit_job(str(dest)).outcome is Outcome.ALREADY_COMMITTED
    assert not (dest / "_temporary").exists()
    assert tree() == {f"f{task}": "x" for task in MANY_TASKS}


def test_a_foreign_file_in_the_directory_of_all_jobs_is_left_there(store, write_job, dest: Path):
    job = write_job({0: {"a": "x"}})
    (dest / "_temporary" / "notes").write_text("of somebody else")
    run_commit(store, job)
    assert [path.name for path in (dest / "_temporary").iterdir()] == ["notes"]
