"""The state of a job is changed once by whoever saw it, on every kind of store, and never by two."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ray_committer
from ray_committer.errors import ManifestError, StoreUnavailableError
from ray_committer.job_files.job_state import (
    Seen,
    StateChangedError,
    adopt_state,
    advance,
    begin_state,
    delete_state,
    read_state,
)
from ray_committer.limits.settle import ATTEMPTS
from ray_committer.protocol.paths import JobAttempt, join, new_job_attempt
from ray_committer.protocol.state import UNSTAMPED, Phase, new_state
from ray_committer.stages.take_away import sweep_all_gone
from ray_committer.stores.base import FileStatus, StoredState, StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.stores.state_names import LOOKS, read_state_name
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore
from ray_committer.testing.harness import put_file
from tests.stages.support import JOB, at, do_at, each_crash, each_of, requests, seen_in
from tests.stages.support import KINDS as KINDS_IN_MEMORY

pytestmark = pytest.mark.usefixtures("no_pauses")

FLAT_OR_NOT = ("directories", "flat")
KINDS: dict[str, Callable[[], Any]] = {
    **{kind: KINDS_IN_MEMORY[kind] for kind in (*FLAT_OR_NOT, "generations")},
    "local": lambda: LocalStore(StoreSpec("file")),
}
memory = each_of(*FLAT_OR_NOT)
THREADS, PROCESSES, ROUNDS = 6, 3, 40


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest) -> StoreOperations:
    return KINDS[request.param]()


@pytest.fixture
def job(tmp_path: Path) -> JobAttempt:
    return new_job_attempt(str(tmp_path / "table"), "job_1", 0)


def begun(store: StoreOperations, job: JobAttempt = JOB) -> Seen:
    store.mkdirs(job.directory)
    return begin_state(store, job, new_state())


def at_once(count: int, work: Callable[[], Any]) -> list[Any]:
    """What `work` returns, or raises, in so many threads that begin together."""
    barrier, found = threading.Barrier(count), list[Any]()

    def run() -> None:
        barrier.wait()
        try:
            found.append(work())
        except (OSError, StateChangedError) as e:
            found.append(e)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == count
    return found


def lost(operation: str, times: int = 1) -> Callable[[StoreCall], None]:
    """A hook: the first calls of an operation get no answer."""
    left = [times]

    def hook(call: StoreCall) -> None:
        if call.operation == operation and left[0]:
            left[0] -= 1
            raise StoreUnavailableError(call.paths[0], "lost")

    return hook


def change_of(store: StoreOperations) -> str:
    """The request that gives a job its first state."""
    return "move_directory" if store.has(StoreOperations.move_directory) else "advance"


def names_in(store: StoreOperations, directory: str) -> list[str]:
    return sorted(status.name for status in store.list_status(directory))


# One winner


def test_of_threads_that_change_one_seen_state_exactly_one_succeeds(store, job: JobAttempt):
    for number in range(ROUNDS):
        one = new_job_attempt(job.destination, f"job_{number}", 0)
        seen = begun(store, one)
        found = at_once(THREADS, lambda one=one, seen=seen: advance(store, one, seen, Phase.DECLARED))
        (winner,) = [each for each in found if isinstance(each, Seen)]
        losers = [each for each in found if isinstance(each, StateChangedError)]
        assert len(losers) == THREADS - 1
        assert [loser.now for loser in losers] == [winner] * len(losers)
        assert read_state(store, one) == winner


PROCESS = """
import pathlib, sys, time
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.state import Phase
from ray_committer.job_files.job_state import StateChangedError, advance, read_state
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore

destination, rounds, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
store = LocalStore(StoreSpec("file"))
jobs = [new_job_attempt(destination, f"job_{number}", 0) for number in range(rounds)]
states = [read_state(store, job) for job in jobs]
pathlib.Path(destination, f"ready_{name}").touch()
while not pathlib.Path(destination, "go").exists():
    time.sleep(0.001)
