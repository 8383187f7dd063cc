"""An application dies anywhere in its commit and runs again: each row is there once, or nothing is new.

The second run has another job id. What it does about the first is the option `unfinished`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

import pytest

from ray_committer.errors import CommitConflictError, CommitRecordExistsError
from ray_committer.options import CommitOptions, Unfinished
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.state import UNFINISHED, Phase
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    MemoryStore,
    StoreCall,
    WrappedStore,
    run_commit,
    visible_files,
)
from ray_committer.testing.harness import (
    all_files,
    commit_attempt,
    ending,
    put_file,
    run_undo,
    set_up_attempt,
    write_attempt,
)
from tests.doubles import phase_of
from tests.stages.support import each_crash

FIRST, SECOND, THIRD = (new_job_attempt("/table", f"run_{number}", 0) for number in (1, 2, 3))
OLD = {"p=1/old": b"old", "p=2/same": b"old of the same name"}
APPEND, OVERWRITE = ConflictMode.APPEND, ConflictMode.OVERWRITE
STORES: dict[str, Callable[[], MemoryStore]] = {
    "directories": MemoryStore,
    "flat": lambda: MemoryStore(real_directories=False, listing_is_cheap=False),
}
stores = pytest.mark.parametrize("new_store", STORES.values(), ids=STORES)

pytestmark = [pytest.mark.alternate, pytest.mark.slow]


def rows(job: JobAttempt, mode: ConflictMode) -> dict[str, bytes]:
    """The files of a run; of an overwrite one has the name of an old file."""
    same = {"p=2/same": job.job_id.encode()} if mode is OVERWRITE else {}
    return {f"p=1/{job.job_id}-a": b"a", f"p=2/{job.job_id}-b": b"bb", **same}


def options(mode: ConflictMode, unfinished: Unfinished | None = None) -> CommitOptions:
    return CommitOptions(mode=mode, unfinished=unfinished, conflict_wait_seconds=0.0)


def write(
    store: StoreOperations, job: JobAttempt, mode: ConflictMode, unfinished: Unfinished | None = None
) -> None:
    """Set a job up and run its tasks."""
    replaces = (job.destination,) if mode is OVERWRITE else ()
    stamp = setup_job(store, job, replaces=replaces, unfinished=unfinished, end=ending(store))
    for task, (name, data) in enumerate(rows(job, mode).items()):
        attempt = set_up_attempt(store, job, task, 0)
        write_attempt(store, job, attempt, {name: data})
        commit_attempt(store, job, task, attempt, stamp=stamp)


def run(
    store: StoreOperations, job: JobAttempt, mode: ConflictMode, unfinished: Unfinished | None = None
) -> CommitResult:
    """Run an application."""
    write(store, job, mode, unfinished)
    return run_commit(store, job, options(mode, unfinished))


def with_old(new_store: Callable[[], MemoryStore]) -> MemoryStore:
    store = new_store()
    for name, data in OLD.items():
        put_file(store, f"/table/{name}", data)
    return store


def died(store: MemoryStore, mode: ConflictMode) -> Iterator[MemoryStore]:
    """What a first run leaves whose commit dies between any two of its requests."""
    write(store, FIRST, mode)
    yield from each_crash(store.copy, lambda one: run_commit(one, FIRST, options(mode)))


def seen(store: StoreOperations) -> dict[str, bytes]:
    return visible_files(store, "/table")


def is_committed(phase: Phase | None) -> bool:
    """Whether the first run, if it is as far as this, has ended, or only needs a clean-up."""
    return phase in (None, Phase.COMMITTED)


def check_ended(store: StoreOperations, visible: Mapping[str, bytes]) -> None:
    """Only that is visible, and of the first run at most what a clean-up removes is left."""
    assert seen(store) == visible
    if phase_of(store, FIRST) in (Phase.OPEN, Phase.DECLARED, Phase.COMMITTED):
        return
    assert all_files(store, FIRST.job_directory) == {}


@stores
@pytest.mark.parametrize("first", [APPEND, OVERWRITE])
def test_an_overwrite_that_is_run_again_heals_by_itself(
    new_store: Callable[[], MemoryStore], first: ConflictMode
):
    phases = set()
    for store in died(with_old(new_store), first):
        phases.add(phase_of(store, FIRST))
        run(store, SECOND, OVERWRITE)
        check_ended(store, rows(SECOND, OVERWRITE))
    assert phases >= {Phase.RECORDED, Phase.COMMITTED} | (
        {Phase.SEALED} if first is OVERWRITE else set()
    )


@stores
def test_a_job_that_dies_while_the_tasks_of_an_overwrite_run_is_superseded_by_its_commit(
    new_store: Callable[[], MemoryStore],
):
    prepared = with_old(new_store)
    write(prepared, SECOND, OVERWRITE)
    for store in died(prepared, APPEND):
        is_stopped = phase_of(store, FIRST) in UNFINISHED
        notices = run_commit(store, SECOND, options(OVERWRITE)).notices
        assert any("job run_1 was given up before this job" in one for one in notices) is is_stopped
        check_ended(store, rows(SECOND, OVERWRITE))


@stores
def test_readers_see_the_data_from_before_both_runs_until_the_second_is_committed(
    new_store: Callable[[], MemoryStore],
):
    for store in died(with_old(new_store), OVERWRITE):
        phase = phase_of(store, FIRST)
        write(store, SECOND, OVERWRITE)
        is_kept = phase not in (Phase.SEALED, Phase.COMMITTED, None)
        assert seen(store) == (OLD if is_kept else rows(FIRST, OVERWRITE))


@stores
@pytest.mark.parametrize("unfinished", [None, "refuse"])
@pytest.mark.parametrize("is_set_up", [False, True])
def test_an_append_that_is_run_again_is_refused_until_the_first_is_ended(
    new_store: Callable[[], MemoryStore], unfinished: Unfinished | None, is_set_up: bool
):
    prepared = with_old(new_store)
    if is_set_up:
        write(prepared, SECOND, APPEND)
    for number, store in enumerate(died(prepared, APPEND)):
        phase, before = phase_of(store, FIRST), seen(store)
        again = run_commit if is_set_up else run
        if phase not in UNFINISHED:
            again(store, SECOND, options(APPEND, unfinished) if is_set_up else APPEND)
            kept = rows(FIRST, APPEND) if is_committed(phase) else {}
            check_ended(store, {**OLD, **kept, **rows(SECOND, APPEND)})
            continue
        with pytest.raises(CommitConflictError, match="its rows would be there twice") as caught:
            again(store, SECOND, options(APPEND, unfinished) if is_set_up else APPEND)
        assert "run_1" in str(caught.value)
        assert (seen(store), phase_of(store, FIRST)) == (before, phase)
        end, kept = (run_undo, {}) if number % 2 else (run_commit, rows(FIRST, APPEND))
        end(store, FIRST)
        again(store, SECOND, options(APPEND, unfinished) if is_set_up else APPEND)
        check_ended(store, {**OLD, **kept, **rows(SECOND, APPEND)})


@stores
@pytest.mark.parametrize("is_set_up", [False, True])
@pytest.mark.parametrize("unfinished", ["supersede", "finish"])
def test_an_append_that_is_run_again_supersedes_the_first_or_finishes_it_if_it_is_told_to(
    new_store: Callable[[], MemoryStore], unfinished: Unfinished, is_set_up: bool
):
    prepared = with_old(new_store)
    if is_set_up:
        write(prepared, SECOND, APPEND)
    for store in died(prepared, APPEND):
        phase = phase_of(store, FIRST)
        if is_set_up:
            run_commit(store, SECOND, options(APPEND, unfinished))
        else:
            run(store, SECOND, APPEND, unfinished)
        is_kept = is_committed(phase) or (phase in UNFINISHED and unfinished == "finish")
        kept = rows(FIRST, APPEND) if is_kept else {}
        check_ended(store, {**OLD, **kept, **rows(SECOND, APPEND)})


@stores
def test_what_dies_while_it_ends_another_is_ended_itself_by_the_next_run(
    new_store: Callable[[], MemoryStore],
):
    (store, *_) = [
        one
        for one in died(with_old(new_store), OVERWRITE)
        if phase_of(one, FIRST) is Phase.RECORDED and seen(one) != OLD
    ]
    phases = set()
    for dead in each_crash(store.copy, lambda one: run(one, SECOND, OVERWRITE)):
        phases.add(phase_of(dead, FIRST))
        with suppress(CommitRecordExistsError):
            run(dead, THIRD, OVERWRITE)
        assert seen(dead) == rows(THIRD, OVERWRITE)
    assert phases >= {Phase.RECORDED, Phase.UNDOING}


@stores
@pytest.mark.parametrize("at", range(0, 60, 7))
def test_two_runs_that_end_the_same_job_at_once_do_it_once(
    new_store: Callable[[], MemoryStore], at: int
):
    """The third run is run whole between two requests of the second."""
    dead = [one for one in died(with_old(new_store), APPEND) if phase_of(one, FIRST) in UNFINISHED]
    for store in dead[:: len(dead) // 3]:
        done = []

        def overtake(call: StoreCall, store=store, done=done) -> None:
            if call.number == at and not done:
                done.append(None)
                run(store, THIRD, OVERWRITE)

        run(WrappedStore(store, before=overtake), SECOND, OVERWRITE)
        assert seen(store) in (rows(SECOND, OVERWRITE), rows(THIRD, OVERWRITE))
        assert phase_of(store, FIRST) is None
