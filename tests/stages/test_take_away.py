"""What ended is taken away in one step; what a job of the same id has there by now is put back."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Thread

import pytest

from ray_committer.errors import CommitRecordExistsError, CommitStateUnknownError, StoreUnavailableError
from ray_committer.job_files.job_state import Seen, advance, begin_state, read_state
from ray_committer.job_files.listing import jobs_at
from ray_committer.job_files.others import find_gone, has_content, is_gone_committed, list_gone
from ray_committer.job_files.read_job import read_job
from ray_committer.protocol.paths import GONE_PREFIX, STATE, UNDONE, JobAttempt, join, new_job_attempt
from ray_committer.protocol.state import Phase, new_state
from ray_committer.stages.take_away import delete_gone, sweep_all_gone, sweep_gone, take_away
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore, run_abort, run_commit, write_job
from ray_committer.testing.harness import put_file
from tests.servers.fake_s3 import FakeS3Store
from tests.stages.support import (
    JOB,
    OTHER_JOB,
    WHEN,
    MakesParentsOfWrites,
    at,
    bring_to,
    closed,
    do_at,
    each_of,
    with_job,
)

pytestmark = pytest.mark.usefixtures("no_pauses")


store = each_of("directories", "flat")


def ended(store: StoreOperations, job: JobAttempt = JOB) -> Seen:
    """A job that was aborted and not removed."""
    write_job(store, job, {0: {"a": b"x"}, 1: {"p=1/b": b"y"}})
    return bring_to(store, Phase.ABORTED, job=job)


def set_up_again(store: StoreOperations, job: JobAttempt = JOB) -> None:
    """Remove the job, and write another of its id."""
    store.delete_directory(job.job_directory)
    write_job(store, job, {0: {"new": b"z"}})


def taken(store: StoreOperations, seen: Seen, job: JobAttempt = JOB) -> JobAttempt:
    """Where a job's directory was taken away to."""
    gone = take_away(store, job, seen)
    assert gone is not None
    return gone


def remove(store: StoreOperations, seen: Seen) -> bool:
    gone = take_away(store, JOB, seen)
    if gone is not None:
        delete_gone(store, gone, seen)
    return gone is not None


def gone_names(store: StoreOperations) -> list[str]:
    return [gone.directory.rpartition("/")[2] for gone in list_gone(store, JOB.destination)]


def below(store: MemoryStore, job: JobAttempt) -> dict[str, bytes]:
    return {path.removeprefix(job.directory): data for path, data in store.files(job.directory).items()}


def test_a_directory_is_taken_away_whole_to_where_nobody_looks_for_a_job():
    store = MemoryStore()
    seen = ended(store)
    before = below(store, JOB)
    gone = taken(store, seen)
    assert below(store, gone) == before
    assert gone_names(store) == [gone.directory.rpartition("/")[2]]
    assert gone.directory.startswith(join(JOB.temporary, GONE_PREFIX))
    assert not read_job(store, JOB).exists
    assert not any(one.is_attempt for one in jobs_at(store, JOB.destination))


def test_where_nothing_is_there_is_nothing_to_take(store: MemoryStore):
    seen = ended(store)
    assert remove(store, seen) is True
    assert store.list_files(JOB.job_directory) == []
    assert gone_names(store) == []
    if store.real_directories:
        assert take_away(store, JOB, seen) is None


def test_a_removal_leaves_nothing_of_the_job_and_all_of_others(store: MemoryStore):
    put_file(store, "/table/data", b"visible")
    write_job(store, OTHER_JOB, {0: {"c": b"z"}})
    before = store.files()
    seen = ended(store)
    put_file(store, join(JOB.state, "heartbeat.json"), b"{}")
    put_file(store, join(JOB.packs, "pack"), b"{}")
    put_file(store, join(JOB.directory, "undone", "0-0"), b"taken back")
    assert remove(store, seen) is True
    assert store.files() == before
    assert store.get_status(JOB.directory) is None


