"""Files that stand where directories must go, and may be deleted: just these, by their own job alone."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ray_committer import CommitOptions
from ray_committer.errors import CommitConflictError, RayCommitterError
from ray_committer.job_files import owners
from ray_committer.job_files.job_state import read_state
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.record import Claim, ConflictMode
from ray_committer.protocol.state import Phase
from ray_committer.stages import commit_task
from ray_committer.stages.mode_roots import ModeRoots
from ray_committer.stages.preflight import look_at_data
from ray_committer.stages.scan_task_attempt_directory import scan_task_attempt_directory
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
from ray_committer.testing.harness import put_file, run_abort, run_undo
from tests.stages.support import ALIVE, at, bring_to, context, each_crash, loaded, record_of
from tests.tiers import moments

JOB = new_job_attempt("/table", "job_1", 0)
LATER = new_job_attempt("/table", "job_2", 0)
ALLOWED = CommitOptions(delete_blocking_files=True, conflict_wait_seconds=0)
OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE, conflict_wait_seconds=0)
FILES = {"p=1/q=1/a": b"1", "p=1/q=2/b": b"2", "p=2/c": b"3", "d": b"4"}
BLOCKING = {"p=1": b"in the way", "p=2": b"in the way"}
KEPT = {"z": b"in nobody's way"}
KINDS = {
    "times": MemoryStore,
    "versions": lambda: MemoryStore(identity=Identity.ETAG),
    "dear listings": lambda: MemoryStore(identity=Identity.ETAG, listing_is_cheap=False),
}
"""Stores on which a file is found, or deleted, in another way."""
kinds = pytest.mark.parametrize("kind", KINDS)

pytestmark = pytest.mark.slow


def blocked(kind: str = "times") -> MemoryStore:
    store = KINDS[kind]()
    write_job(store, JOB, {0: FILES})
    for name, data in {**BLOCKING, **KEPT}.items():
        put_file(store, f"/table/{name}", data)
    return store


def is_recorded(store: StoreOperations) -> bool:
    seen = read_state(store, JOB)
    return seen is not None and seen.phase is Phase.RECORDED


@kinds
def test_what_is_in_the_way_is_deleted_and_nothing_else(kind: str):
    store = blocked(kind)
    run_commit(store, JOB, ALLOWED)
    assert visible_files(store, "/table") == {**FILES, **KEPT}
    assert store.files("/table/_temporary") == {}


@kinds
def test_after_a_crash_anywhere_nothing_is_deleted_before_the_record_and_the_command_goes_on(kind: str):
    for store in each_crash(lambda: blocked(kind), lambda one: run_commit(one, JOB, ALLOWED)):
        seen = read_state(store, JOB)
        if seen is not None and seen.phase in (Phase.OPEN, Phase.DECLARED):
            assert visible_files(store, "/table") == {**BLOCKING, **KEPT}
        if seen is not None:
            run_commit(store, JOB, ALLOWED)
        assert visible_files(store, "/table") == {**FILES, **KEPT}


def test_a_file_outside_of_what_the_job_may_change_is_refused():
    store = MemoryStore()
    write_job(store, JOB, {0: {"a": b"1"}})
    put_file(store, "/elsewhere", b"in the way")
    found = context(store, ALLOWED)
    manifests = loaded(found)
    found.executor.directories.collect(1, ["/elsewhere/p=1"], b"")
    with pytest.raises(
        CommitConflictError, match="/elsewhere: is a file where the job needs a directory"
    ):
        look_at_data(found, manifests, ModeRoots(), ("/elsewhere/p=1",))


@pytest.mark.parametrize("phase", [Phase.RECORDED, Phase.SEALED, Phase.UNDOING])
def test_no_file_is_deleted_while_another_job_may_have_put_it_there(phase: Phase):
    store = MemoryStore()
    write_job(store, JOB, {0: {"x": b"rows", "z": b"more"}})
    write_job(store, LATER, {0: {"x/b": b"b"}})
    bring_to(store, phase, record=record_of(owner=ALIVE, claim=Claim(["/table"])))
    put_file(store, "/table/x", b"rows")
    with pytest.raises(CommitConflictError, match="this job must not do that at the same time"):
        run_commit(store, LATER, replace(ALLOWED, unfinished="refuse"))
    assert visible_files(store, "/table") == {"x": b"rows"}


@kinds
def test_what_has_come_since_the_record_is_kept_and_named(kind: str):
    store, came = blocked(kind), list[StoreCall]()

    def come(call: StoreCall) -> None:
        if not came and is_recorded(store):
            came.append(call)
            store.delete_file("/table/p=1")
            put_file(store, "/table/p=1", b"another file")

    with pytest.raises(
        CommitConflictError, match="/table/p=1: is a file where the job needs a directory"
    ):
        run_commit(WrappedStore(store, before=come), JOB, ALLOWED)
    assert visible_files(store, "/table") == {"p=1": b"another file", **KEPT}
    store.delete_file("/table/p=1")
    run_commit(store, JOB)
    assert visible_files(store, "/table") == {**FILES, **KEPT}


@pytest.mark.moments
@kinds
@pytest.mark.parametrize("is_cut_off", [False, True])
def test_who_sleeps_anywhere_while_another_goes_on_with_the_job_takes_nothing_away(
    kind: str, is_cut_off: bool, monkeypatch
):
    """The other finishes it, or is cut off before it is committed."""
    monkeypatch.setattr(owners, "DEAD_SECONDS", -1.0)
    calls: list[StoreCall] = []
    run_commit(WrappedStore(blocked(kind), before=calls.append), JOB, ALLOWED)
    slept = 0
    for call in moments(calls):
        store, ended = blocked(kind), list[dict[str, bytes]]()

        def finish(
            now: StoreCall,
            call: StoreCall = call,
            store: MemoryStore = store,
            ended: list[dict[str, bytes]] = ended,
        ) -> None:
            if now.number == call.number and is_recorded(store):
                end = at("advance", SimulatedCrash()) if is_cut_off else lambda _: None
                with suppress(SimulatedCrash):
                    run_commit(WrappedStore(store, before=end), JOB)
                ended.append(visible_files(store, "/table"))

        def look(
            now: StoreCall, store: MemoryStore = store, ended=ended, call: StoreCall = call
        ) -> None:
            for there in ended:  # from then on nothing goes, not for a moment
                assert there.items() <= visible_files(store, "/table").items(), (call, now)

        run_commit(WrappedStore(store, before=finish, after=look), JOB, ALLOWED)
        slept += len(ended)
        assert visible_files(store, "/table") == {**FILES, **KEPT}, call
    assert slept > 5


@pytest.mark.moments
@kinds
@pytest.mark.parametrize("is_cut_off", [False, True])
def test_who_sleeps_anywhere_while_the_job_is_undone_takes_nothing_of_a_later_one(
    kind: str, is_cut_off: bool, monkeypatch
):
    """That has files where the directories were to be; the undoing may be cut off before it removes the
    job's directory."""
    monkeypatch.setattr(owners, "DEAD_SECONDS", -1.0)
    calls: list[StoreCall] = []
    run_commit(WrappedStore(blocked(kind), before=calls.append), JOB, ALLOWED)
    slept = 0
    for call in moments(calls):
        store, ended = blocked(kind), list[bool]()

        def give_up(
            now: StoreCall,
            call: StoreCall = call,
            store: MemoryStore = store,
            ended: list[bool] = ended,
        ) -> None:
            if now.number != call.number or not is_recorded(store):
                return
            remove = at("move_directory", SimulatedCrash()) if is_cut_off else lambda _: None
            with suppress(SimulatedCrash):
                run_undo(WrappedStore(store, before=remove), JOB)
            for name in BLOCKING:
                if name not in visible_files(store, "/table"):  # but directories that hold nothing
                    store.delete_directory(f"/table/{name}")
            write_job(store, LATER, {0: {"p=1": b"later", "p=2": b"later"}}, mode=ConflictMode.OVERWRITE)
            run_commit(store, LATER, OVERWRITE)
            ended.append(True)

        with suppress(RayCommitterError):
            run_commit(WrappedStore(store, before=give_up), JOB, ALLOWED)
        slept += len(ended)
        if ended:
            assert visible_files(store, "/table") == {"p=1": b"later", "p=2": b"later"}, call
    assert slept > 5