for number, (job, seen) in enumerate(zip(jobs, states)):
    try:
        advance(store, job, seen, Phase.DECLARED)
    except StateChangedError:
        continue
    print(number)
"""


def test_of_processes_that_change_one_seen_state_exactly_one_succeeds(job: JobAttempt):
    store, rounds = LocalStore(StoreSpec("file")), 200
    for number in range(rounds):
        begun(store, new_job_attempt(job.destination, f"job_{number}", 0))
    env = {**os.environ, "PYTHONPATH": str(Path(ray_committer.__file__).parents[1])}
    command = [sys.executable, "-c", PROCESS, job.destination, str(rounds)]
    processes = [
        subprocess.Popen([*command, str(number)], env=env, stdout=subprocess.PIPE, text=True)
        for number in range(PROCESSES)
    ]
    ready = [Path(job.destination, f"ready_{number}") for number in range(PROCESSES)]
    while not all(path.exists() for path in ready):
        assert all(process.poll() is None for process in processes)
    Path(job.destination, "go").touch()
    won = [int(line) for process in processes for line in process.communicate()[0].split()]
    assert Counter(won) == Counter(range(rounds))


def test_of_threads_that_give_a_job_its_first_state_exactly_one_succeeds(store, job: JobAttempt):
    for number in range(ROUNDS):
        one = new_job_attempt(job.destination, f"job_{number}", 0)
        found = at_once(THREADS, lambda one=one: begun(store, one))
        (winner,) = [each for each in found if isinstance(each, Seen)]
        assert sum(isinstance(each, FileExistsError) for each in found) == THREADS - 1
        assert read_state(store, one) == winner
        assert names_in(store, one.directory) == ["state"]


def test_all_threads_that_need_the_state_of_a_job_without_one_get_the_same(store, job: JobAttempt):
    store.mkdirs(job.manifests)
    found = at_once(THREADS, lambda: adopt_state(store, job))
    assert found == [found[0]] * THREADS
    assert (found[0].phase, found[0].state.stamp) == (Phase.OPEN, UNSTAMPED)


def test_a_job_that_has_a_state_is_given_no_other(store, job: JobAttempt):
    seen = begun(store, job)
    with pytest.raises(FileExistsError):
        begun(store, job)
    assert adopt_state(store, job) == read_state(store, job) == seen


def test_a_change_that_the_protocol_does_not_know_makes_no_request(memory: MemoryStore):
    seen = begun(memory)
    calls: list[StoreCall] = []
    with pytest.raises(ValueError, match="cannot become recorded"):
        advance(WrappedStore(memory, before=calls.append), JOB, seen, Phase.RECORDED)
    assert calls == []


def test_a_change_and_a_look_cost_one_request_each(memory: MemoryStore):
    seen = begun(memory)
    assert requests(memory, lambda one: read_state(one, JOB)) == Counter(read_state=1)
    assert requests(memory, lambda one: advance(one, JOB, seen, Phase.DECLARED)) == Counter(advance=1)


# Answers that are lost


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("times", [1, ATTEMPTS - 1])
def test_a_change_whose_answer_is_lost_is_settled_by_looking(memory: MemoryStore, when: str, times: int):
    seen = begun(memory)
    faulty = WrappedStore(memory, **{when: lost("advance", times)})
    changed = advance(faulty, JOB, seen, Phase.DECLARED)
    assert changed == read_state(memory, JOB)
    assert changed.phase is Phase.DECLARED
    assert advance(memory, JOB, changed, Phase.ABORTED).phase is Phase.ABORTED


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_first_state_whose_answer_is_lost_is_settled_by_looking(memory: MemoryStore, when: str):
    faulty = WrappedStore(memory, **{when: lost(change_of(memory))})
    seen = begun(faulty)
    assert seen == read_state(memory, JOB)
    assert names_in(memory, JOB.directory) == ["state"]


@pytest.mark.parametrize("error", [FileNotFoundError, FileExistsError, TimeoutError, PermissionError])
def test_a_change_that_was_made_stands_whatever_the_answer_says(memory: MemoryStore, error):
    seen = begun(memory)
    changed = advance(WrappedStore(memory, after=at("advance", error())), JOB, seen, Phase.DECLARED)
    assert changed == read_state(memory, JOB)


@pytest.mark.parametrize("error", [TimeoutError, PermissionError, StoreUnavailableError("/p", "lost")])
def test_a_change_that_was_not_made_is_a_failure_of_the_store_and_nobodys_victory(
    memory: MemoryStore, error
):
    seen = begun(memory)
    kind = error if isinstance(error, type) else type(error)
    with pytest.raises(kind):
        advance(WrappedStore(memory, before=at("advance", error)), JOB, seen, Phase.DECLARED)
    assert read_state(memory, JOB) == seen


@pytest.mark.parametrize("error", [StoreUnavailableError("/p", "lost"), TimeoutError()])
def test_whoever_was_overtaken_before_looking_back_says_what_the_job_is_now(memory: MemoryStore, error):
    seen = begun(memory)

    def overtake(call: StoreCall) -> None:
        if call.operation == "advance":
            now = read_state(memory, JOB)
            if now is not None and now.phase is Phase.DECLARED:
                advance(memory, JOB, now, Phase.ABORTED)
            raise error

    with pytest.raises(StateChangedError) as caught:
        advance(WrappedStore(memory, after=overtake), JOB, seen, Phase.DECLARED)
    assert caught.value.now == read_state(memory, JOB)
    assert caught.value.now is not None
    assert caught.value.now.phase is Phase.ABORTED


# A process that slept


@pytest.mark.parametrize("phase", [Phase.DECLARED, Phase.ABORTED])
def test_who_slept_until_the_job_was_removed_brings_nothing_of_it_back(
    store, job: JobAttempt, phase: Phase
):
    seen = begun(store, job)
    store.delete_directory(job.job_directory)
    with pytest.raises(StateChangedError) as caught:
        advance(store, job, seen, phase)
    assert caught.value.now is None
    assert store.list_files(job.temporary) == []
    assert read_state(store, job) is None


def test_who_slept_until_the_id_was_set_up_again_does_not_change_the_new_job(store, job: JobAttempt):
    old = begun(store, job)
    store.delete_directory(job.job_directory)
    new = begun(store, job)
    with pytest.raises(StateChangedError) as caught:
        advance(store, job, old, Phase.DECLARED)
    assert caught.value.now is None  # another job is none that it could go on with
    assert read_state(store, job) == new


def test_a_state_that_was_left_and_entered_again_is_another(store, job: JobAttempt):
    seen = begun(store, job)
    again = advance(store, job, advance(store, job, seen, Phase.DECLARED), Phase.OPEN)
    with pytest.raises(StateChangedError):
        advance(store, job, seen, Phase.DECLARED)
    assert read_state(store, job) == again


def test_who_begins_while_another_has_begun_leaves_nothing_behind(memory: MemoryStore):
    quicker: list[Seen] = []
    hook = do_at(change_of(memory), lambda: quicker.append(begun(memory)))
    with pytest.raises(FileExistsError):
        begun(WrappedStore(memory, before=hook))
    assert [read_state(memory, JOB)] == quicker
    assert names_in(memory, JOB.directory) == ["state"]


@pytest.mark.parametrize("kind", ["directories", "local"])
def test_a_job_that_is_gone_is_given_no_state_and_not_made_anew(kind: str, job: JobAttempt):
    store = KINDS[kind]()
    store.mkdirs(job.manifests)
    store.delete_directory(job.job_directory)
    with pytest.raises(FileNotFoundError):
        begin_state(store, job, new_state())
    assert adopt_state(store, job) is None
    assert store.list_status(job.temporary) == []


def test_a_state_that_somebody_gives_an_unstamped_job_meanwhile_is_taken(memory: MemoryStore):
    memory.mkdirs(JOB.manifests)
    hook = do_at(change_of(memory), lambda: adopt_state(memory, JOB))
    assert adopt_state(WrappedStore(memory, before=hook), JOB) == read_state(memory, JOB)


@pytest.mark.parametrize("operation", ["write", "move_directory"])
def test_a_state_that_begins_while_somebody_sweeps_is_begun_again(operation: str):
    store = MemoryStore()
    sweep = do_at(operation, lambda: sweep_all_gone(store, JOB))
    assert begun(WrappedStore(store, before=sweep)) == read_state(store, JOB)
    assert names_in(store, JOB.temporary) == ["job_1"]


@pytest.mark.parametrize("kind", FLAT_OR_NOT)
def test_after_a_crash_of_set_up_anywhere_there_is_a_whole_state_or_none(kind: str):
    for left in each_crash(KINDS[kind], begun):
        seen = read_state(left, JOB)
        if seen is None:
            assert read_state(left, JOB) is None
            seen = begun(left)
        assert advance(left, JOB, seen, Phase.DECLARED) == read_state(left, JOB)


@pytest.mark.parametrize("kind", FLAT_OR_NOT)
def test_after_a_crash_of_a_change_it_is_made_or_not(kind: str):
    base = KINDS[kind]()
    seen = begun(base)
    for left in each_crash(base.copy, lambda one: advance(one, JOB, seen, Phase.DECLARED)):
        now = seen_in(left, JOB)
        assert now == seen or now.phase is Phase.DECLARED


# What is read


def test_where_nothing_is_there_is_no_state(store, job: JobAttempt):
    assert read_state(store, job) is None
    store.mkdirs(job.manifests)
    assert read_state(store, job) is None


def test_a_file_in_the_place_of_the_attempt_has_no_state(job: JobAttempt):
    store = LocalStore(StoreSpec("file"))
    put_file(store, job.directory, b"in the way")
    assert read_state(store, job) is None


def test_a_state_of_another_version_is_refused_and_left(memory: MemoryStore):
    seen = begun(memory)
    place = JOB.state if memory.real_directories else join(JOB.state, "current")
    memory.advance(place, seen.stored, "merged.appends.stamp.nonce.state")
    before = memory.files()
    for look in (read_state, adopt_state):
        with pytest.raises(ManifestError, match="not a job state that this version can read"):
            look(memory, JOB)
    assert memory.files() == before


class Blurred(MemoryStore):
    """A store whose listings, for a while, show none of the names that are being changed, or both."""

    def __init__(self, shown: list[list[str]]) -> None:
        super().__init__()
        self.shown = shown

    def list_status(self, path: str) -> list[FileStatus]:
        listed = super().list_status(path)
        if self.shown:
            return [FileStatus(join(path, name), is_directory=False) for name in self.shown.pop(0)]
        return listed

    def read_state(self, path: str) -> StoredState | None:
        return read_state_name(self.list_status, path)


BOTH = ["open.appends.s.a.state", "declared.appends.s.b.state"]


@pytest.mark.parametrize("shown", [[[]], [BOTH], [[], BOTH, []]])
def test_a_listing_that_shows_no_state_or_two_is_made_again(shown: list[list[str]]):
    store = Blurred([])
    seen = begun(store)
    store.shown = shown
    assert read_state(store, JOB) == seen


@pytest.mark.parametrize("names", [[], BOTH])
def test_a_state_that_stays_unclear_is_an_error_and_never_no_state(names: list[str]):
    store = Blurred([])
    begun(store)
    store.mkdirs(JOB.manifests)
    store.shown = [names] * LOOKS
    with pytest.raises(OSError, match="states of its job"):
        adopt_state(store, JOB)


def test_only_the_state_that_was_seen_is_deleted():
    store = MemoryStore(real_directories=False)
    seen = begun(store)
    now = advance(store, JOB, seen, Phase.DECLARED)
    delete_state(store, JOB, seen)
    assert read_state(store, JOB) == now
    delete_state(store, JOB, now)
    delete_state(store, JOB, now)
    assert read_state(store, JOB) is None