def test_of_two_that_take_one_directory_away_one_has_it(tmp_path: Path):
    local = LocalStore(StoreSpec("file"))
    for number in range(20):
        job = JobAttempt(str(tmp_path), f"job_{number}", 0, f"{tmp_path}/_temporary/job_{number}/00")
        seen = ended(local, job)
        barrier, found = Barrier(2), list[JobAttempt | None]()

        def take(job=job, seen=seen, barrier=barrier, found=found) -> None:
            barrier.wait()
            found.append(take_away(local, job, seen))

        threads = [Thread(target=take) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len([one for one in found if one is not None]) == 1
        assert len(found) == 2


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("times", [1, 3])
def test_a_lost_answer_is_settled_by_looking(when: str, times: int):
    store, left = MemoryStore(), iter(range(times))
    seen = ended(store)

    def lost(call: StoreCall) -> None:
        if call.operation == "move_directory" and next(left, None) is not None:
            raise StoreUnavailableError(call.paths[0], "lost")

    assert read_state(store, taken(WrappedStore(store, **{when: lost}), seen)) == seen


def test_a_directory_that_was_taken_and_then_not_found_is_known():
    store = MemoryStore()
    seen = ended(store)
    faulty = WrappedStore(store, after=at("move_directory", FileNotFoundError()))
    assert take_away(faulty, JOB, seen) is not None


# The id was set up again


def test_a_directory_whose_id_was_set_up_again_is_put_back_whole():
    store = MemoryStore()
    seen = ended(store)
    set_up_again(store)
    before = store.files()
    assert take_away(store, JOB, seen) is None
    assert store.files() == before
    assert gone_names(store) == []


def test_a_state_that_was_changed_meanwhile_is_put_back():
    store = MemoryStore()
    store.mkdirs(JOB.directory)
    seen = begin_state(store, JOB, new_state())
    advance(store, JOB, seen, Phase.DECLARED)
    before = store.files()
    assert take_away(store, JOB, seen) is None
    assert store.files() == before


def test_it_is_put_back_although_the_directory_above_was_removed_meanwhile():
    store = MemoryStore()
    seen = ended(store)
    set_up_again(store)
    before = store.files()
    tidy = do_at("read_state", lambda: store.remove_empty_directory(JOB.job_directory))
    assert take_away(WrappedStore(store, before=tidy), JOB, seen) is None
    assert store.files() == before


@pytest.mark.parametrize(
    ("when", "error"),
    [
        ("before", StoreUnavailableError("/p", "lost")),
        ("after", StoreUnavailableError("/p", "lost")),
        ("after", FileNotFoundError()),
    ],
)
def test_it_is_put_back_although_the_answer_is_lost(when: str, error: OSError):
    store = MemoryStore()
    seen = ended(store)
    set_up_again(store)
    before = store.files()
    lost = do_at("move_directory", lambda: fail(error), end=JOB.directory)
    assert take_away(WrappedStore(store, **{when: lost}), JOB, seen) is None
    assert store.files() == before
    assert gone_names(store) == []


def fail(error: OSError) -> None:
    raise error


def where_its_place_was_taken(store: MemoryStore) -> JobAttempt:
    """A job that was taken away by mistake and cannot be put back; where it is now."""
    seen = ended(store)
    set_up_again(store)
    before = below(store, JOB)
    late = do_at("read_state", lambda: put_file(store, join(JOB.tasks, "late"), b"x"))
    assert take_away(WrappedStore(store, before=late), JOB, seen) is None
    (name,) = gone_names(store)
    gone = JOB.gone(name.removeprefix(GONE_PREFIX))
    assert below(store, gone) == before
    return gone


def test_what_cannot_be_put_back_is_kept_whole():
    store = MemoryStore()
    gone = where_its_place_was_taken(store)
    assert store.files(JOB.directory) == {join(JOB.tasks, "late"): b"x"}
    assert read_state(store, gone) is not None


def test_on_a_flat_store_the_state_of_a_job_that_was_set_up_again_stays():
    store = MemoryStore(real_directories=False)
    seen = ended(store)
    set_up_again(store)
    now = read_state(store, JOB)
    gone = take_away(store, JOB, seen)
    assert gone == JOB
    delete_gone(store, gone, seen)
    assert read_state(store, JOB) == now


@pytest.mark.parametrize("operation", ["list_status", "delete_listed", "delete_file", "delete_version"])
@pytest.mark.parametrize("when", WHEN)
def test_on_a_flat_store_who_slept_while_it_removed_a_job_deletes_nothing_of_the_next(
    operation: str, when: str
):
    """Another has removed the job meanwhile, and its id was set up again."""
    store = MemoryStore(real_directories=False)
    seen = ended(store)
    put_file(store, JOB.content("declared"), b"{}")
    later: dict[str, bytes] = {}

    def set_up_anew() -> None:
        run_abort(store, JOB)
        write_job(store, JOB, {0: {"a": b"later", "b": b"later"}})
        bring_to(store, Phase.RECORDED)
        later.update(store.files())

    slept = WrappedStore(store, **{when: do_at(operation, set_up_anew)})
    delete_gone(slept, JOB, seen)
    assert len(later) == 6  # two files, their manifest, a state, a declaration and a record
    assert store.files() == later


def test_on_a_flat_store_who_slept_between_a_listing_and_its_deletions_deletes_nothing_of_the_next():
    store = MemoryStore(real_directories=False)
    seen = ended(store)

    def set_up_anew() -> bool:
        delete_gone(store, JOB, seen)
        write_job(store, JOB, {0: {"a": b"later"}})
        return True

    assert store.delete_listed((JOB.tasks, JOB.manifests), set_up_anew)
    assert [name for name in below(store, JOB) if "/tasks/" in name or "/manifests/" in name]


# Looking for what was taken away


def test_a_job_that_was_taken_away_is_found_by_its_stamp():
    store = MemoryStore()
    other = ended(store, OTHER_JOB)
    seen = ended(store)
    assert take_away(store, OTHER_JOB, other) is not None
    assert find_gone(store, JOB, seen.state.stamp) is None
    assert take_away(store, JOB, seen) is not None
    assert find_gone(store, JOB, seen.state.stamp) == seen.state
    assert find_gone(store, JOB, other.state.stamp) == other.state
    assert find_gone(store, JOB, "another") is None


def test_a_link_is_not_taken_for_what_was_taken_away(tmp_path: Path):
    archive = tmp_path / "archive"
    archive.mkdir()
    (archive / "precious").touch()
    temporary = tmp_path / "table" / "_temporary"
    temporary.mkdir(parents=True)
    (temporary / f"{GONE_PREFIX}x").symlink_to(archive)
    local = LocalStore(StoreSpec("file"))
    assert list_gone(local, str(tmp_path / "table")) == []


def test_what_was_taken_away_and_may_not_be_read_tells_nothing_and_is_kept():
    store = MemoryStore()
    seen = ended(store)
    gone = taken(store, seen)
    denied = closed(store, join(gone.directory, STATE))
    assert find_gone(denied, JOB, seen.state.stamp) is None
    assert not is_gone_committed(denied, JOB)
    assert not has_content(denied, JOB, seen.state.nonce)

    def deny(call: StoreCall) -> None:
        if GONE_PREFIX in call.paths[0] and call.paths[0].endswith(STATE):
            raise PermissionError(13, "denied", call.paths[0])

    before = sorted(store.files().values())
    assert not sweep_all_gone(WrappedStore(store, before=deny), JOB)
    assert sorted(store.files().values()) == before


def test_what_is_behind_a_link_tells_nothing_and_is_not_deleted(tmp_path: Path):
    store = LocalStore(StoreSpec("file"))
    job = new_job_attempt(str(tmp_path / "t"), "job_1", 0)
    seen = ended(store, job)
    outside = tmp_path / "outside"
    gone = taken(store, seen, job)
    Path(gone.state).rename(outside)
    Path(gone.state).symlink_to(outside)
    assert find_gone(store, job, seen.state.stamp) is None
    assert not sweep_all_gone(store, job)
    assert len(list_gone(store, job.destination)) == 1
    assert any(outside.iterdir())


def test_the_sweep_deletes_what_ended_and_keeps_what_did_not():
    store = MemoryStore()
    kept = where_its_place_was_taken(store)
    seen = ended(store, OTHER_JOB)
    gone = taken(store, seen, OTHER_JOB)
    before = list(store.files(kept.directory).values())
    assert sweep_gone(store, gone) is True
    assert sweep_gone(store, kept) is False
    (found,) = list_gone(store, JOB.destination)
    assert list(store.files(found.directory).values()) == before
    assert sweep_gone(store, gone) is True


def test_a_sweep_deletes_nothing_that_another_has_taken_further_and_keeps():
    """The second takes the job away while the first looks, and has looked when the first deletes."""
    store = with_job({0: {"a": b"x"}}, phase=Phase.RECORDED)
    kept = JOB.gone("kept")
    store.move_directory(JOB.directory, kept.directory)
    before = list(store.files(kept.directory).values())
    has_taken, goes_on = threading.Event(), threading.Event()

    def sleep(call: StoreCall) -> None:
        if call.operation == "list_status":
            has_taken.set()
            assert goes_on.wait(20)

    def overtake(call: StoreCall) -> None:
        if call.operation == "list_status" and not second.is_alive():
            second.start()
            assert has_taken.wait(20)
        if call.operation == "delete_directory":
            goes_on.set()
            second.join(20)

    def sweep_again() -> None:
        (gone,) = list_gone(store, JOB.destination)
        sweep_gone(WrappedStore(store, before=sleep), gone)

    second = threading.Thread(target=sweep_again)
    sweep_gone(WrappedStore(store, before=overtake), kept)
    (found,) = list_gone(store, JOB.destination)
    assert list(store.files(found.directory).values()) == before


@pytest.mark.parametrize("path", ["/table/_temporary", "/table"])
def test_where_no_job_was_nothing_was_taken_away(path: str):
    store = MemoryStore()
    assert list_gone(store, "/table") == []
    put_file(store, path, b"a file")
    assert list_gone(store, "/table") == []


@pytest.mark.parametrize("names", [["state"], ["state", "undone"]])
def test_what_a_process_wrote_that_slept_until_the_job_was_removed_is_no_job_and_goes(names: list[str]):
    store = MakesParentsOfWrites()
    remove(store, ended(store))
    if "state" in names:
        store.write(JOB.content("nonce"), b"a declaration")
        store.write(JOB.heartbeat, b"a sign of life")
        store.write(JOB.content("success-nonce"), b"{}")
    if "undone" in names:
        store.mkdirs(join(JOB.directory, UNDONE))
    state = read_job(store, JOB)
    assert (state.phase, state.is_remnant, state.is_husk) == (None, True, True)
    assert run_abort(store, JOB) is False
    assert below(store, JOB) == {}
    assert not read_job(store, JOB).exists


def test_a_directory_with_anything_of_a_task_is_no_husk():
    store = MakesParentsOfWrites()
    remove(store, ended(store))
    store.write(JOB.content("nonce"), b"a declaration")
    store.write(join(JOB.tasks, "attempt/part-0"), b"rows")
    assert not read_job(store, JOB).is_husk


@pytest.mark.parametrize("names", [["tasks"], ["frozen"], ["frozen", "tasks"], ["frozen", "state"]])
def test_what_a_late_task_wrote_goes_with_an_abort_also_if_a_late_committer_has_frozen_it(
    names: list[str],
):
    store = MakesParentsOfWrites()
    remove(store, ended(store))
    places = {"tasks": JOB, "frozen": JOB.with_frozen_tasks("1" * 16)}
    for place in (places[name] for name in names if name in places):
        store.write(join(place.staged("0" * 32), "part-0"), b"rows")
    if "state" in names:
        store.write(JOB.content("nonce"), b"a declaration")
    assert run_abort(store, JOB) is False
    assert below(store, JOB) == {}
    assert not read_job(store, JOB).exists


def test_who_removes_a_husk_leaves_files_of_tasks_that_a_set_up_has_marked():
    store = MakesParentsOfWrites()
    remove(store, ended(store))
    marked = JOB.with_frozen_tasks("1" * 16).mark("of a job without a state yet")
    store.mkdirs(marked)
    assert run_abort(store, JOB) is False
    assert store.get_status(marked) is not None


def test_who_removes_a_husk_leaves_a_job_that_is_set_up_and_recorded_meanwhile():
    """It sleeps before any of its requests, while the id is set up again."""
    for number in range(1, 15):
        store = MakesParentsOfWrites()
        remove(store, ended(store))
        store.write(JOB.content("of_the_removed_job"), b"a declaration")
        records: list[str] = []

        def overtake(call: StoreCall, number: int = number, store=store, records=records) -> None:
            if call.number != number or records:
                return
            run_abort(store, JOB)
            write_job(store, JOB, {0: {"new": b"z"}})
            seen = bring_to(store, Phase.RECORDED)
            records.append(JOB.content(seen.state.record or ""))

        with suppress(CommitRecordExistsError, CommitStateUnknownError):
            run_abort(WrappedStore(store, before=overtake), JOB)
        assert all(store.get_status(path) is not None for path in records)
        if records:
            assert store.files(JOB.manifests)


@pytest.mark.parametrize("phase", [None, Phase.OPEN, Phase.ABORTED])
def test_what_was_copied_from_a_store_that_moves_directories_stops_nothing_on_one_that_does_not(
    phase: Phase | None,
):
    """A table is copied to a bucket together with what a clean-up has taken away and not deleted."""
    store = FakeS3Store()
    gone = JOB.gone("1")
    put_file(store, join(gone.tasks, "a"), b"1")
    if phase is not None:
        put_file(store, join(gone.state, replace(new_state(), phase=phase).token), b"")
    assert not run_abort(store, JOB)
    write_job(store, JOB, {0: {"x": b"1"}})
    for _ in range(2):
        run_commit(store, JOB)
    assert list_gone(store, JOB.destination)
    assert sweep_gone(store, gone) is (phase is not Phase.OPEN)
    assert bool(list_gone(store, JOB.destination)) is (phase is Phase.OPEN)
