"""A job id that is set up again while a process of the earlier job sleeps: neither is the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from ray_committer.errors import CommitRecordExistsError, CommitStateUnknownError, JobGoneError
from ray_committer.job_files.job_state import read_state
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.state import Phase
from ray_committer.stages.setup_job import setup_job
from ray_committer.testing import (
    MemoryStore,
    StoreCall,
    WrappedStore,
    run_abort,
    run_commit,
    visible_files,
    write_job,
)
from tests.doubles import phase_of

JOB = new_job_attempt("/table", "job_1", 0)
OPTIONS = CommitOptions(conflict_wait_seconds=0.02)


@pytest.fixture(params=[True, False], ids=["directories", "flat"])
def store(request: pytest.FixtureRequest) -> MemoryStore:
    store = MemoryStore(real_directories=request.param)
    write_job(store, JOB, {0: {"first": b"1"}})
    return store


def before_its_first_change(
    store: MemoryStore, act: Callable[[], None], changes: Sequence[str] = ("advance",)
) -> WrappedStore:
    """A store that lets `act` happen just before the first change, by default of a state."""
    acted: list[bool] = []

    def hook(call: StoreCall) -> None:
        if call.operation in changes and not acted:
            acted.append(True)
            act()

    return WrappedStore(store, before=hook)


def end_and_set_up_again(store: MemoryStore) -> None:
    run_commit(store, JOB, OPTIONS)
    write_job(store, JOB, {0: {"second": b"2"}})


@pytest.mark.parametrize("run", [run_commit, run_abort])
def test_who_slept_until_the_id_was_set_up_again_does_nothing_to_the_later_job(store: MemoryStore, run):
    """Its set-up has removed ``_SUCCESS``, so nothing tells what became of the earlier one."""
    late = before_its_first_change(store, lambda: end_and_set_up_again(store))
    with pytest.raises(CommitStateUnknownError, match="nothing shows whether"):
        run(late, JOB)
    assert phase_of(store, JOB) is Phase.OPEN
    assert visible_files(store, "/table") == {"first": b"1"}


def test_a_later_job_that_was_aborted_is_not_said_to_be_committed(store: MemoryStore):
    end_and_set_up_again(store)
    run_abort(store, JOB)
    with pytest.raises(JobGoneError, match="_SUCCESS is not this job's"):
        run_commit(store, JOB, CommitOptions(expected_tasks=1))


@pytest.mark.parametrize("run", [run_commit, run_abort])
def test_the_success_of_an_earlier_job_says_nothing_of_a_later_one(store: MemoryStore, run):
    run_commit(store, JOB, OPTIONS)
    success = store.read("/table/_SUCCESS")
    write_job(store, JOB, {0: {"second": b"2"}})

    def abort() -> None:
        run_abort(store, JOB)
        store.write("/table/_SUCCESS", success)  # by a process of the earlier job

    with pytest.raises(CommitStateUnknownError, match="nothing shows whether"):
        run(before_its_first_change(store, abort), JOB)
    assert visible_files(store, "/table") == {"first": b"1"}


def test_the_marker_of_another_job_does_not_answer_for_one_whose_files_are_gone(store: MemoryStore):
    other = new_job_attempt("/table", "job_2", 0)
    write_job(store, other, {0: {"b": b"2"}})
    run_commit(store, JOB)
    store.delete_directory(other.temporary)
    with pytest.raises(JobGoneError, match=r"may have been committed .* clean-up") as caught:
        run_commit(store, other, CommitOptions(expected_tasks=1))
    assert caught.value.exit_code == 3


def test_a_job_that_was_taken_away_by_mistake_is_not_called_committed():
    store = MemoryStore()
    write_job(store, JOB, {0: {"first": b"1"}})
    gone = JOB.gone("77").directory
    late = before_its_first_change(store, lambda: store.move_directory(JOB.directory, gone))
    with pytest.raises(CommitStateUnknownError, match="nothing shows whether"):
        run_abort(late, JOB)


def test_an_attempt_that_is_set_up_after_an_earlier_one_was_committed_is_refused(store: MemoryStore):
    run_commit(store, JOB, OPTIONS)
    before = store.read("/table/_SUCCESS")
    with pytest.raises(CommitRecordExistsError, match="another attempt of job job_1 is committed"):
        write_job(store, new_job_attempt("/table", "job_1", 1), {0: {"second": b"2"}})
    assert store.read("/table/_SUCCESS") == before


def test_a_first_attempt_whose_set_up_slept_until_a_later_one_was_committed_is_refused(
    store: MemoryStore,
):
    run_abort(store, JOB)

    def commit_later() -> None:
        later = new_job_attempt("/table", "job_1", 1)
        write_job(store, later, {0: {"second": b"2"}})
        run_commit(store, later, OPTIONS)

    slept = before_its_first_change(store, commit_later, ("mkdirs", "advance"))
    with pytest.raises(CommitRecordExistsError, match="another attempt of job job_1 is committed"):
        setup_job(slept, JOB)
    assert visible_files(store, "/table") == {"second": b"2"}
    assert read_state(store, JOB) is None
