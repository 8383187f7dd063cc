"""A job that waits for a claim ends the job of that claim if it has stopped, and only then."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import pytest

from ray_committer.errors import CommitConflictError
from ray_committer.job_files import owners
from ray_committer.job_files.job_state import adopt_state, advance, read_state
from ray_committer.options import CommitOptions, Unfinished
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.state import Phase
from ray_committer.stages.setup_job import setup_job
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore, run_commit
from ray_committer.testing.harness import ending
from tests.commits.tables import (
    AT_ONCE,
    NEW,
    OVERWRITE,
    THIRD,
    begun,
    claimants_at_work,
    data_in,
    data_of_log,
    in_flight,
    kinds_of,
    of_mode,
    stopped_at,
    with_old_data,
    write,
)
from tests.stages.support import JOB, ON_DIRECTORIES, ON_OBJECTS, do_at, each_crash, state_of
from tests.tables.support import TABLE

pytestmark = pytest.mark.usefixtures("no_pauses")

READS = of_mode(ConflictMode.APPEND, reads=("day=1",))
DATA = {"day=1/old": 1, "day=2/old": 2, "day=1/c": 1}
FINISHES = CommitOptions(conflict_wait_seconds=0.0, finish_others=True)


def with_claim(kind: Callable[[], MemoryStore], phase: Phase = Phase.OPEN) -> MemoryStore:
    """A table with a job that has claimed all of it and then died, and a job that appends to it."""
    store = begun(kind, NEW, ConflictMode.OVERWRITE)
    stopped_at(store, "recorded", JOB, OVERWRITE)
    if phase is Phase.OPEN:
        advance(store, JOB, adopt_state(store, JOB), Phase.OPEN)
    write(store, {"day=1/c": b"c"}, THIRD)
    return store


def recorded(kind: Callable[[], MemoryStore], phase: str = "sealed") -> MemoryStore:
    """A table with a job that has read a partition, and died before a phase, and one that appends there.
    Only the log shows that they are in each other's way."""
    store = begun(kind, {"day=3/sum": b"1"}, ConflictMode.APPEND)
    write(store, {"day=1/c": b"c"}, THIRD)
    stopped_at(store, phase, JOB, READS)
    return store


# A job that is not recorded


@pytest.mark.parametrize("phase", [Phase.OPEN, Phase.DECLARED])
def test_a_stopped_job_that_is_not_recorded_is_aborted_at_the_end_of_the_waiting_time(
    kind, phase: Phase
):
    store = with_claim(kind, phase)
    report = run_commit(store, THIRD, AT_ONCE)
    assert report.table_version == 6
    assert kinds_of(store)[2:] == ["claim", "abort", "claim", "commit"]
    assert "job job_1 was aborted before this job" in " ".join(report.notices)
    assert read_state(store, JOB) is None
    assert data_of_log(store) == data_in(store) == DATA


@pytest.mark.parametrize("finish_others", [False, True])
def test_it_is_not_aborted_before_that(kind, finish_others: bool):
    store = with_claim(kind)
    phases: list[Phase | None] = []
    looked: list[float] = []

    def look(call: StoreCall) -> None:
        is_own = call.paths[0].startswith(THIRD.directory)
        if is_own and call.operation == "advance" and call.paths[-1].startswith("declared"):
            seen = read_state(store, JOB)
            phases.append(seen.phase if seen else None)
            looked.append(time.monotonic())

    waits = CommitOptions(conflict_wait_seconds=0.3, finish_others=finish_others)
    began = time.monotonic()
    assert run_commit(WrappedStore(store, before=look), THIRD, waits).table_version == 6
    assert set(phases[:-1]) == {Phase.OPEN}
    assert phases[-1] is None
    assert looked[-1] - began >= 0.3


@pytest.mark.parametrize("unfinished", ["refuse", "finish"])
def test_it_is_not_aborted_if_the_options_do_not_permit_it(kind, unfinished: Unfinished):
    store = with_claim(kind)
    options = CommitOptions(conflict_wait_seconds=0.0, unfinished=unfinished)
    with pytest.raises(CommitConflictError, match="is at work in day=1") as caught:
        run_commit(store, THIRD, options)
    assert caught.value.exit_code == 4
    assert "ray-committer abort memory://test/table --job-id job_1;" in caught.value.advice
    assert state_of(store).phase is Phase.OPEN
    assert state_of(store, THIRD).phase is Phase.OPEN
    assert in_flight(store) == ["job_1"]