@pytest.mark.moments
@kinds
def test_an_undoing_leaves_what_was_in_the_way_where_it_is_whoever_sleeps(kind: str, monkeypatch):
    """Or puts it back; where directories are by then it is named."""
    monkeypatch.setattr(owners, "DEAD_SECONDS", -1.0)
    calls: list[StoreCall] = []
    run_commit(WrappedStore(blocked(kind), before=calls.append), JOB, ALLOWED)
    kept = 0
    for call in moments(calls):
        store, undone = blocked(kind), list[dict[str, bytes]]()
        told: list[str] = []

        def give_up(now: StoreCall, call=call, store=store, undone=undone, told=told) -> None:
            if now.number == call.number and is_recorded(store):
                run_undo(store, JOB, on_event=lambda event: told.append(str(event)))
                undone.append(visible_files(store, "/table"))

        with suppress(RayCommitterError):
            run_commit(WrappedStore(store, before=give_up), JOB, ALLOWED)
        for left in undone:
            assert visible_files(store, "/table") == left, call
            gone = BLOCKING.keys() - left.keys()
            assert all(any(f"/table/{path}: was removed" in text for text in told) for path in gone)
            kept += not gone
    assert kept > 3


@kinds
@pytest.mark.parametrize("options", [ALLOWED, OVERWRITE], ids=["allowed", "replaced"])
def test_an_undo_puts_back_what_was_in_the_way_wherever_the_commit_has_stopped(kind: str, options):
    undone = 0
    for store in each_crash(lambda: blocked(kind), lambda one: run_commit(one, JOB, options)):
        if is_recorded(store):
            run_undo(store, JOB)
            assert visible_files(store, "/table") == {**BLOCKING, **KEPT}
            undone += 1
    assert undone > 10


