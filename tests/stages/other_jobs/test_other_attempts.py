"""Of the attempts of one job at most one is ever committed, whoever is quicker."""

from __future__ import annotations

from contextlib import suppress

import pytest

from ray_committer.errors import CommitRecordExistsError, RayCommitterError
from ray_committer.job_files.job_state import Seen, advance, begin_state, read_state
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.state import UNSTAMPED, Phase, new_state
from ray_committer.stages.other_jobs.other_attempts import (
    abort_older_attempts,
    abort_other_attempts,
    refuse_other_attempts,
)
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    MemoryStore,
    WrappedStore,
    run_abort,
    run_commit,
    visible_files,
    write_job,
)
from tests.stages.support import (
    KINDS,
    OTHER_JOB,
    at_call,
    bring_to,
    do_at,
    each_crash,
    each_of,
    phase_of,
    requests,
    seen_in,
    with_job,
)

FIRST, SECOND, THIRD = (new_job_attempt("/table", "job_1", number) for number in range(3))
HINDERS_NEWER = {Phase.RECORDED, Phase.SEALED, Phase.COMMITTED, Phase.UNDOING}
QUICK = CommitOptions(conflict_wait_seconds=0.02)


store = each_of("directories", "flat")


def in_phase(store: StoreOperations, job: JobAttempt, phase: Phase) -> Seen:
    store.mkdirs(job.directory)
    begin_state(store, job, new_state())
    return bring_to(store, phase, job=job)


def test_a_job_with_one_attempt_costs_one_listing(store: MemoryStore):
    refuse_other_attempts(store, FIRST)
    in_phase(store, FIRST, Phase.OPEN)
    in_phase(store, OTHER_JOB, Phase.RECORDED)
    assert requests(store, lambda one: abort_older_attempts(one, FIRST)) == {"list_status": 1}
    assert phase_of(store, FIRST) is Phase.OPEN


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("look", [refuse_other_attempts, abort_older_attempts])
def test_an_older_attempt_that_has_begun_to_be_committed_refuses_a_newer(
    store: MemoryStore, phase: Phase, look
):
    in_phase(store, FIRST, phase)
    in_phase(store, SECOND, Phase.OPEN)
    if phase in HINDERS_NEWER:
        with pytest.raises(
            CommitRecordExistsError, match=r"attempt 0 of job job_1 has begun.*--attempt 0"
        ):
            look(store, SECOND)
        assert phase_of(store, FIRST) is phase
    else:
        look(store, SECOND)
    assert phase_of(store, SECOND) is Phase.OPEN


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("look", [refuse_other_attempts, abort_older_attempts])
def test_an_older_attempt_gives_way_to_any_newer_that_is_not_aborted(
    store: MemoryStore, phase: Phase, look
):
    in_phase(store, FIRST, Phase.OPEN)
    in_phase(store, SECOND, phase)
    if phase is Phase.ABORTED:
        look(store, FIRST)
    else:
        with pytest.raises(CommitRecordExistsError, match="--attempt 1"):
            look(store, FIRST)
    assert (phase_of(store, FIRST), phase_of(store, SECOND)) == (Phase.OPEN, phase)


def test_a_newer_attempt_of_hadoops_own_committer_has_no_state_and_counts(store: MemoryStore):
    in_phase(store, FIRST, Phase.OPEN)
    store.mkdirs(SECOND.manifests)
    with pytest.raises(CommitRecordExistsError, match="newer"):
        refuse_other_attempts(store, FIRST)


@pytest.mark.parametrize("phase", [Phase.OPEN, Phase.DECLARED, Phase.ABORTED])
def test_older_attempts_are_aborted_and_newer_ones_are_not(store: MemoryStore, phase: Phase):
    in_phase(store, FIRST, phase)
    in_phase(store, SECOND, Phase.OPEN)
    in_phase(store, THIRD, Phase.ABORTED)
    for _ in range(2):
        abort_older_attempts(store, SECOND)
        phases = [phase_of(store, job) for job in (FIRST, SECOND, THIRD)]
        assert phases == [Phase.ABORTED, Phase.OPEN, Phase.ABORTED]


def test_an_older_attempt_without_a_state_is_given_one_to_be_aborted(store: MemoryStore):
    store.mkdirs(FIRST.manifests)
    in_phase(store, SECOND, Phase.OPEN)
    abort_older_attempts(store, SECOND)
    seen = seen_in(store, FIRST)
    assert (seen.phase, seen.state.stamp) == (Phase.ABORTED, UNSTAMPED)


def test_an_older_attempt_that_is_recorded_just_then_stands(store: MemoryStore):
    in_phase(store, SECOND, Phase.OPEN)
    seen = in_phase(store, FIRST, Phase.DECLARED)
    hook = do_at("advance", lambda: advance(store, FIRST, seen, Phase.RECORDED))
    with pytest.raises(CommitRecordExistsError, match="has begun"):
        abort_older_attempts(WrappedStore(store, before=hook), SECOND)
    assert phase_of(store, FIRST) is Phase.RECORDED


