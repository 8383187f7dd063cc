"""Setting up a task attempt makes its directory once, in a job that is set up."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import PathError, TaskCommitError
from ray_committer.protocol.paths import STAGED, join
from ray_committer.protocol.state import UNSTAMPED, Phase
from ray_committer.stages.setup_job import setup_job
from ray_committer.stages.setup_task import setup_task
from ray_committer.testing import MemoryStore, WrappedStore, fail_at
from tests.stages.support import JOB, WHEN, bring_to, each_crash, requests, with_job


def test_a_path_that_leads_out_is_refused(dest: Path):
    ray_committer.setup_job(str(dest), "job_1")
    with (
        pytest.raises(PathError, match=r"\.\."),
        ray_committer.task_attempt(str(dest), "job_1", 0) as running,
    ):
        running.path("../../out")


ATTEMPT = "attempt_1_m_000000_0"


@pytest.mark.parametrize("attempts", [1, 5])
def test_each_attempt_gets_an_empty_directory_of_its_own(attempts: int):
    store = with_job()
    made = [setup_task(store, JOB, f"attempt_1_m_000000_{number}")[0] for number in range(attempts)]
    assert made == [f"{JOB.tasks}/attempt_1_m_000000_{number}" for number in range(attempts)]
    listed = sorted(status.path for status in store.list_status(JOB.tasks))
    assert listed == [*made, join(JOB.tasks, STAGED)]
    assert store.files(JOB.tasks) == {}


def test_a_task_is_told_the_stamp_of_the_job_that_it_is_of():
    store = MemoryStore()
    stamp = setup_job(store, JOB)
    assert setup_task(store, JOB, ATTEMPT)[1] == stamp


def test_a_task_of_a_job_that_hadoop_set_up_knows_no_stamp():
    store = MemoryStore()
    store.mkdirs(JOB.manifests)
    assert setup_task(store, JOB, ATTEMPT) == (f"{JOB.tasks}/{ATTEMPT}", UNSTAMPED)
    assert store.get_status(JOB.state) is None


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.OPEN])
def test_a_task_of_a_job_that_is_being_ended_is_refused(phase: Phase):
    store = with_job()
    bring_to(store, phase)
    with pytest.raises(TaskCommitError, match="is being committed or aborted"):
        setup_task(store, JOB, ATTEMPT)
    assert store.get_status(JOB.task_attempt(ATTEMPT)) is None


def test_setting_up_a_task_attempt_costs_three_requests_whatever_others_did():
    store = with_job()
    for number in range(1, 10):
        setup_task(store, JOB, f"attempt_1_m_{number:06d}_0")
    found = requests(store, lambda one: setup_task(one, JOB, ATTEMPT))
    assert found == Counter(read_state=1, get_status=1, mkdirs=1)


def test_an_attempt_that_exists_is_refused_and_keeps_its_files():
    store = with_job()
    store.write(f"{setup_task(store, JOB, ATTEMPT)[0]}/a", b"x")
    with pytest.raises(TaskCommitError, match=r"exists already; give every task attempt its own number"):
        setup_task(store, JOB, ATTEMPT)
    assert store.files(JOB.tasks) == {f"{JOB.tasks}/{ATTEMPT}/a": b"x"}


def test_a_task_of_a_job_that_is_over_is_refused():
    store = with_job()
    store.delete_directory(JOB.directory)
    with pytest.raises(TaskCommitError, match="is not a job that was set up"):
        setup_task(store, JOB, ATTEMPT)
    assert store.get_status(JOB.task_attempt(ATTEMPT)) is None


@pytest.mark.parametrize("attempt", ["", "..", "a/b"])
def test_an_id_that_is_not_a_name_makes_no_directory(attempt: str):
    store = with_job()
    with pytest.raises(PathError, match="task attempt id"):
        setup_task(store, JOB, attempt)
    assert [status.name for status in store.list_status(JOB.tasks)] == [STAGED]


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_a_request_that_fails_is_an_error_of_the_attempt(when: str, number: int, error: type[OSError]):
    with pytest.raises(error):
        setup_task(WrappedStore(with_job(), **{when: fail_at(number, error)}), JOB, ATTEMPT)


def test_a_task_whose_job_is_taken_away_meanwhile_is_told_so():
    gone = WrappedStore(with_job(), before=fail_at(3, FileNotFoundError))
    with pytest.raises(TaskCommitError, match="because the job is being removed"):
        setup_task(gone, JOB, ATTEMPT)


def test_a_directory_whose_answer_was_lost_is_not_given_to_another_attempt():
    store = with_job()
    with pytest.raises(TimeoutError):
        setup_task(WrappedStore(store, after=fail_at(3)), JOB, ATTEMPT)
    with pytest.raises(TaskCommitError, match="exists already"):
        setup_task(store, JOB, ATTEMPT)


def test_after_a_crash_anywhere_the_next_attempt_can_be_set_up():
    for store in each_crash(with_job, lambda one: setup_task(one, JOB, ATTEMPT)):
        assert setup_task(store, JOB, "attempt_1_m_000000_1")[0].endswith("_1")