@kinds
def test_an_undo_that_stops_anywhere_is_finished_with_what_was_in_the_way(kind: str):
    def recorded() -> MemoryStore:
        store = blocked(kind)
        with suppress(SimulatedCrash):
            run_commit(WrappedStore(store, before=at("rename", SimulatedCrash(), "p=2/c")), JOB, ALLOWED)
        return store

    for store in each_crash(recorded, lambda one: run_undo(one, JOB)):
        run_undo(store, JOB)
        assert visible_files(store, "/table") == {**BLOCKING, **KEPT}


@pytest.mark.parametrize("dies", [False, True])
def test_a_file_that_a_directory_has_replaced_is_kept_with_all_that_is_in_it(dies: bool):
    """Where a rename takes what is there now: it is looked at before it is deleted, also by the next run
    of one that died after the rename."""
    store = blocked()

    def replace(call: StoreCall) -> None:
        if call.operation == "set_aside" and call.paths[0] == "/table/p=1":
            store.delete_file("/table/p=1")
            put_file(store, "/table/p=1/row", b"of a foreign program")

    die = at("set_aside", SimulatedCrash()) if dies else lambda _: None
    with suppress(SimulatedCrash):
        run_commit(WrappedStore(store, before=replace, after=die), JOB, ALLOWED)
    if dies:
        run_commit(store, JOB)
    assert visible_files(store, "/table") == {**FILES, **KEPT, "p=1/row": b"of a foreign program"}


def test_a_job_of_a_directory_on_the_way_to_its_own_is_looked_at(monkeypatch):
    """Also if no manifest names that directory."""
    for kind in KINDS:
        store = KINDS[kind]()
        monkeypatch.setattr(commit_task, "scan_task_attempt_directory", without_inner_directories)
        write_job(store, JOB, {0: {"p=1/q=1/a": b"1"}})
        monkeypatch.undo()
        nested = new_job_attempt("/table/p=1", "nested", 0)
        write_job(store, nested, {0: {"q=1": b"a row", "r": b"another"}})
        with pytest.raises(SimulatedCrash):
            run_commit(WrappedStore(store, before=at("advance", SimulatedCrash(), "committed")), nested)
        with pytest.raises(CommitConflictError, match="this job must not do that at the same time"):
            run_commit(store, JOB, ALLOWED)
        run_commit(store, nested)
        assert visible_files(store, "/table/p=1") == {"q=1": b"a row", "r": b"another"}


def without_inner_directories(*arguments: Any) -> tuple[Any, list[Any]]:
    files, _ = scan_task_attempt_directory(*arguments)
    return files, []


def test_what_an_overwrite_replaces_elsewhere_stays_its_own(monkeypatch):
    monkeypatch.setattr(owners, "DEAD_SECONDS", -1.0)
    store = MemoryStore()
    elsewhere = new_job_attempt("/elsewhere", "other", 0)
    write_job(store, JOB, {0: {"a": b"1"}}, mode=ConflictMode.OVERWRITE)
    write_job(store, elsewhere, {0: {"b": b"2"}})
    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, before=at("advance", SimulatedCrash(), "committed")), elsewhere)
    options = CommitOptions(
        mode=ConflictMode.OVERWRITE,
        replaced_roots=("/table", "/elsewhere"),
        delete_blocking_files=True,
        conflict_wait_seconds=0,
        unfinished="refuse",
    )
    with pytest.raises(CommitConflictError, match="/elsewhere/_temporary/other/00: the commit"):
        run_commit(store, JOB, options)
    run_commit(store, elsewhere)
    assert visible_files(store, "/elsewhere") == {"b": b"2"}


def test_what_is_behind_a_link_is_not_deleted(tmp_path: Path):
    table, elsewhere = tmp_path / "table", tmp_path / "elsewhere"
    table.mkdir()
    elsewhere.mkdir()
    (elsewhere / "q=1").write_bytes(b"of another table")
    (table / "p=1").symlink_to(elsewhere)
    store = LocalStore(StoreSpec("file"))
    job = new_job_attempt(str(table), "job_1", 0)
    write_job(store, job, {0: {"p=1/q=1/a": b"1"}})
    with pytest.raises(CommitConflictError, match="p=1/q=1: is a file where the job needs a directory"):
        run_commit(store, job, ALLOWED)
    assert (elsewhere / "q=1").read_bytes() == b"of another table"


def test_a_store_that_removes_nothing_in_one_step_deletes_nothing():
    store = blocked()
    store.capabilities = replace(store.capabilities, sets_aside=False)
    with pytest.raises(CommitConflictError, match="/table/p=1: is a file where"):
        run_commit(store, JOB, ALLOWED)
    assert visible_files(store, "/table") == {**BLOCKING, **KEPT}


def test_who_makes_places_of_a_job_that_is_over_leaves_nothing():
    store = blocked()

    def abort(call: StoreCall) -> None:
        if call.operation == "mkdirs" and call.paths[0].startswith(f"{JOB.state}/"):
            run_abort(store, JOB)

    with pytest.raises(RayCommitterError):
        run_commit(WrappedStore(store, before=abort), JOB, ALLOWED)
    assert store.get_status("/table/_temporary") is None
    assert visible_files(store, "/table") == {**BLOCKING, **KEPT}
