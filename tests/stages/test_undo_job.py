"""A recorded commit is given up whole: nothing of it stays visible, and nothing else is touched."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest
from msgspec import structs

from ray_committer.errors import (
    CommitConflictError,
    CommitRecordExistsError,
    CommitStateUnknownError,
    CommitterBusyError,
    PreflightError,
    RayCommitterError,
    StoreUnavailableError,
)
from ray_committer.events import Event as AnyEvent
from ray_committer.events import Notice
from ray_committer.job_files.commit_record import load_commit_record
from ray_committer.job_files.job_state import advance
from ray_committer.job_files.owners import at_work
from ray_committer.job_files.read_job import read_job
from ray_committer.options import CommitOptions
from ray_committer.protocol.actions import Rename
from ray_committer.protocol.pack import Pack, encode_section
from ray_committer.protocol.paths import GONE_PREFIX, UNDONE, join, new_job_attempt
from ray_committer.protocol.record import ConflictMode, Heartbeat, decode_record, encode
from ray_committer.protocol.state import Phase
from ray_committer.stages.commit_job import commit_job
from ray_committer.stages.undo_job import undo_job
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import (
    Identity,
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import put_file, run_undo
from ray_committer.work.packs import PackReader, save_pack
from tests.stages.support import (
    ALIVE,
    JOB,
    KINDS,
    NOW,
    OTHER_JOB,
    WHEN,
    at,
    at_call,
    calls_of,
    context,
    died,
    do_at,
    now,
    phase_of,
    seen_in,
    source_path,
    state_of,
    with_job,
)
from tests.tiers import moments

pytestmark = pytest.mark.usefixtures("no_pauses")

MINE = {"a": b"1", "p=1/b": b"2", "p=2/c": b"3"}
OLD = {"old": b"0", "p=1/old": b"00"}
TOTAL = len(MINE)


def written(kind: str, mode: ConflictMode = ConflictMode.APPEND) -> MemoryStore:
    """A job beside old data and another job that runs."""
    store = KINDS[kind]()
    for name, data in OLD.items():
        put_file(store, f"/table/{name}", data)
    write_job(store, OTHER_JOB, {0: {"other": b"9"}})
    write_job(store, JOB, {0: {"a": b"1", "p=1/b": b"2"}, 1: {"p=2/c": b"3"}}, mode=mode)
    return store


def others(store: MemoryStore) -> dict[str, bytes]:
    """All but the job, and what of it was taken away and is not deleted yet."""
    own = (JOB.job_directory + "/", join(JOB.temporary, GONE_PREFIX))
    return {path: data for path, data in store.files().items() if not path.startswith(own)}


def without_the_jobs(store: MemoryStore) -> dict[str, bytes]:
    """What must be there once the job is undone."""
    mine = {f"/table/{name}" for name in MINE}
    return {path: data for path, data in others(store).items() if path not in mine}


def commit(store: StoreOperations, options: CommitOptions | None = None) -> None:
    """Commit long ago, so that who looks now takes the committer for dead wherever it is."""
    commit_job(context(store, options), read_job(store, JOB))


def is_visible(path: str) -> bool:
    return path.startswith("/table/") and not path.startswith(("/table/_", "/table/."))


def at_commit(call: StoreCall) -> bool:
    return call.operation == "advance" and call.paths[-1].startswith("committed")


def crash_before_rename(number: int) -> Callable[[StoreCall], None]:
    """A hook: die before the file `number` (from 0) is moved, or before the job is committed."""
    seen: list[StoreCall] = []

    def hook(call: StoreCall) -> None:
        is_move = call.operation == "rename" and is_visible(call.paths[-1])
        if is_move or at_commit(call):
            seen.append(call)
        if len(seen) == number + 1:
            raise SimulatedCrash(call)

    return hook


def recorded(kind: str, moved: int = 0) -> MemoryStore:
    """A job whose commit died when so many of its files were in place."""
    store = written(kind)
    with pytest.raises(SimulatedCrash):
        commit(WrappedStore(store, before=crash_before_rename(moved)))
    assert phase_of(store) is Phase.RECORDED
    assert len(visible_files(store, "/table")) == len(OLD) + moved
    return store


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("moved", range(TOTAL + 1))
def test_all_that_was_moved_is_taken_back_and_nothing_else_is_touched(kind: str, moved: int):
    store = recorded(kind, moved)
    before = without_the_jobs(store)
    assert run_undo(store, JOB) is True
    assert store.files() == before
    assert phase_of(store) is None
    assert store.get_status(JOB.job_directory) is None
    assert run_undo(store, JOB) is False
    assert store.files() == before


@pytest.mark.moments
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_after_a_failure_anywhere_the_same_undo_ends_it(when: str, error: type[OSError]):
    base = recorded("directories", 1)
    before = without_the_jobs(base)
    for call in moments(calls_of(base.copy(), lambda one: run_undo(one, JOB))):
        store = base.copy()

        def fail(now: StoreCall, number: int = call.number) -> None:
            if now.number == number:
                raise error(5, "failed", now.paths[0])

        with suppress(RayCommitterError, OSError):
            run_undo(WrappedStore(store, **{when: fail}), JOB)
        run_undo(store, JOB)
        assert others(store) == before


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("operation", ["set_aside", "advance", "move_directory"])
@pytest.mark.parametrize("moved", [1, TOTAL])
def test_a_lost_answer_is_settled_by_looking(when: str, operation: str, moved: int):
    store = recorded("directories", moved)
    before = without_the_jobs(store)
    asked: set[tuple[str, ...]] = set()

    def lose(call: StoreCall) -> None:
        if call.operation == operation and call.paths not in asked:
            asked.add(call.paths)
            raise StoreUnavailableError(call.paths[0], "lost")

    run_undo(WrappedStore(store, **{when: lose}), JOB)
    assert asked
    assert store.files() == before


def test_a_change_of_the_state_that_cannot_be_read_back_is_unknown():
    store = recorded("directories", 1)
    with pytest.raises(CommitStateUnknownError, match="run the same command again"):
        run_undo(WrappedStore(store, before=at("set_aside", PermissionError(13, "no", "/p"))), JOB)
    assert phase_of(store) is Phase.UNDOING


# A committer that is thought dead and is not


@pytest.mark.slow
@pytest.mark.moments
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", WHEN)
def test_a_committer_that_goes_on_after_an_undo_moves_nothing(kind: str, when: str):
    """At each request of a commit the whole undo runs, and then the commit goes on."""
    base = written(kind)
    before = others(base)
    undone = 0
    calls = calls_of(base.copy(), commit)
    (end,) = [one.number for one in calls if at_commit(one)]
    for call in moments(calls):
        store, was_refused = base.copy(), list[bool]()

        def undo(
            now: StoreCall, number: int = call.number, store=store, was_refused=was_refused
        ) -> None:
            if now.number == number:
                try:
                    run_undo(store, JOB)
                except CommitConflictError:
                    was_refused.append(True)

        with suppress(RayCommitterError):
            commit(WrappedStore(store, **{when: undo}))
        is_committed = call.number > end or (call.number == end and when == "after")
        if was_refused or is_committed:
            assert visible_files(store, "/table") == {**OLD, **MINE}
        else:
            undone += 1
            assert others(store) == before
    assert undone > 10


class Paused:
    """A commit in a thread of its own, stopped at one of its requests until it is let go."""

    def __init__(self, store: MemoryStore, is_there: Callable[[StoreCall], bool], when: str) -> None:
        self._is_there, self._stopped, self._released = is_there, Event(), Event()
        self._wrapped = WrappedStore(store, **{when: self._stop})
        self._thread = Thread(target=self._run)
        self._thread.start()
        assert self._stopped.wait(20)

    def _stop(self, call: StoreCall) -> None:
        if self._is_there(call) and not self._stopped.is_set():
            self._stopped.set()
            assert self._released.wait(20)

    def _run(self) -> None:
        with suppress(RayCommitterError):
            commit(self._wrapped)
        self._stopped.set()

    def go_on(self) -> None:
        """Let the commit run to its end."""
        self._released.set()
        self._thread.join()


@pytest.mark.slow
@pytest.mark.moments
@pytest.mark.parametrize("kind", ["directories", "generations"])
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("name", list(MINE))
def test_a_committer_that_goes_on_in_the_middle_of_an_undo_moves_nothing_that_stays(
    kind: str, when: str, name: str
):
    """Stopped at the move of one file; at each request of the undo it runs on to its end."""

    def is_move(call: StoreCall) -> bool:
        return call.operation == "rename" and call.paths[-1] == f"/table/{name}"

    longest = len(calls_of(recorded(kind, TOTAL), lambda one: run_undo(one, JOB))) + 5
    for number in moments(range(1, longest + 1)):
        store = written(kind)
        before = others(store)
        zombie = Paused(store, is_move, when)
        let_go = at_call(number, zombie.go_on)
        was_refused = False
        try:
            run_undo(WrappedStore(store, before=let_go), JOB)
        except CommitConflictError:
            was_refused = True
        zombie.go_on()
        if was_refused:
            assert visible_files(store, "/table") == {**OLD, **MINE}
        elif phase_of(store) is None and visible_files(store, "/table") == {**OLD, **MINE}:
            assert number < 4  # it was committed before the undo had begun
        else:
            assert others(store) == before


@pytest.mark.moments
@pytest.mark.parametrize("kind", KINDS)
def test_two_that_undo_at_once_end_as_one(kind: str):
    base = recorded(kind, 1)
    before = without_the_jobs(base)
    for call in moments(calls_of(base.copy(), lambda one: run_undo(one, JOB))):
        store = base.copy()
        again = at_call(call.number, lambda store=store: run_undo(store, JOB))
        unknown = ""
        try:
            run_undo(WrappedStore(store, before=again), JOB)
        except (
            CommitStateUnknownError
        ) as e:  # the other one may have removed all that shows how it ended
            unknown = str(e)
        assert "half undone" not in unknown
        assert others(store) == before


# What is refused


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_committed_is_not_undone(kind: str):
    store = recorded(kind, TOTAL)
    advance(store, JOB, seen_in(store), Phase.COMMITTED)
    before = store.files()
    with pytest.raises(CommitRecordExistsError, match="is committed"):
        run_undo(store, JOB)
    assert store.files() == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_is_committed_just_then_is_not_undone(kind: str):
    store = recorded(kind, 1)
    finish = do_at("advance", lambda: run_commit(store, JOB))
    with pytest.raises(CommitRecordExistsError):
        run_undo(WrappedStore(store, before=finish), JOB)
    assert visible_files(store, "/table") == {**OLD, **MINE}


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_process_that_is_alive_commits_is_not_undone(kind: str):
    store = recorded(kind, 1)
    run = load_commit_record(store, JOB, state_of(store)).owner.run
    before = store.files()
    with at_work(run), pytest.raises(CommitterBusyError, match="is committing this job"):
        undo_job(context(store), read_job(store, JOB))
    assert store.files() == before
    assert undo_job(context(store), read_job(store, JOB)) is True


def test_who_wants_to_undo_what_another_goes_on_with_is_told_of_that_one_and_not_who_died():
    store = recorded("directories", 1)
    store.write(JOB.heartbeat, encode(Heartbeat(owner=ALIVE, at_milliseconds=NOW)))
    with pytest.raises(CommitterBusyError, match="process 1 on elsewhere is committing this job"):
        undo_job(context(store), read_job(store, JOB))


def test_an_undo_that_was_begun_is_finished_and_not_committed():
    store = recorded("directories", 1)
    advance(store, JOB, seen_in(store), Phase.UNDOING)
    with pytest.raises(CommitRecordExistsError, match="is being undone; finish that with"):
        run_commit(store, JOB)
    run_undo(store, JOB)
    assert visible_files(store, "/table") == OLD


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_is_open_is_aborted_and_one_that_is_not_there_is_not_undone(kind: str):
    store = written(kind)
    assert run_undo(store, JOB) is True
    assert store.get_status(JOB.job_directory) is None
    assert run_undo(store, JOB) is False
    assert visible_files(store, "/table") == OLD


# What is not the job's


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", [b"1", b"other"])
def test_a_file_of_another_job_that_took_a_name_meanwhile_stays(kind: str, data: bytes):
    store = recorded(kind, 0)
    put_file(store, "/table/a", data)
    run_undo(store, JOB)
    assert visible_files(store, "/table") == {**OLD, "a": data}


@pytest.mark.parametrize("kind", ["directories", "etags"])
def test_what_stays_is_named_where_it_may_be_the_jobs_and_only_there(kind: str):
    """A file was moved and changed; where one that was not moved belongs stands that of others."""
    store, events = recorded(kind, 1), list[AnyEvent]()
    (moved,) = visible_files(store, "/table").keys() - OLD.keys()
    (other, *_) = {"a", "p=1/b"} - {moved}
    store.write(f"/table/{moved}", b"changed")
    put_file(store, f"/table/{other}", b"of others")
    undo_job(context(store, emit=events.append), read_job(store, JOB))
    assert visible_files(store, "/table") == {**OLD, moved: b"changed", other: b"of others"}
    (notice,) = [event.text for event in events if isinstance(event, Notice)]
    assert notice.startswith(
        f"memory://test/table/{moved}: is kept, because it is not what the job's manifest says"
    )


def test_a_directory_in_the_place_of_a_file_stays():
    store = recorded("directories", TOTAL)
    store.delete_file("/table/a")
    put_file(store, "/table/a/deep", b"9")
    run_undo(store, JOB)
    assert visible_files(store, "/table") == {**OLD, "a/deep": b"9"}


def test_a_file_that_may_be_anothers_is_left_and_named():
    store = with_job({0: {"a": b"1"}}, store=MemoryStore(identity=Identity.SIZE_ONLY))
    with pytest.raises(SimulatedCrash):
        commit(WrappedStore(store, before=crash_before_rename(1)))
    with pytest.raises(CommitStateUnknownError, match="/table/a: has the size of the file"):
        run_undo(store, JOB)
    assert visible_files(store, "/table") == {"a": b"1"}
    store.rename("/table/a", "/elsewhere")
    run_undo(store, JOB)
    assert store.files() == {"/elsewhere": b"1"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_that_a_late_task_writes_again_is_not_kept(kind: str):
    store = recorded(kind, 0)
    source = source_path(0, "a")
    late = do_at("advance", lambda: put_file(store, source, b"1"), end=".state")
    takes = "move_whole" if store.real_directories else "rename"
    with pytest.raises(SimulatedCrashError):
        run_undo(WrappedStore(store, after=at(takes, SimulatedCrashError())), JOB)
    run_undo(WrappedStore(store, before=late), JOB)
    assert visible_files(store, "/table") == OLD
    assert store.get_status(JOB.job_directory) is None


class SimulatedCrashError(CommitStateUnknownError):
    """An error that ends a run."""

    def __init__(self) -> None:
        super().__init__("ended")


def test_a_rename_that_was_cut_off_between_link_and_unlink_is_taken_back(tmp_path: Path):
    job = new_job_attempt(str(tmp_path / "table"), "job_1", 0)
    store = with_job({0: {"a": b"1", "p=1/b": b"2"}}, store=LocalStore(StoreSpec("file")), job=job)
    died(store, lambda one: run_commit(one, job), "rename", "/table/a")
    os.link(source_path(0, "a", now(store, job)), join(job.destination, "a"))
    assert run_undo(store, job) is True
    assert visible_files(store, job.destination) == {}
    assert store.get_status(job.temporary) is None


# A record that somebody planted


def forged(store: MemoryStore, *, source: str | None = None, dest: str | None = None) -> None:
    """Let a recorded job name files that it may not touch."""
    path = JOB.content(state_of(store).record or "")
    record = decode_record(store.read(path), path)
    (ref,) = record.packs
    first, *others = PackReader(store, JOB).entries(Pack(ref))
    changed = Rename(source or first.source, dest or first.dest, first.expected)
    pack = encode_section([changed, *others], JOB.tasks).pack()
    planted = structs.replace(record, packs=[save_pack(store, JOB, pack).ref])
    put_file(store, path, encode(planted))


@pytest.mark.parametrize("end", ["source", "dest"])
def test_a_record_that_names_files_of_others_changes_nothing(end: str):
    store = recorded("directories", 0)
    put_file(store, "/archive/precious", b"1")
    forged(store, **{end: "/archive/precious"})
    if end == "dest":
        store.delete_file(source_path(0, "a"))
        store.delete_file(source_path(0, "p=1/b"))
    before = store.files()
    with pytest.raises(PreflightError, match=r"archive: is not a directory|leads elsewhere"):
        run_undo(store, JOB)
    assert store.files() == before
    assert phase_of(store) is Phase.RECORDED


def test_an_undo_that_is_refused_for_its_roots_leaves_the_commit_as_it_was():
    store = written("directories")
    options = CommitOptions(allowed_roots=("/elsewhere",))
    with pytest.raises(SimulatedCrash):
        commit_job(
            context(WrappedStore(store, before=crash_before_rename(1)), options),
            read_job(store, JOB),
            allowed_roots=("/elsewhere",),
        )
    with pytest.raises(CommitStateUnknownError, match="the commit is unchanged"):
        run_undo(store, JOB)
    assert phase_of(store) is Phase.RECORDED
    state = read_job(store, JOB)
    assert undo_job(context(store), state, allowed_roots=("/elsewhere",)) is True
    assert visible_files(store, "/table") == OLD


def test_what_is_taken_back_is_kept_below_the_job_until_it_is_aborted():
    store = recorded("directories", 1)
    kept: list[dict[str, bytes]] = []
    watch = do_at("advance", lambda: kept.append(store.files(join(JOB.directory, UNDONE))), "aborted")
    run_undo(WrappedStore(store, before=watch), JOB)
    assert sorted(kept[0].values()) == sorted(MINE.values())