def test_of_two_jobs_that_wait_for_each_other_only_the_earlier_one_aborts_the_other(kind):
    store = with_old_data(kind())
    for job, name in ((JOB, "a"), (THIRD, "c")):
        write(store, {f"day=1/{name}": b"x"}, job)
        stopped_at(store, "recorded", job, AT_ONCE)
    with pytest.raises(CommitConflictError, match=r"job job_1 .* is at work in day=1") as caught:
        run_commit(store, THIRD, OVERWRITE)
    assert "ray-committer abort memory://test/table --job-id job_1" in caught.value.advice
    assert (state_of(store).phase, state_of(store, THIRD).phase) == (Phase.OPEN, Phase.OPEN)
    report = run_commit(store, JOB, OVERWRITE)
    assert "job job_3 was aborted before this job" in " ".join(report.notices)
    assert data_of_log(store) == data_in(store) == {"day=1/a": 1}
    assert in_flight(store) == []


def test_the_first_claims_of_both_jobs_decide_which_one_is_earlier(kind):
    store = with_old_data(kind())
    for job, name in ((JOB, "day=2/a"), (THIRD, "day=1/c")):
        write(store, {name: b"x"}, job)
        stopped_at(store, "recorded", job, AT_ONCE)
    replaces = of_mode(ConflictMode.OVERWRITE, replaced_roots=("/table/day=3",))
    stopped_at(store, "recorded", JOB, replaces)
    assert in_flight(store) == ["job_1", "job_3", "job_1"]
    with pytest.raises(CommitConflictError, match=r"job job_1 .* is at work in day=3"):
        run_commit(store, THIRD, replaces)
    assert in_flight(store) == ["job_1", "job_3", "job_1"]


def test_a_job_whose_process_may_be_alive_is_not_aborted(kind):
    store = with_claim(kind)
    with claimants_at_work(store), pytest.raises(CommitConflictError, match="is at work in day=1"):
        run_commit(store, THIRD, AT_ONCE)
    assert state_of(store).phase is Phase.OPEN


def test_a_silent_job_is_watched_before_it_is_aborted(kind, monkeypatch: pytest.MonkeyPatch):
    """Its process may be on a machine that sleeps, or whose clock is late."""
    monkeypatch.setattr(owners, "DEAD_SECONDS", 0.01)
    for wakes in (False, True):
        store, looks = with_claim(kind), itertools.count(1)
        time.sleep(0.02)

        def wake(call: StoreCall, store: MemoryStore = store, wakes: bool = wakes) -> None:
            if call.paths[0] == JOB.heartbeat and next(looks) == 1 and wakes:  # noqa: B023
                advance(store, JOB, adopt_state(store, JOB), Phase.ABORTED)

        with claimants_at_work(store):
            report = run_commit(WrappedStore(store, after=wake), THIRD, AT_ONCE)
        assert report.table_version == 6
        assert (read_state(store, JOB) is None) is not wakes
        assert next(looks) > 2


def test_a_job_that_is_recorded_in_the_meantime_is_left_alone(kind):
    store = with_claim(kind)
    commit = do_at("advance", lambda: run_commit(store, JOB, OVERWRITE), end="aborted")
    assert run_commit(WrappedStore(store, before=commit), THIRD, AT_ONCE).table_version == 7
    assert kinds_of(store)[2:] == ["claim", "commit", "done", "claim", "commit"]
    assert data_of_log(store) == data_in(store)
    assert "day=1/new" in data_in(store)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_OBJECTS, indirect=True)
def test_a_crash_while_another_job_is_aborted_is_finished_by_the_same_command(kind):
    for store in each_crash(lambda: with_claim(kind), lambda one: run_commit(one, THIRD, AT_ONCE)):
        run_commit(store, THIRD, AT_ONCE)
        assert kinds_of(store)[2:] == ["claim", "abort", "claim", "commit"]
        assert in_flight(store) == []
        assert data_of_log(store) == data_in(store) == DATA