@pytest.mark.parametrize("way", [Phase.DECLARED, Phase.ABORTED])
def test_an_older_attempt_that_changes_just_then_is_aborted_all_the_same(store: MemoryStore, way: Phase):
    in_phase(store, SECOND, Phase.OPEN)
    seen = in_phase(store, FIRST, Phase.OPEN)
    hook = do_at("advance", lambda: advance(store, FIRST, seen, way))
    abort_older_attempts(WrappedStore(store, before=hook), SECOND)
    assert phase_of(store, FIRST) is Phase.ABORTED


def test_an_older_attempt_that_vanishes_just_then_is_not_brought_back(store: MemoryStore):
    in_phase(store, SECOND, Phase.OPEN)
    in_phase(store, FIRST, Phase.OPEN)
    hook = do_at("advance", lambda: store.delete_directory(FIRST.directory))
    abort_older_attempts(WrappedStore(store, before=hook), SECOND)
    assert store.list_files(FIRST.directory) == []


# Whole commits


def two_attempts(kind: str) -> MemoryStore:
    store = with_job({0: {"first": b"1"}, 1: {"p=1/first": b"1"}}, store=KINDS[kind](), job=FIRST)
    write_job(store, SECOND, {0: {"second": b"2"}, 1: {"p=1/second": b"2"}})
    return store


ATTEMPTS = ({"first": b"1", "p=1/first": b"1"}, {"second": b"2", "p=1/second": b"2"})


def commit(store: StoreOperations, job: JobAttempt) -> None:
    with suppress(RayCommitterError):
        run_commit(store, job, QUICK)


def test_the_newer_of_two_is_committed_and_the_older_is_not(store: MemoryStore):
    both = two_attempts("directories" if store.real_directories else "flat")
    with pytest.raises(CommitRecordExistsError, match="newer"):
        run_commit(both, FIRST, QUICK)
    assert visible_files(both, "/table") == {}
    run_commit(both, SECOND, QUICK)
    assert visible_files(both, "/table") == ATTEMPTS[1]
    commit(both, FIRST)
    assert visible_files(both, "/table") == ATTEMPTS[1]


@pytest.mark.parametrize("kind", ["directories", "flat"])
@pytest.mark.parametrize(("one", "other"), [(FIRST, SECOND), (SECOND, FIRST)])
def test_of_two_attempts_that_are_committed_at_once_one_is_visible_whole(
    kind: str, one: JobAttempt, other: JobAttempt
):
    total = requests(two_attempts(kind), lambda store: commit(store, one)).total()
    for number in range(1, total + 1):
        store = two_attempts(kind)
        commit(
            WrappedStore(store, before=at_call(number, lambda store=store: commit(store, other))), one
        )
        commit(store, SECOND)
        assert visible_files(store, "/table") == ATTEMPTS[1]


@pytest.mark.parametrize("kind", ["directories", "flat"])
def test_an_attempt_that_is_set_up_while_an_older_is_committed_is_never_committed_beside_it(kind: str):
    def first_alone() -> MemoryStore:
        return with_job({0: {"first": b"1"}, 1: {"p=1/first": b"1"}}, store=KINDS[kind](), job=FIRST)

    def write_second(store: MemoryStore) -> None:
        with suppress(RayCommitterError):
            write_job(store, SECOND, {0: {"second": b"2"}, 1: {"p=1/second": b"2"}})

    total = requests(first_alone(), lambda store: commit(store, FIRST)).total()
    for number in range(1, total + 1):
        store, begun = first_alone(), list[bool]()

        def begin(store: MemoryStore = store, begun: list[bool] = begun) -> None:
            begun.append(read_state(store, FIRST) is not None)  # else nothing tells of it any more
            write_second(store)

        commit(WrappedStore(store, before=at_call(number, begin)), FIRST)
        commit(store, SECOND)
        if begun == [True]:
            assert visible_files(store, "/table") in ATTEMPTS


@pytest.mark.parametrize("kind", ["directories", "flat"])
def test_after_a_crash_of_the_newers_commit_it_is_finished_and_the_older_is_not(kind: str):
    for left in each_crash(lambda: two_attempts(kind), lambda store: run_commit(store, SECOND, QUICK)):
        commit(left, FIRST)
        commit(left, SECOND)
        assert visible_files(left, "/table") == ATTEMPTS[1]


@pytest.mark.parametrize("kind", ["directories", "flat"])
def test_a_committed_attempt_leaves_no_other_that_could_be_committed(kind: str):
    store = KINDS[kind]()
    in_phase(store, FIRST, Phase.OPEN)
    in_phase(store, SECOND, Phase.COMMITTED)
    in_phase(store, THIRD, Phase.OPEN)
    for _ in range(2):
        abort_other_attempts(store, SECOND)
        phases = [phase_of(store, job) for job in (FIRST, SECOND, THIRD)]
        assert phases == [Phase.ABORTED, Phase.COMMITTED, Phase.ABORTED]


@pytest.mark.parametrize("kind", ["directories", "flat"])
def test_once_the_newer_is_aborted_the_older_is_committed(kind: str):
    store = two_attempts(kind)
    run_abort(store, SECOND)
    run_commit(store, FIRST, QUICK)
    assert visible_files(store, "/table") == ATTEMPTS[0]
