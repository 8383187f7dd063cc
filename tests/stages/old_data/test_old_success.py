"""The ``_SUCCESS`` of an earlier job: it goes when this job is recorded, and an undo puts it back."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from ray_committer import CommitOptions, ConflictMode
from ray_committer.errors import CommitConflictError, CommitStateUnknownError, RayCommitterError
from ray_committer.job_files import owners
from ray_committer.job_files.job_state import read_state
from ray_committer.job_files.success import read_success
from ray_committer.places.choose import old_files_of
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.state import Phase
from ray_committer.stages.old_data.old_success import (
    delete_old_success,
    find_old_success,
    make_place_of_success,
    put_old_success_aside,
    success_aside,
)
from ray_committer.stages.save_success_file import write_success_file
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore, run_commit, write_job
from ray_committer.testing.harness import put_file, run_abort, run_undo
from tests.doubles import recorded
from tests.stages.support import (
    JOB,
    KINDS,
    OTHER_JOB,
    bring_to,
    calls_of,
    context,
    died,
    do_at,
    each_crash,
    record_of,
    requests,
    resumed,
    state_of,
    with_job,
)
from tests.tiers import moments

PATH = JOB.success
OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE)


MOVES_IT = {"directories": "set_aside", "etags": "rename", "generations": "rename"}
"""The call that puts it aside, by the kind of store; on the others it is deleted."""

safe_stores = pytest.mark.parametrize("kind", MOVES_IT)


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest) -> MemoryStore:
    return with_success(request.param)


def with_success(kind: str | MemoryStore) -> MemoryStore:
    """A table of `OTHER_JOB`, and beside it `JOB`, whose tasks are done."""
    empty = kind if isinstance(kind, MemoryStore) else KINDS[kind]()
    store = with_job({0: {"old": b"1"}}, store=empty, job=OTHER_JOB)
    run_commit(store, OTHER_JOB, CommitOptions())
    write_job(store, JOB, {0: {"p=1/a": b"1", "p=2/b": b"2"}})
    return store


def job_of_success(store: StoreOperations, destination: str = JOB.destination) -> str | None:
    success = read_success(store, destination)
    return success.job_id if success is not None else None


@pytest.mark.parametrize("options", [CommitOptions(), OVERWRITE], ids=["append", "overwrite"])
def test_it_is_there_until_the_record_and_not_while_files_appear(store: MemoryStore, options):
    seen: list[tuple[Phase, str | None]] = []

    def look(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[-1].startswith("/table/p="):
            seen.append((state_of(store).phase, job_of_success(store)))
        if call.operation == "advance":
            seen.append((state_of(store).phase, job_of_success(store)))

    run_commit(WrappedStore(store, before=look), JOB, options)
    before = [(phase, job) for phase, job in seen if phase in (Phase.OPEN, Phase.DECLARED)]
    after = [(phase, job) for phase, job in seen if phase in (Phase.RECORDED, Phase.SEALED)]
    assert before == [(Phase.OPEN, "job_2"), (Phase.DECLARED, "job_2")]
    assert len(after) >= 3
    assert {job for _, job in after} == {None}
    assert job_of_success(store) == "job_1"


@safe_stores
def test_an_undo_puts_it_back(kind: str):
    store = with_success(kind)
    before = store.read(PATH)
    died(store, lambda one: run_commit(one, JOB), "rename", "p=2/b")
    assert store.get_status(PATH) is None
    assert run_undo(store, JOB)
    assert store.read(PATH) == before


@safe_stores
def test_an_undo_ends_if_a_marker_was_taken_by_mistake_and_a_newer_one_is_there(kind: str):
    """It was taken after the look at the old one, and the process died."""
    store = with_success(kind)
    died(store, lambda one: run_commit(one, JOB), "rename", "p=2/b")
    ((_, place),) = success_aside(context(store), recorded(store, JOB))
    store.write(place, b"of a job that was committed meanwhile")
    store.write(PATH, b"newer")
    assert run_undo(store, JOB)
    assert store.read(PATH) == b"newer"
    assert store.get_status(JOB.job_directory) is None


@safe_stores
def test_an_undo_puts_it_back_wherever_the_commit_has_stopped_before_it_is_committed(kind: str):
    for store in each_crash(lambda: with_success(kind), lambda one: run_commit(one, JOB)):
        seen = read_state(store, JOB)
        if seen is not None and seen.phase is not Phase.COMMITTED:
            run_undo(store, JOB)
            assert job_of_success(store) == "job_2"


@safe_stores
def test_an_undo_that_is_faster_than_the_change_to_committed_puts_it_back(kind: str):
    """The new one is written in parallel to that change."""
    store = died(with_success(kind), lambda one: run_commit(one, JOB), "advance", "committed")
    write_success_file(context(store), resumed(context(store))[0], [])
    assert run_undo(store, JOB)
    assert job_of_success(store) == "job_2"


@pytest.mark.moments
@safe_stores
def test_a_process_that_sleeps_anywhere_while_the_job_is_undone_leaves_that_of_a_later_one(
    kind: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(owners, "DEAD_SECONDS", -1.0)
    later = new_job_attempt("/table", "job_3", 0)
    calls = calls_of(with_success(kind), lambda one: run_commit(one, JOB))
    slept = 0
    for call in moments(calls):
        store, undone = with_success(kind), list[str | None]()

        def give_up(now: StoreCall, call=call, store=store, undone=undone) -> None:
            seen = read_state(store, JOB)
            if now.number == call.number and seen is not None and seen.phase is Phase.RECORDED:
                run_undo(store, JOB)
                undone.append(job_of_success(store))
                write_job(store, later, {0: {"p=3/c": b"3"}})
                run_commit(store, later)

        with suppress(RayCommitterError):
            run_commit(WrappedStore(store, before=give_up), JOB)
        if undone:
            slept += 1
            assert (undone, job_of_success(store)) == (["job_2"], "job_3"), call
    assert slept > 3


@pytest.mark.parametrize("kind", ["directories", "etags"])
def test_one_that_a_process_puts_aside_during_the_undo_is_put_back_again(kind: str):
    store = stopped_while_it_moves(kind)
    put_again = do_at("remove_empty_directory", lambda: put_aside_again(store), "/success")
    assert run_undo(WrappedStore(store, before=put_again), JOB)
    assert job_of_success(store) == "job_2"


def test_an_undo_is_not_done_while_a_process_keeps_putting_it_aside():
    store = stopped_while_it_moves("directories")

    def put_again(call: StoreCall) -> None:
        if call.operation == "remove_empty_directory" and call.paths[0].endswith("/success"):
            put_aside_again(store)

    with pytest.raises(CommitStateUnknownError, match="another process keeps putting files there"):
        run_undo(WrappedStore(store, before=put_again), JOB)
    assert state_of(store).phase is Phase.UNDOING
    assert run_undo(store, JOB)
    assert job_of_success(store) == "job_2"


def stopped_while_it_moves(kind: str) -> MemoryStore:
    """A table whose `JOB` has died when it had put the old one aside."""
    return died(with_success(kind), lambda one: run_commit(one, JOB), "rename", "p=2/b")


def put_aside_again(store: MemoryStore) -> None:
    record, _ = resumed(context(store))
    for old in success_aside(context(store), record):
        old_files_of(store).put_aside(old)


def test_who_makes_its_place_in_a_job_that_is_aborted_meanwhile_leaves_nothing():
    store = with_success("directories")

    def abort(call: StoreCall) -> None:
        if call.operation == "mkdirs" and call.paths[0].startswith(f"{JOB.state}/"):
            run_abort(store, JOB)

    with pytest.raises(RayCommitterError):
        run_commit(WrappedStore(store, before=abort), JOB)
    assert store.get_status(JOB.temporary) is None
    assert job_of_success(store) == "job_2"


def test_a_directory_in_its_place_is_refused_before_the_record(tmp_path: Path):
    store, job = with_directory_in_its_place(tmp_path)
    with pytest.raises(
        CommitConflictError, match=r"/_SUCCESS: is a directory where the job needs a file"
    ):
        run_commit(store, job)
    assert state_of(store, job).phase is not Phase.RECORDED
    assert (tmp_path / "_SUCCESS/x").read_text() == "old"
    assert not (tmp_path / "a").exists()


def test_a_directory_in_its_place_is_replaced_with_the_destination(tmp_path: Path):
    store, job = with_directory_in_its_place(tmp_path)
    run_commit(store, job, OVERWRITE)
    assert job_of_success(store, str(tmp_path)) == "job_1"
    assert (tmp_path / "a").read_text() == "1"


def with_directory_in_its_place(tmp_path: Path) -> tuple[LocalStore, JobAttempt]:
    store, job = LocalStore(StoreSpec("file")), new_job_attempt(str(tmp_path), "job_1", 0)
    put_file(store, f"{tmp_path}/_SUCCESS/x", b"old")
    write_job(store, job, {0: {"a": b"1"}})
    return store, job


def test_an_undo_ends_although_hadoop_has_left_a_checksum_of_it(tmp_path: Path):
    store, job = LocalStore(StoreSpec("file")), new_job_attempt(str(tmp_path), "job_1", 0)
    for name in ("_SUCCESS", "._SUCCESS.crc"):
        (tmp_path / name).write_text("old")
    write_job(store, job, {0: {"a": b"1"}})
    died(store, lambda one: run_commit(one, job), "rename", "/a")
    assert run_undo(store, job)
    assert [path.name for path in tmp_path.iterdir()] == ["_SUCCESS"]


def test_a_job_that_writes_none_keeps_it_unless_it_replaces_the_destination(store: MemoryStore):
    run_commit(store, JOB, CommitOptions(mark_success=False))
    assert job_of_success(store) == "job_2"
    write_job(store, JOB, {0: {"c": b"3"}})
    run_commit(store, JOB, CommitOptions(mark_success=False, mode=ConflictMode.OVERWRITE))
    assert job_of_success(store) is None


@pytest.mark.parametrize("kind", ["directories", "generations"])
def test_a_commit_that_stops_anywhere_is_finished_with_its_own(kind: str):
    def run(store) -> None:
        run_commit(store, JOB, CommitOptions())

    for store in each_crash(lambda: with_success(kind), run):
        run(store)
        assert job_of_success(store) == "job_1"


@safe_stores
@pytest.mark.parametrize("cleanup", [True, False])
def test_a_process_that_sleeps_until_the_job_is_committed_leaves_the_new_one(kind: str, cleanup: bool):
    """It wakes up just before it puts the old one aside."""
    store = with_success(kind)
    record = record_of(success=find_old_success(context(store), ()))
    make_place_of_success(context(store), record)
    bring_to(store, Phase.RECORDED, record=record)
    finish = do_at(MOVES_IT[kind], lambda: run_commit(store, JOB, CommitOptions(cleanup=cleanup)))
    seen: list[str | None] = []
    sleeper = WrappedStore(store, before=finish, after=lambda _: seen.append(job_of_success(store)))
    put_old_success_aside(context(sleeper), record)
    assert seen[0] == "job_2"
    assert set(seen[1:]) == {"job_1"}


def test_one_that_another_job_wrote_meanwhile_stays(store: MemoryStore):
    found = context(store)
    record = record_of(success=find_old_success(found, ()))
    make_place_of_success(found, record)
    put_file(store, PATH, b"of another job")
    put_old_success_aside(found, record)
    assert store.read(PATH) == b"of another job"


@safe_stores
def test_one_that_is_written_between_the_look_and_the_rename_stays_or_is_moved_back(kind: str):
    store = with_success(kind)
    record = record_of(success=find_old_success(context(store), ()))
    make_place_of_success(context(store), record)
    write = do_at(MOVES_IT[kind], lambda: put_file(store, PATH, b"of another job"))
    put_old_success_aside(context(WrappedStore(store, before=write)), record)
    assert store.read(PATH) == b"of another job"


def test_a_store_that_can_put_nothing_aside_deletes_it():
    class PutsNothingAside(MemoryStore):
        set_aside = StoreOperations.set_aside

    store = with_success(PutsNothingAside())
    run_commit(store, JOB, CommitOptions())
    assert job_of_success(store) == "job_1"


def test_a_record_without_one_costs_nothing():
    store = MemoryStore()
    for stage in (make_place_of_success, put_old_success_aside, delete_old_success):
        assert not requests(store, lambda one, stage=stage: stage(context(one), record_of()))


def test_objects_below_that_name_are_none_where_there_are_no_directories():
    store = KINDS["generations"]()
    put_file(store, f"{PATH}/x", b"old")
    assert find_old_success(context(store), ()) is None