# A recorded job


def test_a_recorded_job_is_not_ended_but_named_with_the_commands(kind):
    store = recorded(kind)
    with pytest.raises(
        CommitConflictError, match=r"job job_1 \(version 3\) is at work in day=1"
    ) as caught:
        run_commit(store, THIRD, AT_ONCE)
    command = "memory://test/table --job-id job_1"
    assert f"finish it with: ray-committer commit {command}" in caught.value.advice
    assert f"give it up with: ray-committer abort {command} --undo" in caught.value.advice
    assert "or let this job do so with --finish-others" in caught.value.advice
    assert state_of(store).phase is Phase.RECORDED


@pytest.mark.parametrize("phase", ["sealed", "committed"])
@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_with_finish_others_a_recorded_job_is_finished_at_once(kind, phase: str, seconds: float):
    store = recorded(kind, phase)
    report = run_commit(store, THIRD, FINISHES.changed(conflict_wait_seconds=seconds))
    assert kinds_of(store)[2:] == ["claim", "commit", "claim", "commit"]
    assert data_of_log(store) == data_in(store)
    assert {"day=3/sum", "day=1/c"} <= data_in(store).keys()
    if phase == "sealed":
        assert "job job_1 was finished before this job" in " ".join(report.notices)


def test_with_finish_others_an_overwrite_that_has_stopped_is_finished_before_an_append(kind):
    store = begun(kind, NEW, ConflictMode.OVERWRITE)
    write(store, {"day=1/c": b"c"}, THIRD)
    stopped_at(store, "sealed", JOB, OVERWRITE)
    with pytest.raises(CommitConflictError, match="the commit has begun but not ended"):
        run_commit(store, THIRD, AT_ONCE)
    assert run_commit(store, THIRD, FINISHES).table_version == 7
    assert kinds_of(store)[2:] == ["claim", "commit", "done", "claim", "commit"]
    assert data_of_log(store) == data_in(store) == {"day=1/new": 1, "day=2/old": 3, "day=1/c": 1}


def test_with_finish_others_it_is_finished_before_another_job_is_set_up(kind):
    store = begun(kind, NEW, ConflictMode.OVERWRITE)
    stopped_at(store, "sealed", JOB, OVERWRITE)
    with pytest.raises(CommitConflictError, match="run the application again"):
        setup_job(store, THIRD, unfinished=None, end=ending(store))
    warnings: list[str] = []
    setup_job(
        store,
        THIRD,
        unfinished=None,
        finish_others=True,
        end=ending(store),
        on_warning=warnings.append,
    )
    assert "job job_1 was finished before this job" in warnings[0]
    assert kinds_of(store)[2:] == ["claim", "commit", "done"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_DIRECTORIES, indirect=True)
def test_a_crash_while_another_job_is_finished_is_finished_by_the_same_command(kind):
    for store in each_crash(lambda: recorded(kind), lambda one: run_commit(one, THIRD, FINISHES)):
        run_commit(store, THIRD, FINISHES)
        assert kinds_of(store)[2:] == ["claim", "commit", "claim", "commit"]
        assert in_flight(store) == []
        assert data_of_log(store) == data_in(store)
        assert {"day=3/sum", "day=1/c"} <= data_in(store).keys()


# A job that is gone


@pytest.mark.parametrize("is_again", [False, True])
def test_the_claim_of_a_job_whose_directory_is_gone_is_for_a_person(kind, is_again: bool):
    store = with_claim(kind)
    store.delete_directory(JOB.directory)
    if is_again:
        write(store, {"day=1/new": b"n"}, JOB)
    with pytest.raises(CommitConflictError, match="is at work in day=1") as caught:
        run_commit(store, THIRD, FINISHES)
    command = "ray-committer table resolve memory://test/table job_1"
    assert f"that job is gone: give it up with: {command};" in caught.value.advice
    assert in_flight(store) == ["job_1"]
    if is_again:
        assert state_of(store).phase is Phase.OPEN
    assert store.get_status(TABLE.definition) is not None
