"""The executor of chaos: work runs as often as it says, each result arrives once, and seeds repeat."""

from __future__ import annotations

from collections import Counter

import pytest

from ray_committer import CommitOptions, ConflictMode, Outcome
from ray_committer.errors import CommitStateUnknownError, MissingManifestsError, PreflightError
from ray_committer.executors.inline import InlineExecutor
from ray_committer.limits.permits import Permits
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    Chaos,
    ChaosExecutor,
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    chaos_executor,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.work.worker import Worker

RUNS = {
    Chaos.NOTHING: 1,
    Chaos.TWICE_IN_A_ROW: 2,
    Chaos.TWICE_AT_ONCE: 2,
    Chaos.RESULT_LOST: 2,
}
TASKS = {0: {"p=1/a": b"a", "p=2/b": b"bb"}, 1: {"p=1/c": b"ccc"}, 2: {}, 3: {"d": b"dddd"}}
FILES = {name: data for files in TASKS.values() for name, data in files.items()}


class Resources:
    def __init__(self, store: StoreOperations, permits: Permits) -> None:
        self.store = store
        self.permits = permits
        self.is_cancelled = False

    def close(self) -> None:
        """Nothing is open."""

    def cancel(self) -> None:
        self.is_cancelled = True


def append(resources: Resources, item: int) -> int:
    """Work: three calls of the store, of which the second changes it."""
    resources.store.get_status("/")
    resources.store.write(f"/{item}", b"x")
    resources.store.get_status("/")
    return item


def fail(resources: Resources, item: int) -> int:
    resources.store.get_status("/")
    if item == 1:
        raise PreflightError("no")
    return item


def executor_of(kind: Chaos | None, seed: int = 1) -> tuple[ChaosExecutor, list[StoreCall]]:
    calls: list[StoreCall] = []
    store = WrappedStore(MemoryStore(), before=calls.append)
    kinds = tuple(Chaos) if kind is None else (kind,)
    return ChaosExecutor(store, Resources, seed=seed, kinds=kinds), calls


@pytest.mark.parametrize("kind", RUNS)
def test_work_runs_as_often_as_it_says_and_its_result_arrives_once(kind: Chaos):
    executor, calls = executor_of(kind)
    assert sorted(executor.run(append, range(10))) == list(range(10))
    writes = Counter(call.paths[0] for call in calls if call.operation == "write")
    assert set(writes.values()) == {RUNS[kind]}


def test_results_come_out_of_order_and_items_are_taken_as_they_are_needed():
    executor, _ = executor_of(Chaos.NOTHING)
    taken: list[int] = []
    results = executor.run(append, (taken.append(item) or item for item in range(30)))
    first = next(results)
    assert taken == [0, 1, 2]
    assert [first, *results] != list(range(30))


def test_a_lost_worker_dies_in_the_middle_and_another_does_its_work():
    cut: set[int] = set()
    for seed in range(40):
        executor, calls = executor_of(Chaos.WORKER_LOST, seed)
        assert list(executor.run(append, [7])) == [7]
        cut.add(len(calls) - 3)
    assert cut == {0, 1, 2, 3}  # calls of the dead worker that reached the store


def test_only_so_many_workers_are_lost():
    executor, _ = executor_of(Chaos.WORKER_LOST)
    assert sorted(executor.run(append, range(10))) == list(range(10))
    counted = Counter(one.chaos for one in executor.happened)
    assert counted == {Chaos.WORKER_LOST: 3, Chaos.RESULT_LOST: 7}


def test_two_runs_at_once_mix_their_calls_as_the_seed_says():
    orders = set()
    for seed in range(20):
        runs = []
        for _ in range(2):
            executor, calls = executor_of(Chaos.TWICE_AT_ONCE, seed)
            assert list(executor.run(append, [1])) == [1]
            runs.append(tuple(call.operation for call in calls))
        assert runs[0] == runs[1]
        orders.add(runs[0])
    assert len(orders) > 3


def test_an_error_arrives_after_the_items_in_progress_have_ended():
    executor, calls = executor_of(None)
    with pytest.raises(PreflightError):
        list(executor.run(fail, range(3)))
    assert len(calls) >= 3


def test_every_worker_is_checked_before_it_works():
    executor, _ = executor_of(Chaos.RESULT_LOST)
    seen: list[str] = []

    def note(resources: Resources, item: str) -> None:
        seen.append(item)

    executor.admit_workers(note, "check")
    before = len(seen)
    list(executor.run(append, range(20)))
    assert len(seen) > before


def test_a_cancel_reaches_workers_that_are_opened_later():
    executor, _ = executor_of(None)
    executor.cancel()
    cancelled = executor.run(lambda resources, item: resources.is_cancelled, range(10))
    assert set(cancelled) == {True}


def test_a_death_of_the_process_is_not_survived():
    def die(call: StoreCall) -> None:
        raise SimulatedCrash(call)

    for kind in Chaos:
        executor = ChaosExecutor(
            WrappedStore(MemoryStore(), before=die), Resources, seed=1, kinds=[kind]
        )
        with pytest.raises(SimulatedCrash):
            list(executor.run(append, [1]))


@pytest.mark.slow
@pytest.mark.parametrize("mode", [ConflictMode.APPEND, ConflictMode.OVERWRITE])
@pytest.mark.parametrize("kind", [*Chaos, None])
@pytest.mark.parametrize("small_shards", [1], indirect=True)
@pytest.mark.usefixtures("small_shards")
def test_chaos_alone_never_fails_a_commit(mode: ConflictMode, kind: Chaos | None):
    prepared, job = MemoryStore(), new_job_attempt("/table", "job_1", 0)
    write_job(prepared, job, TASKS, mode=mode)
    for seed in range(25):
        store = prepared.copy()
        executor = chaos_executor(store, job, seed, kinds=tuple(Chaos) if kind is None else (kind,))
        report = run_commit(store, job, CommitOptions(mode=mode), executor=executor)
        assert report.outcome is Outcome.COMMITTED
        assert report.moved + sum(report.proved.values()) == len(FILES)
        assert visible_files(store, job.destination) == FILES
        assert store.get_status(job.temporary) is None


class ForgetfulExecutor(InlineExecutor):
    """Breaks the contract: one item is neither worked on nor reported."""

    def __init__(self, store: StoreOperations, job: JobAttempt, forgotten: int) -> None:
        super().__init__(lambda permits: Worker(store, job, permits, in_driver=True))
        self.items_left = forgotten

    def run(self, work, items):
        for item in items:
            self.items_left -= 1
            if self.items_left != 0:
                yield from super().run(work, [item])


@pytest.mark.parametrize("small_shards", [1], indirect=True)
@pytest.mark.usefixtures("small_shards")
def test_a_commit_whose_executor_forgets_an_item_does_not_say_that_it_is_done():
    prepared, job = MemoryStore(), new_job_attempt("/table", "job_1", 0)
    write_job(prepared, job, TASKS)
    options, stopped = CommitOptions(validate=False), 0
    for forgotten in range(1, 12):
        store = prepared.copy()
        try:
            run_commit(store, job, options, executor=ForgetfulExecutor(store, job, forgotten))
        except (CommitStateUnknownError, MissingManifestsError):
            stopped += 1
            run_commit(store, job, options)
        assert visible_files(store, job.destination) == FILES
        assert store.get_status(job.temporary) is None
    assert stopped >= len(FILES)
