"""The commit record: written beside the state, the decision by one change of it, read with distrust."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import ray_committer
from ray_committer.errors import (
    CommitAbortedError,
    CommitRecordExistsError,
    CommitStateUnknownError,
    RayCommitterError,
    StoreUnavailableError,
)
from ray_committer.job_files.commit_record import load_commit_record
from ray_committer.job_files.job_state import Seen, StateChangedError, advance, read_state
from ray_committer.options import CommitOptions
from ray_committer.protocol.record import CommitRecord, ManifestRef, ReplacedFile, encode
from ray_committer.protocol.state import Phase
from ray_committer.stages.save_commit_record import (
    refuse_aborted,
    refuse_foreign_paths,
    save_commit_record,
    write_commit_record,
)
from ray_committer.stages.setup_job import setup_job
from ray_committer.testing import MemoryStore, SimulatedCrash, StoreCall, WrappedStore, run_commit
from tests.machines.fault_schedule import Fault, FaultKind, FaultSchedule
from tests.stages.support import (
    JOB,
    WHEN,
    SyncedStore,
    at,
    bring_to,
    context,
    do_at,
    each_crash,
    record_of,
    requests,
    state_of,
)


def record_path(store, job) -> Path:
    return Path(job.content(state_of(store, job).record or ""))


def test_a_record_of_a_later_version_is_not_touched(store, write_job, dest: Path, tree):
    job = write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest))
    path = record_path(store, job)
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "version": 2}))
    with pytest.raises(RayCommitterError, match="version 2"):
        ray_committer.commit_job(str(dest))
    assert tree() == {}


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


REF = ManifestRef("task-manifest.json", 1, "00", 1, 1)
OWN, OTHER = record_of((REF,), nonce="own"), record_of((REF,), nonce="other")
Stores = Callable[[], MemoryStore]


def flat() -> MemoryStore:
    return MemoryStore(real_directories=False)


kinds = pytest.mark.parametrize("kind", [MemoryStore, flat])


def declared(kind: Stores = MemoryStore) -> MemoryStore:
    store = kind()
    setup_job(store, JOB)
    bring_to(store, Phase.DECLARED)
    return store


def seen_in(store) -> Seen:
    seen = read_state(store, JOB)
    assert seen is not None
    return seen


def save(store, record: CommitRecord = OWN, *, seen: Seen | None = None) -> Seen:
    found = context(store)
    seen = seen or seen_in(store)
    write_commit_record(found, record)
    return save_commit_record(found, seen, record)


def load(store) -> CommitRecord:
    return load_commit_record(store, JOB, state_of(store))


@kinds
@pytest.mark.parametrize("manifests", [0, 1, 500])
def test_the_record_that_was_saved_is_the_one_that_is_read(kind: Stores, manifests: int):
    store, record = declared(kind), record_of((REF,) * manifests)
    assert save(store, record) == seen_in(store)
    assert (state_of(store).phase, state_of(store).record) == (Phase.RECORDED, record.nonce)
    assert load(store) == record


@pytest.mark.parametrize("manifests", [0, 1, 500])
def test_a_record_is_saved_by_one_write_and_one_change_of_the_state(manifests: int):
    store, record = declared(), record_of((REF,) * manifests)
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


@kinds
def test_a_declaration_that_was_made_anew_is_not_the_one_that_was_looked_around_with(kind: Stores):
    store = declared(kind)
    seen = seen_in(store)
    advance(store, JOB, seen, Phase.OPEN)
    bring_to(store, Phase.DECLARED)
    with pytest.raises(StateChangedError):
        save(store, seen=seen)
    assert state_of(store).phase is Phase.DECLARED


def test_a_job_that_is_gone_is_told_apart_from_one_that_was_changed():
    store = declared()
    seen = seen_in(store)
    write_commit_record(context(store), OWN)
    store.delete_directory(JOB.directory)
    with pytest.raises(StateChangedError) as caught:
        save_commit_record(context(store), seen, OWN)
    assert caught.value.now is None


@kinds
@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_a_record_that_cannot_be_put_in_place_moves_nothing(kind: Stores, error: type[OSError]):
    store = declared(kind)
    with pytest.raises(error):
        save(WrappedStore(store, before=at("advance", error("simulated"))))
    assert state_of(store).phase is Phase.DECLARED
    save(store)
    assert load(store) == OWN


@kinds
@pytest.mark.parametrize(
    "error",
    [TimeoutError, PermissionError, FileExistsError, FileNotFoundError, StoreUnavailableError],
)
def test_a_record_whose_answer_is_lost_is_known_by_its_nonce(kind: Stores, error: Any):
    store = declared(kind)
    lost = error("simulated", "lost") if error is StoreUnavailableError else error("simulated")
    saved = save(WrappedStore(store, after=at("advance", lost)))
    assert saved.state == state_of(store)
    assert load(store) == OWN


@pytest.mark.parametrize("when", WHEN)
def test_a_record_that_cannot_be_written_is_an_error_of_the_store(when: str):
    store = declared()
    with pytest.raises(PermissionError):
        save(WrappedStore(store, **{when: at("write", PermissionError("denied"))}))
    assert state_of(store).phase is Phase.DECLARED


def test_a_standing_record_that_cannot_be_read_is_an_error_and_stays():
    store = declared()
    save(store, OTHER)
    with pytest.raises(PermissionError):
        load(WrappedStore(store, before=at("read", PermissionError("denied"))))
    assert load(store) == OTHER


@kinds
def test_after_a_crash_anywhere_one_record_stands(kind: Stores):
    for store in each_crash(lambda: declared(kind), save):
        if state_of(store).phase is Phase.DECLARED:
            save(store, OTHER)
            assert load(store) == OTHER
        else:
            assert load(store) == OWN


def test_a_torn_write_is_not_a_record():
    store = declared()
    seen = seen_in(store)
    faulty = FaultSchedule(0, 1, (Fault(FaultKind.CRASH_WITHIN, 1),)).wrap(store)
    with pytest.raises(SimulatedCrash):
        save(faulty, seen=seen)
    assert state_of(store).phase is Phase.DECLARED
    save(store)
    assert load(store) == OWN


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", pytest.param(encode(OWN)[:-1], id="torn"), b'{"version": 1}'],
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


def test_a_planted_record_deletes_nothing(store, write_job, dest: Path, tmp_path: Path, tree):
    precious = tmp_path / "precious"
    precious.write_text("x")
    job = write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest))
    path = record_path(store, job)
    old = {"path": str(precious), "size": 1}
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "replaced": [old]}))
    with pytest.raises(CommitStateUnknownError, match="nothing was done"):
        ray_committer.commit_job(str(dest))
    assert precious.exists()
    assert tree() == {}


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
