"""An undo takes names away privately: what it takes by mistake is put back, and nothing stays behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from ray_committer.errors import CommitStateUnknownError, RayCommitterError
from ray_committer.job_files.job_state import advance, read_state
from ray_committer.job_files.read_job import read_job
from ray_committer.protocol.paths import JobAttempt, join, new_job_attempt, parent
from ray_committer.protocol.state import Phase
from ray_committer.stages.commit_job import commit_job
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import (
    LinkingStore,
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import all_files, put_file, run_undo
from tests.stages.support import calls_of, context, died, do_at, now, phase_of, with_job

pytestmark = pytest.mark.usefixtures("no_pauses")

LATER = b"of a later job"
STORES: dict[str, Callable[[], StoreOperations]] = {
    "flags": lambda: LocalStore(StoreSpec("file")),
    "links": lambda: LinkingStore(StoreSpec("file")),
    "memory": MemoryStore,
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> StoreOperations:
    return STORES[request.param]()


@pytest.fixture
def job(tmp_path: Path) -> JobAttempt:
    return new_job_attempt(str(tmp_path / "table"), "job_1", 0)


def half(store: StoreOperations, job: JobAttempt) -> StoreOperations:
    """A job whose commit died when its first file of two was in place, and old data."""
    put_file(store, join(job.destination, "old"), b"0")
    with_job({0: {"a": b"1", "p=1/b": b"2"}}, store=store, job=job)
    return died(store, lambda one: run_commit(one, job), "rename", "/b")


def interrupted(store: StoreOperations, job: JobAttempt) -> StoreOperations:
    """The same, but the first file has two names."""
    half(store, job)
    taken, moved = join(now(store, job).tasks, "attempt_job_1_m_000000_0/a"), join(job.destination, "a")
    os.link(moved, taken)
    return store


def of_others(store: StoreOperations, job: JobAttempt) -> dict[str, bytes]:
    return visible_files(store, job.destination)


def takes(path: str) -> Callable[[StoreCall], bool]:
    """Whether a request takes a file away from this path."""
    return lambda call: call.operation == "set_aside" and call.paths[0].endswith(path)


def at_taking(path: str, action: Callable[[], object], when: str = "before") -> dict[str, Callable]:
    done: list[StoreCall] = []

    def hook(call: StoreCall) -> None:
        if takes(path)(call) and not done:
            done.append(call)
            action()

    return {when: hook}


def crash() -> None:
    raise SimulatedCrash


@pytest.mark.parametrize("is_set_up_again", [False, True])
def test_an_undo_that_wakes_up_after_another_has_ended_takes_nothing_of_a_later_job(
    store, job, is_set_up_again: bool
):
    """Nor if the id was set up again, and is undone too."""
    half(store, job)

    def others() -> None:
        assert run_undo(store, job) is True
        if is_set_up_again:
            with_job({0: {"x": b"x", "y": b"y"}}, store=store, job=job)
            died(store, lambda one: run_commit(one, job), "rename", "/y")
            died(store, lambda one: run_undo(one, job), "advance", "aborted")
        put_file(store, join(job.destination, "a"), LATER)

    with suppress(RayCommitterError):
        run_undo(WrappedStore(store, **at_taking("/table/a", others)), job)
    assert of_others(store, job) == {"old": b"0", "a": LATER}
    assert run_undo(store, job) is is_set_up_again
    assert of_others(store, job) == {"old": b"0", "a": LATER}
    assert store.get_status(job.temporary) is None


def write_later(store: StoreOperations, job: JobAttempt, path: str = "a") -> Callable[[], None]:
    """Another program replaces a file of the job."""

    def write() -> None:
        store.delete_file(join(job.destination, path))
        put_file(store, join(job.destination, path), LATER)

    return write


def test_what_is_taken_after_a_look_and_is_not_the_jobs_is_put_back(store, job):
    half(store, job)
    run_undo(WrappedStore(store, **at_taking("/table/a", write_later(store, job))), job)
    assert of_others(store, job) == {"old": b"0", "a": LATER}
    assert store.get_status(job.temporary) is None


def test_what_an_undo_had_taken_by_mistake_when_it_died_is_put_back_by_the_next(store, job):
    half(store, job)
    hooks = at_taking("/table/a", write_later(store, job)) | at_taking("/table/a", crash, "after")
    with pytest.raises(SimulatedCrash):
        run_undo(WrappedStore(store, **hooks), job)
    assert "a" not in of_others(store, job)
    assert run_undo(store, job) is True
    assert of_others(store, job) == {"old": b"0", "a": LATER}


def test_what_a_late_undo_takes_by_mistake_is_put_back_by_the_one_that_ends(store, job):
    """Everything was taken when the request of the late one takes a file of others; then it dies."""
    half(store, job)

    def take_late() -> None:
        seen = read_state(store, job)
        assert seen is not None
        write_later(store, job)()
        store.set_aside(join(job.destination, "a"), join(job.undone(seen.state.nonce), "0/0-moved"))

    def late(call: StoreCall) -> None:
        if call.operation == "move_directory" and call.paths[1].endswith("-closed"):
            store.delete_directory(join(call.paths[0], "0"))
            store.mkdirs(join(call.paths[0], "0"))  # without it, another store refuses the name
            take_late()

    run_undo(WrappedStore(store, before=late), job)
    assert of_others(store, job) == {"old": b"0", "a": LATER}
    assert store.get_status(job.temporary) is None


def test_where_a_third_file_took_its_name_both_are_kept_and_named(store, job):
    half(store, job)
    dest = join(job.destination, "a")

    def third() -> None:
        put_file(store, dest, b"third")

    hooks = at_taking("/table/a", write_later(store, job)) | at_taking("/table/a", third, "after")
    with pytest.raises(CommitStateUnknownError, match=r"the first is now .*nothing is lost") as caught:
        run_undo(WrappedStore(store, **hooks), job)
    assert of_others(store, job) == {"old": b"0", "a": b"third"}
    with pytest.raises(CommitStateUnknownError, match="the first is now") as caught:
        run_undo(store, job)
    assert phase_of(store, job) is Phase.UNDOING
    where = caught.value.what.partition("the first is now ")[2].partition(",")[0]
    where = where.removeprefix(caught.value.store or "")
    assert store.read(where) == LATER
    store.rename(where, join(job.destination, "rescued"))
    assert run_undo(store, job) is True
    assert of_others(store, job) == {"old": b"0", "a": b"third", "rescued": LATER}


def test_it_is_put_back_where_its_directory_was_removed_meanwhile(store, job):
    put_file(store, join(job.destination, "old"), b"0")
    with_job({0: {"p=1/a": b"1", "p=2/b": b"2"}}, store=store, job=job)
    died(store, lambda one: run_commit(one, job), "rename", "/b")
    dest = join(job.destination, "p=1/a")
    hooks = at_taking("/table/p=1/a", write_later(store, job, "p=1/a"))
    hooks |= at_taking("/table/p=1/a", lambda: store.remove_empty_directory(parent(dest)), "after")
    run_undo(WrappedStore(store, **hooks), job)
    assert of_others(store, job) == {"old": b"0", "p=1/a": LATER}


@pytest.mark.parametrize("opens", ["flags", "links"])
def test_a_file_with_two_names_is_taken_from_both_wherever_an_undo_dies(opens: str, tmp_path: Path):
    """Whoever took the first name, the next run looks for the second."""
    base = new_job_attempt(str(tmp_path / "0" / "table"), "job_1", 0)
    total = len(calls_of(interrupted(STORES[opens](), base), lambda one: run_undo(one, base)))
    assert total > 10
    for number in range(1, total + 1):
        job = new_job_attempt(str(tmp_path / str(number) / "table"), "job_1", 0)
        store = interrupted(STORES[opens](), job)

        def die(call: StoreCall, number: int = number) -> None:
            if call.number == number:
                raise SimulatedCrash(call)

        with pytest.raises(SimulatedCrash):
            run_undo(WrappedStore(store, before=die), job)
        run_undo(store, job)
        assert of_others(store, job) == {"old": b"0"}
        assert store.get_status(job.temporary) is None


def test_a_file_of_the_same_size_and_time_is_not_the_jobs_if_its_own_was_taken(store, job):
    if isinstance(store, MemoryStore):
        return  # there a file has one name
    half(store, job)
    dest = join(job.destination, "p=1/b")
    source = join(now(store, job).tasks, "attempt_job_1_m_000000_0/p=1/b")
    put_file(store, dest, b"9")
    os.utime(dest, ns=(os.stat(source).st_atime_ns, os.stat(source).st_mtime_ns))
    run_undo(store, job)
    assert of_others(store, job) == {"old": b"0", "p=1/b": b"9"}


def test_an_undo_whose_place_is_lost_gets_another(store, job):
    """As a power cut can leave it. Without it, nothing could ever be taken back."""
    half(store, job)
    died(store, lambda one: run_undo(one, job), "advance", "undoing", "after")
    seen = read_state(store, job)
    assert seen is not None
    store.delete_directory(job.undone(seen.state.nonce))
    assert run_undo(store, job) is True
    assert of_others(store, job) == {"old": b"0"}


def test_who_makes_a_place_and_is_too_late_leaves_nothing(store, job):
    half(store, job)
    is_done = do_at("mkdirs", lambda: run_undo(store, job), "/0")
    with suppress(RayCommitterError):
        run_undo(WrappedStore(store, after=is_done), job)
    assert of_others(store, job) == {"old": b"0"}
    assert store.get_status(job.temporary) is None


def test_a_committer_that_sleeps_before_its_link_finds_no_source(store, job):
    put_file(store, join(job.destination, "old"), b"0")
    write_job(store, job, {0: {"a": b"1", "p=1/b": b"2"}})
    undone = do_at("rename", lambda: run_undo(store, job), "/table/a")
    with pytest.raises(RayCommitterError, match="was ended by another process"):
        commit_job(context(WrappedStore(store, before=undone), job=job), read_job(store, job))
    assert of_others(store, job) == {"old": b"0"}
    assert list(all_files(store, job.temporary)) == []


def test_a_state_that_is_undoing_can_be_entered_anew(store, job):
    half(store, job)
    seen = read_state(store, job)
    assert seen is not None
    once = advance(store, job, seen, Phase.UNDOING)
    again = advance(store, job, once, Phase.UNDOING)
    assert (again.phase, again.state.record) == (Phase.UNDOING, seen.state.record)
