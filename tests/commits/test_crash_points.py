"""Crash a commit before, after and inside every store call, on every kind of store; run it again.

Complete: every file of the job is there with its content. Exclusive: nothing else is. Nothing is left
in ``_temporary``. Where a URL leads to the store, the second run knows only that, as a person at night
does. Or give the job up instead: then nothing of it is visible, and all old data is.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest

import ray_committer
from ray_committer import Outcome
from ray_committer.errors import CommitRecordExistsError, CommitStateUnknownError
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.state import Phase
from ray_committer.stages.take_away import sweep_all_gone
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    crash_at,
    run_abort,
    run_commit,
    visible_files,
)
from ray_committer.testing.harness import (
    all_files,
    commit_attempt,
    run_undo,
    set_up_attempt,
    write_attempt,
)
from tests.doubles import (
    NAMES,
    NEW,
    SCENARIOS,
    TASKS,
    Double,
    Scenario,
    check_unfinished,
    check_whole,
    doubles,
    pending_uploads,
    phase_of,
)
from tests.opening import moves_a_file
from tests.stages.support import crash_points

pytestmark = [pytest.mark.alternate, pytest.mark.slow]


@pytest.fixture(params=SCENARIOS, ids=lambda scenario: scenario.name)
def scenario(request: pytest.FixtureRequest) -> Scenario:
    return request.param


@pytest.fixture(params=NAMES)
def double(request: pytest.FixtureRequest, tmp_path: Path, scenario: Scenario) -> Double:
    """A destination with old files and an uncommitted job, to be copied for each crash."""
    double = doubles(tmp_path)[request.param]
    double.prepare(scenario, beside_another_job=False)
    return double


def count_calls(double: Double, scenario: Scenario) -> int:
    calls: list[StoreCall] = []
    run_commit(WrappedStore(double.fresh(), before=calls.append), double.job, scenario.options)
    return len(calls)


def finish(double: Double, store: StoreOperations, scenario: Scenario) -> None:
    """Run the same command; once the job is decided nobody has to vouch for its tasks again."""
    decided = store.get_status(double.job.success) is not None or is_decided(store, double.job)
    options = replace(scenario.options, assume_complete=not decided)
    if double.is_local:
        report = ray_committer.commit_job(double.job.destination, executor="inline", options=options)
    else:
        report = run_commit(store, double.job, options)
    assert report.outcome in (Outcome.COMMITTED, Outcome.ALREADY_COMMITTED)
    double.check_finished(store, scenario.visible)


def test_a_commit_crashed_at_any_store_call_is_finished_by_running_it_again(
    double: Double, scenario: Scenario
):
    total = count_calls(double, scenario)
    assert total > 15
    for when, number in crash_points(total):
        store = double.fresh()
        with pytest.raises(SimulatedCrash):
            run_commit(WrappedStore(store, **{when: crash_at(number)}), double.job, scenario.options)
        check_unfinished(store, double.job, scenario)
        check_whole(store, double, scenario)
        finish(double, store, scenario)


def is_decided(store: StoreOperations, job: JobAttempt) -> bool:
    return phase_of(store, job) not in (None, Phase.OPEN, Phase.DECLARED)


def tells_files_apart(double: Double) -> bool:
    """Whether a file that was moved is known again by more than its size."""
    return not double.name.startswith(("memory size only", "memory file id"))


def give_up(double: Double, store: StoreOperations, scenario: Scenario) -> Phase | None:
    """Undo the commit, or say why not; returns how far it was."""
    phase = phase_of(store, double.job)
    try:
        run_undo(store, double.job)
    except CommitRecordExistsError:
        assert phase in (Phase.SEALED, Phase.COMMITTED)
        check_unfinished(store, double.job, scenario)
        finish(double, store, scenario)
    except CommitStateUnknownError:  # nothing but a size tells whose a file is
        assert not tells_files_apart(double)
        assert phase in (Phase.RECORDED, Phase.UNDOING)
    else:
        if phase is None:  # it was committed, and no more than deleted in part
            finish(double, store, scenario)
        else:
            check_given_up(double, store, scenario)
    return phase


def check_given_up(double: Double, store: StoreOperations, scenario: Scenario) -> None:
    assert visible_files(store, double.job.destination) == scenario.old
    assert store.get_status(double.job.success) is None
    assert store.get_status(double.job.temporary) is None
    assert pending_uploads(store) == []


def test_a_commit_crashed_at_any_store_call_can_be_given_up_until_old_files_may_be_gone(
    double: Double, scenario: Scenario
):
    seen: set[Phase | None] = set()
    for when, number in crash_points(count_calls(double, scenario)):
        store = double.fresh()
        with pytest.raises(SimulatedCrash):
            run_commit(WrappedStore(store, **{when: crash_at(number)}), double.job, scenario.options)
        seen.add(give_up(double, store, scenario))
    sealed = {Phase.SEALED} if scenario.name == "overwrite" else set()
    assert seen == {Phase.OPEN, Phase.DECLARED, Phase.RECORDED, Phase.COMMITTED, None} | sealed


def test_an_undo_crashed_at_any_store_call_is_finished_by_running_it_again(
    double: Double, scenario: Scenario
):
    """The crashed commit had moved every file but one."""
    if not tells_files_apart(double):
        pytest.skip("where nothing but a size tells files apart, no moved file is taken back")
    moves = 0

    def crash(call: StoreCall) -> None:
        nonlocal moves
        moves += call.operation == "publish" or (moves_a_file(call))
        if moves == 3:
            raise SimulatedCrash(call)

    def begun() -> StoreOperations:
        nonlocal moves
        moves, store = 0, double.fresh()
        with pytest.raises(SimulatedCrash):
            run_commit(WrappedStore(store, after=crash), double.job, scenario.options)
        assert phase_of(store, double.job) is Phase.RECORDED
        assert visible_files(store, double.job.destination) != scenario.old
        return store

    calls: list[StoreCall] = []
    run_undo(WrappedStore(begun(), before=calls.append), double.job)
    for when, number in crash_points(len(calls)):
        store = begun()
        with pytest.raises(SimulatedCrash):
            run_undo(WrappedStore(store, **{when: crash_at(number)}), double.job)
        run_undo(store, double.job)
        check_given_up(double, store, scenario)


def test_an_abort_crashed_at_any_store_call_is_finished_by_running_it_again(
    double: Double, scenario: Scenario
):
    calls: list[StoreCall] = []
    run_abort(WrappedStore(double.fresh(), before=calls.append), double.job)
    for when, number in crash_points(len(calls)):
        store = double.fresh()
        with pytest.raises(SimulatedCrash):
            run_abort(WrappedStore(store, **{when: crash_at(number)}), double.job)
        run_abort(store, double.job)
        check_given_up(double, store, scenario)


def test_a_commit_crashed_twice_is_finished_by_the_third_run(double: Double, scenario: Scenario):
    total = count_calls(double, scenario)
    for number in range(3, total, 3):
        store = double.fresh()
        for again in (number, 7):
            crashing = WrappedStore(store, after=crash_at(again))
            with contextlib.suppress(SimulatedCrash):  # the second may have too few calls left
                run_commit(crashing, double.job, scenario.options)
            check_whole(store, double, scenario)
        finish(double, store, scenario)


def test_a_torn_write_is_never_taken_for_the_whole(double: Double, scenario: Scenario):
    writes: list[StoreCall] = []
    counting = WrappedStore(
        double.fresh(),
        before=lambda call: writes.append(call) if call.operation == "write" else None,
    )
    run_commit(counting, double.job, scenario.options)
    own = 2  # the record, and the pack that it names
    own += double.fake is None  # _SUCCESS, which is put in place in one request on S3
    own += double.fake is None and "flat" not in double.name  # the declaration: else part of the state
    own += bool(scenario.whole) and double.moves_whole  # the note of new directories
    assert len(writes) == own
    for torn in writes:

        def tear(call: StoreCall, data: bytes, torn: StoreCall = torn) -> bytes:
            return data[: len(data) // 2] if call.number == torn.number else data

        store = double.fresh()
        crashing = WrappedStore(store, after=crash_at(torn.number), write_data=tear)
        with pytest.raises(SimulatedCrash):
            run_commit(crashing, double.job, scenario.options)
        finish(double, store, scenario)


@pytest.mark.parametrize("real_directories", [True, False])
def test_a_job_without_state_as_hadoops_own_committer_sets_up_is_finished_or_aborted(
    real_directories: bool,
):
    """The first that works on it gives it a state; its tasks know no stamp."""
    prepared = MemoryStore(real_directories=real_directories, listing_is_cheap=real_directories)
    job = new_job_attempt("/bucket/table", "job_1", 0)
    prepared.mkdirs(job.manifests)
    for task, files in TASKS.items():
        attempt = set_up_attempt(prepared, job, task, 0)
        write_attempt(prepared, job, attempt, files)
        commit_attempt(prepared, job, task, attempt)
    assert phase_of(prepared, job) is None
    calls: list[StoreCall] = []
    run_commit(WrappedStore(prepared.copy(), before=calls.append), job)
    for when, number in crash_points(len(calls)):
        store = prepared.copy()
        with pytest.raises(SimulatedCrash):
            run_commit(WrappedStore(store, **{when: crash_at(number)}), job)
        if phase_of(store, job) in (Phase.OPEN, Phase.DECLARED):
            aborted = store.copy()
            assert run_abort(aborted, job) is True
            sweep_all_gone(aborted, job)  # of a state that never came into its place
            assert all_files(aborted, "/bucket") == {}
        run_commit(store, job)
        assert visible_files(store, job.destination) == NEW
        sweep_all_gone(store, job)
        assert all_files(store, job.temporary) == {}
