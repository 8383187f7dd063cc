"""The commit record: written beside the state, the decision by one change of it, read with distrust."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import ray_committer
from ray_committer.errors import CommitAbortedError, CommitRecordExistsError, CommitStateUnknownError
from ray_committer.job_files.commit_record import load_commit_record
from ray_committer.job_files.job_state import Seen, StateChangedError, advance
from ray_committer.options import CommitOptions
from ray_committer.protocol.record import CommitRecord, ReplacedFile, encode
from ray_committer.protocol.state import Phase
from ray_committer.stages.save_commit_record import (
    refuse_aborted,
    refuse_foreign_paths,
    save_commit_record,
    write_commit_record,
)
from ray_committer.stages.setup_job import setup_job
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore, run_commit
from tests.stages.support import (
    JOB,
    KINDS,
    SyncedStore,
    bring_to,
    context,
    do_at,
    pack_of,
    record_of,
    requests,
    seen_in,
    state_of,
    with_job,
)


def test_a_committer_that_another_overtakes_finishes_what_that_has_recorded(
    store, write_job, dest: Path, tree
):
    job = write_job({0: {"a": "x"}})

    def overtake() -> None:
        with ray_committer.task_attempt(str(dest), "job_1", 1) as attempt:
            Path(attempt.path("b")).write_text("y")
        ray_committer.record_job(str(dest), "job_1")

    overtaken = WrappedStore(store, before=do_at("read", overtake))
    with_both = run_commit(overtaken, job, CommitOptions(conflict_wait_seconds=0.2))
    assert with_both.files == 2
    assert tree() == {"a": "x", "b": "y"}


REF = pack_of(1, 1)
OWN, OTHER = record_of([REF], nonce="own"), record_of([REF], nonce="other")
Stores = Callable[[], MemoryStore]


kinds = pytest.mark.parametrize("kind", [MemoryStore, KINDS["flat"]], ids=["directories", "flat"])


def declared(kind: Stores = MemoryStore) -> MemoryStore:
    return with_job(store=kind(), phase=Phase.DECLARED)


def save(store, record: CommitRecord = OWN, *, seen: Seen | None = None) -> Seen:
    found = context(store)
    seen = seen or seen_in(store)
    write_commit_record(found, record)
    return save_commit_record(found, seen, record)


def load(store) -> CommitRecord:
    return load_commit_record(store, JOB, state_of(store))


@kinds
@pytest.mark.parametrize("packs", [0, 1, 500])
def test_the_record_that_was_saved_is_the_one_that_is_read(kind: Stores, packs: int):
    store, record = declared(kind), record_of([REF] * packs)
    assert save(store, record) == seen_in(store)
    assert (state_of(store).phase, state_of(store).record) == (Phase.RECORDED, record.nonce)
    assert load(store) == record


@pytest.mark.parametrize("packs", [0, 1, 500])
def test_a_record_is_saved_by_one_write_and_one_change_of_the_state(packs: int):
    store, record = declared(), record_of([REF] * packs)
    seen = seen_in(store)
    assert requests(store, lambda one: save(one, record, seen=seen)) == Counter(write=1, advance=1)
    assert requests(store, lambda one: load_commit_record(one, JOB, state_of(store))) == Counter(read=1)


def test_a_durable_record_is_on_the_disk_before_it_decides_and_so_is_the_decision_after_it():
    store, calls = SyncedStore(), list[StoreCall]()
    setup_job(store, JOB)
    bring_to(store, Phase.DECLARED)
    seen = seen_in(store)
    found = context(WrappedStore(store, before=calls.append), CommitOptions(durable=True))
    write_commit_record(found, OWN)
    path = JOB.content("own")
    assert [(call.operation, call.paths[0]) for call in calls] == [
        ("write", path),
        ("sync", path),
        ("sync", JOB.state),
    ]
    calls.clear()
    save_commit_record(found, seen, OWN)
    assert calls[0].operation == "advance"
    assert {call.paths[0] for call in calls[1:]} >= {JOB.state, JOB.directory}


@kinds
def test_a_record_that_another_committer_has_saved_first_stands(kind: Stores):
    store = declared(kind)
    seen = seen_in(store)
    save(store, OTHER)
    with pytest.raises(StateChangedError) as caught:
        save(store, OWN, seen=seen)
    assert caught.value.now == seen_in(store)
    assert load(store) == OTHER


@kinds
@pytest.mark.parametrize("phase", [Phase.OPEN, Phase.ABORTED])
def test_a_record_decides_nothing_once_its_declaration_is_withdrawn_or_the_job_aborted(
    kind: Stores, phase: Phase
):
    store = declared(kind)
    seen = seen_in(store)
    advance(store, JOB, seen, phase)
    with pytest.raises(StateChangedError) as caught:
        save(store, seen=seen)
    assert caught.value.now is not None
    assert caught.value.now.phase is state_of(store).phase is phase


def test_a_job_that_is_gone_is_told_apart_from_one_that_was_changed():
    store = declared()
    seen = seen_in(store)
    write_commit_record(context(store), OWN)
    store.delete_directory(JOB.directory)
    with pytest.raises(StateChangedError) as caught:
        save_commit_record(context(store), seen, OWN)
    assert caught.value.now is None


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", pytest.param(encode(OWN)[:-1], id="torn"), b'{"version": 1}']
)
def test_what_is_not_a_record_is_refused_by_its_path(data: bytes):
    store = declared()
    save(store)
    store.write(JOB.content("own"), data)
    with pytest.raises(CommitStateUnknownError, match=r"state/own\.json: is not a commit record"):
        load(store)


@pytest.mark.parametrize("fields", [{"job_id": "job_2"}, {"job_attempt": 1}, {"nonce": "other"}])
def test_a_record_of_another_job_is_not_believed(fields: dict[str, Any]):
    store = declared()
    save(store)
    store.write(JOB.content("own"), encode(msgspec.structs.replace(OWN, **fields)))
    with pytest.raises(CommitStateUnknownError, match=r"state/own\.json: is the record of") as caught:
        load(store)
    assert caught.value.exit_code == 3


def refuse(record: CommitRecord, *allowed: str) -> None:
    refuse_foreign_paths(context(MemoryStore()), record, allowed)


def naming(path: str, field: str) -> CommitRecord:
    old = [ReplacedFile("/table/p=1/old", 1), ReplacedFile(path, 1)]
    values = {"allowed_roots": [path], "emptied": [path], "success": old[1]}
    return record_of(**{field: values.get(field, old)})


fields = pytest.mark.parametrize(
    "field", ["replaced", "overwritten", "emptied", "success", "allowed_roots"]
)


@fields
@pytest.mark.parametrize("path", ["/table/p=1/a", "/table/a"])
def test_what_a_record_names_below_the_destination_is_the_jobs(path: str, field: str):
    refuse(naming(path, field))


@fields
@pytest.mark.parametrize("path", ["/etc/a", "/tables/a", "/a", "/elsewhere/p=1/a"])
def test_what_a_record_names_elsewhere_is_refused_with_the_command_that_allows_it(path: str, field: str):
    with pytest.raises(
        CommitStateUnknownError, match=r"ray-committer commit memory://test/table"
    ) as caught:
        refuse(naming(path, field))
    assert "not below the destination" in str(caught.value)
    refuse(naming(path, field), path.rpartition("/")[0] or path, path)


@fields
@pytest.mark.parametrize(
    "path",
    [
        "table/a",
        "/table/../etc/a",
        "/table/./a",
        "/table//a",
        "/table/a/..",
        "/table/_temporary",
        "/table/_temporary/job_2/00/tasks/a",
        "",
    ],
)
def test_what_no_job_may_change_is_refused_whatever_is_allowed(path: str, field: str):
    with pytest.raises(CommitStateUnknownError, match="which no job can change"):
        refuse(naming(path, field), "/")


@pytest.mark.parametrize("phase", list(Phase))
def test_only_a_job_that_is_given_up_is_refused(phase: Phase):
    found = context(MemoryStore())
    if phase in (Phase.UNDOING, Phase.ABORTED):
        error = CommitAbortedError if phase is Phase.ABORTED else CommitRecordExistsError
        with pytest.raises(error, match="ray-committer abort memory://test/table") as caught:
            refuse_aborted(found, phase)
        assert ("--undo" in str(caught.value)) is (phase is Phase.UNDOING)
    else:
        refuse_aborted(found, phase)
