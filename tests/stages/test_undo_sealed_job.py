"""A sealed job is undone whole where its old files are put aside: they are back, and nothing else is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from ray_committer.errors import (
    CommitConflictError,
    CommitRecordExistsError,
    CommitStateUnknownError,
    RayCommitterError,
)
from ray_committer.events import Event, Notice
from ray_committer.job_files.read_job import read_job
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.state import Phase
from ray_committer.stages.commit_job import commit_job
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.stores.local_renames import link_and_unlink
from ray_committer.testing import (
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import put_file, run_undo
from tests.stages.support import (
    JOB,
    KINDS,
    OTHER_JOB,
    WHEN,
    at_call,
    calls_of,
    context,
    died,
    each_crash,
    phase_of,
)
from tests.tiers import moments

pytestmark = pytest.mark.usefixtures("no_pauses")

OLD = {"a-old": b"0", "p=1/old": b"00", "p=3/old": b"000"}
MINE = {"a": b"1", "p=1/b": b"2", "p=2/c": b"3"}
THIRD_JOB = new_job_attempt("/table", "job_3", 0)
OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE)


def written(kind: str = "directories", files: dict[str, bytes] = MINE) -> MemoryStore:
    store = KINDS[kind]()
    for name, data in OLD.items():
        put_file(store, f"/table/{name}", data)
    if store.real_directories:
        store.mkdirs("/table/p=4/empty")
    write_job(store, JOB, {0: files}, mode=ConflictMode.OVERWRITE)
    return store


def commit(store: StoreOperations) -> None:
    commit_late(store, JOB)


def commit_late(store: StoreOperations, job: JobAttempt) -> None:
    """Commit long ago, so that who looks now takes the committer for dead wherever it is."""
    commit_job(context(store, OVERWRITE, job=job), read_job(store, job))


def sealed_worlds(kind: str = "directories") -> Iterator[MemoryStore]:
    """What a commit leaves that dies at each of its calls while the job is sealed."""
    for store in each_crash(partial(written, kind), commit):
        if phase_of(store) is Phase.SEALED:
            yield store


def half_removed() -> MemoryStore:
    return died(written(), commit, "set_aside", "p=1/old", when="after")


def all_removed() -> MemoryStore:
    return died(written(), commit, "advance", "committed")


def check_undone(store: MemoryStore) -> None:
    assert visible_files(store, "/table") == OLD
    assert [path for path in store.files() if "_temporary" in path] == []
    assert store.get_status("/table/p=4/empty") is not None


def test_a_job_that_died_anywhere_while_it_was_sealed_is_undone_or_finished():
    stores = list(sealed_worlds())
    assert len(stores) > len(OLD)
    for store in stores:
        finished = store.copy()
        run_undo(store, JOB)
        check_undone(store)
        assert run_undo(store, JOB) is False
        run_commit(finished, JOB)
        assert visible_files(finished, "/table") == MINE


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("new", [half_removed, all_removed])
def test_an_undo_of_a_sealed_job_that_died_anywhere_is_finished_by_the_next(
    new: Callable[[], MemoryStore], when: str
):
    base = new()
    for call in calls_of(base.copy(), lambda one: run_undo(one, JOB)):
        store = base.copy()

        def die(now: StoreCall, number: int = call.number) -> None:
            if now.number == number:
                raise SimulatedCrash(now)

        with pytest.raises(SimulatedCrash):
            run_undo(WrappedStore(store, **{when: die}), JOB)
        run_undo(store, JOB)
        check_undone(store)


@pytest.mark.slow
@pytest.mark.moments
@pytest.mark.parametrize("when", WHEN)
def test_a_committer_that_goes_on_after_the_undo_of_a_sealed_job_takes_no_old_file(when: str):
    """At each of its requests the whole undo runs, and then the commit goes on."""
    base, undone = written(), 0
    for call in moments(calls_of(base.copy(), commit)):
        store, ends = base.copy(), list[bool]()

        def undo(now: StoreCall, number: int = call.number, store=store, ends=ends) -> None:
            if now.number == number:
                with suppress(CommitRecordExistsError):
                    ends.append(run_undo(store, JOB))

        with suppress(RayCommitterError, OSError):
            commit(WrappedStore(store, **{when: undo}))
        undone += ends == [True]
        with suppress(RayCommitterError):
            run_undo(store, JOB)
        assert visible_files(store, "/table") == (OLD if ends == [True] else MINE)
    assert undone > 10


@pytest.mark.slow
@pytest.mark.moments
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("new", [half_removed, all_removed])
def test_a_committer_that_goes_on_during_the_undo_of_a_sealed_job_does_not_end_it_otherwise(
    new: Callable[[], MemoryStore], when: str
):
    base = new()
    for call in moments(calls_of(base.copy(), lambda one: run_undo(one, JOB))):
        store = base.copy()

        def go_on(store=store) -> None:
            with suppress(RayCommitterError, OSError):
                run_commit(store, JOB)

        with suppress(CommitRecordExistsError):  # it is committed before the undo has begun
            run_undo(WrappedStore(store, **{when: at_call(call.number, go_on)}), JOB)
        assert visible_files(store, "/table") in (OLD, MINE)
        assert phase_of(store) is None


def test_a_second_name_of_an_old_file_that_is_back_goes_with_the_place_aside(tmp_path: Path):
    """A rename by link and unlink died between the two."""
    crashed: list[str] = []

    def rename(source: str, dest: str) -> None:
        if "/away/" in source and dest not in crashed:
            crashed.append(dest)
            os.link(source, dest)
            raise SimulatedCrash(source)
        link_and_unlink(source, dest)

    store = LocalStore(StoreSpec("file"), rename=rename)
    job = new_job_attempt(str(tmp_path), "job_1", 0)
    put_file(store, str(tmp_path / "p=1" / "old"), b"00")
    write_job(store, job, {0: {"a": b"1"}}, mode=ConflictMode.OVERWRITE)
    died(store, lambda one: commit_late(one, job), "advance", "committed")
    with pytest.raises(SimulatedCrash):
        run_undo(store, job)
    run_undo(store, job)
    assert crashed == [str(tmp_path / "p=1" / "old")]
    assert visible_files(store, str(tmp_path)) == {"p=1/old": b"00"}
    assert os.stat(crashed[0]).st_nlink == 1
    assert not (tmp_path / "_temporary").exists()


def test_an_old_file_whose_name_is_taken_is_kept_aside_and_named():
    store = half_removed()
    (taken,) = [name for name in OLD if store.get_status(f"/table/{name}") is None][:1]
    put_file(store, f"/table/{taken}", b"by another program")
    with pytest.raises(CommitStateUnknownError, match=f"/table/{taken}: its name is taken") as error:
        run_undo(store, JOB)
    place = str(error.value).partition("kept as ")[2].partition(";")[0]
    place = place.removeprefix(error.value.store or "")
    assert store.read(place) == OLD[taken]
    store.delete_file(f"/table/{taken}")
    run_undo(store, JOB)
    check_undone(store)


def test_a_sealed_job_whose_place_aside_is_gone_is_not_undone_as_if_nothing_were_missing():
    store = all_removed()
    for path in [path for path in store.files() if "/away/" in path]:
        store.delete_directory(path.partition("/away/")[0] + "/away")
    with pytest.raises(CommitStateUnknownError, match="is gone, with the old files"):
        run_undo(store, JOB)
    assert phase_of(store) is Phase.UNDOING


@pytest.mark.parametrize("kind", ["etags", "flat", "generations"])
def test_where_old_files_are_deleted_a_sealed_job_is_not_undone(kind: str):
    store = died(written(kind), commit, "advance", "committed")
    before = store.files()
    with pytest.raises(CommitRecordExistsError, match=r"deleted on this store .* finish it with"):
        run_undo(store, JOB)
    assert store.files() == before


def test_a_job_that_replaces_an_old_file_by_its_namesake_is_not_undone_once_sealed():
    store = died(written(files={"p=1/old": b"new"}), commit, "set_aside")
    with pytest.raises(CommitRecordExistsError, match="by new ones of the same name, such as"):
        run_undo(store, JOB)
    run_commit(store, JOB)
    assert visible_files(store, "/table") == {"p=1/old": b"new"}


# What others may do beside a sealed job


def test_an_append_passes_a_job_that_is_sealed_and_dead_and_the_job_is_named():
    store, events = half_removed(), list[Event]()
    write_job(store, OTHER_JOB, {0: {"p=1/other": b"9"}})
    commit_job(context(store, job=OTHER_JOB, emit=events.append), read_job(store, OTHER_JOB))
    assert store.read("/table/p=1/other") == b"9"
    (notice,) = [event.text for event in events if isinstance(event, Notice)]
    assert "has not removed all the data that it replaces" in notice
    assert "--undo" in notice
    undone = store.copy()
    run_undo(undone, JOB)
    assert visible_files(undone, "/table") == OLD | {"p=1/other": b"9"}
    run_commit(store, JOB)
    assert visible_files(store, "/table") == MINE | {"p=1/other": b"9"}


@pytest.mark.parametrize("mode", [ConflictMode.OVERWRITE, ConflictMode.OVERWRITE_PARTITIONS])
def test_who_replaces_data_waits_for_a_sealed_job(mode: ConflictMode):
    store = written()
    write_job(store, OTHER_JOB, {0: {"p=1/other": b"9"}}, mode=mode)
    died(store, commit, "set_aside", "p=1/old")
    options = CommitOptions(mode=mode, unfinished="refuse", conflict_wait_seconds=0.0)
    with pytest.raises(CommitConflictError, match=r"sealed.* or give it up with"):
        run_commit(store, OTHER_JOB, options)
    with pytest.raises(CommitConflictError, match=r"sealed.* or give it up with"):
        write_job(store, THIRD_JOB, {0: {"p=1/third": b"9"}}, mode=mode)
    write_job(store, THIRD_JOB, {0: {"p=1/third": b"9"}})
