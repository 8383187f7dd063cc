"""The commit record and the commit point: one rename each, and whoever came first stands."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import (
    CommitAbortedError,
    CommitStateUnknownError,
    CommitterBusyError,
    ManifestError,
    RayCommitterError,
)
from ray_committer.options import CommitOptions
from ray_committer.protocol.iostatistics import IOStatistics
from ray_committer.protocol.record import CommitRecord, ManifestRef, decode_record, encode_record
from ray_committer.protocol.success import encode_success, new_success_data
from ray_committer.stages.save_commit_record import (
    load_commit_record,
    refuse_aborted,
    save_commit_point,
    save_commit_record,
)
from ray_committer.stages.setup_job import setup_job
from ray_committer.testing import (
    Fault,
    FaultKind,
    FaultSchedule,
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    run_commit,
)
from tests.stages.support import (
    JOB,
    NOW,
    WHEN,
    SyncedStore,
    at,
    before_the_write,
    context,
    each_crash,
    record_of,
    requests,
)


def test_a_record_of_a_later_version_is_not_touched(write_job, dest: Path, tree):
    job = write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest))
    record = json.loads(Path(job.commit_record).read_bytes())
    Path(job.commit_record).write_text(json.dumps({**record, "version": 2}))
    with pytest.raises(RayCommitterError, match="version 2"):
        ray_committer.commit_job(str(dest))
    assert tree() == {}


def test_a_committer_that_another_overtakes_with_other_manifests_stops(write_job, dest: Path, tree):
    job = write_job({0: {"a": "x"}})

    def overtake() -> None:
        with ray_committer.task_attempt(str(dest), "job_1", 1) as attempt:
            Path(attempt.path("b")).write_text("y")
        ray_committer.record_job(str(dest), "job_1")

    with pytest.raises(CommitterBusyError):
        run_commit(before_the_write(overtake), job)
    assert tree() == {}
    ray_committer.commit_job(str(dest))
    assert tree() == {"a": "x", "b": "y"}


REF = ManifestRef("task-manifest.json", 1, "00", 1, 1)
OWN, OTHER = record_of((REF,), nonce="own"), record_of((REF,), nonce="other")


def with_job() -> MemoryStore:
    store = MemoryStore()
    setup_job(store, JOB)
    return store


def recorded(record: CommitRecord = OWN) -> MemoryStore:
    store = with_job()
    save(store, record)
    return store


def save(store, record: CommitRecord = OWN) -> CommitRecord:
    return save_commit_record(context(store), record)


def declare(store) -> None:
    save_commit_point(context(store), OWN)


def standing(store: MemoryStore) -> CommitRecord:
    return decode_record(store.read(JOB.commit_record), JOB.commit_record)


@pytest.mark.parametrize("manifests", [0, 1, 500])
def test_the_record_that_was_saved_is_the_one_that_is_read(manifests: int):
    store, record = with_job(), record_of((REF,) * manifests)
    assert save(store, record) == record
    assert load_commit_record(context(store), committed=False) == record
    assert list(store.files()) == [JOB.commit_record]


@pytest.mark.parametrize("manifests", [0, 1, 500])
def test_a_record_is_saved_by_one_write_and_one_rename(manifests: int):
    record = record_of((REF,) * manifests)
    assert requests(with_job(), lambda one: save(one, record)) == Counter(write=1, rename=1)


def test_the_commit_point_is_one_rename_of_the_record():
    store = recorded()
    assert requests(store, declare) == Counter(rename=1)
    assert load_commit_record(context(store), committed=True) == OWN
    assert list(store.files()) == [JOB.commit_point]


def test_a_durable_record_is_on_the_disk_before_it_has_its_name():
    store, calls = SyncedStore(), list[StoreCall]()
    setup_job(store, JOB)
    watched = WrappedStore(store, before=calls.append)
    save_commit_record(context(watched, CommitOptions(durable=True)), OWN)
    assert [call.operation for call in calls] == ["write", "sync", "rename"]
    assert store.synced == [f"{JOB.commit_record}.own.tmp"]


def test_another_committers_record_of_the_same_manifests_stands():
    store = recorded(OTHER)
    assert save(store) == OTHER
    assert list(store.files()) == [JOB.commit_record]


def test_another_committers_record_of_other_manifests_stops_this_one():
    store = recorded(record_of((), nonce="other"))
    with pytest.raises(CommitterBusyError, match="wait for it, then run the same command"):
        save(store)
    assert standing(store).nonce == "other"
    assert list(store.files()) == [JOB.commit_record]


def test_a_decision_to_abort_stops_a_commit_and_names_the_command():
    store = recorded(record_of(nonce="other", aborted=True))
    with pytest.raises(CommitAbortedError, match="ray-committer abort memory://test/table"):
        save(store)
    assert standing(store).aborted


def test_a_decision_to_abort_that_comes_second_is_given_the_record():
    store = recorded(OTHER)
    assert save(store, record_of(nonce="abort", aborted=True)) == OTHER


def test_only_a_decision_to_abort_is_refused():
    refuse_aborted(context(MemoryStore()), OWN)
    with pytest.raises(CommitAbortedError):
        refuse_aborted(context(MemoryStore()), record_of(aborted=True))


@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_a_record_that_cannot_be_put_in_place_moves_nothing(error: type[OSError]):
    store = with_job()
    with pytest.raises(CommitStateUnknownError, match=r"nothing was moved, run the same command again"):
        save(WrappedStore(store, before=at("rename", error("simulated"))))
    assert store.get_status(JOB.commit_record) is None
    assert save(store) == OWN


@pytest.mark.parametrize("error", [TimeoutError, PermissionError, FileExistsError, FileNotFoundError])
def test_a_record_whose_answer_is_lost_is_known_by_its_nonce(error: type[OSError]):
    store = with_job()
    assert save(WrappedStore(store, after=at("rename", error("simulated")))) == OWN
    assert list(store.files()) == [JOB.commit_record]


@pytest.mark.parametrize("when", WHEN)
def test_a_record_that_cannot_be_written_is_an_error_of_the_store(when: str):
    store = with_job()
    with pytest.raises(PermissionError):
        save(WrappedStore(store, **{when: at("write", PermissionError("denied"))}))
    assert store.get_status(JOB.commit_record) is None


def test_a_standing_record_that_cannot_be_read_is_an_error_and_stays():
    store = recorded(OTHER)
    with pytest.raises(PermissionError):
        save(WrappedStore(store, before=at("read", PermissionError("denied"))))
    assert standing(store) == OTHER


def test_after_a_crash_anywhere_one_record_stands():
    for store in each_crash(with_job, save):
        before = store.files().get(JOB.commit_record)
        found = save(store, OTHER)
        assert found == (OTHER if before is None else OWN)
        assert standing(store) == found


def test_a_torn_write_is_not_a_record():
    store = with_job()
    faulty = FaultSchedule(0, 1, (Fault(FaultKind.CRASH_WITHIN, 1),)).wrap(store)
    with pytest.raises(SimulatedCrash):
        save(faulty)
    assert store.get_status(JOB.commit_record) is None
    assert save(store) == OWN


@pytest.mark.parametrize("data", [b"", b"{", b"[]", encode_record(OWN)[:-1], b'{"version": 1}'])
def test_what_is_not_a_record_is_refused_by_its_path(data: bytes):
    store = with_job()
    store.write(JOB.commit_record, data)
    with pytest.raises(ManifestError, match=r"_COMMIT\.json: is no commit record"):
        load_commit_record(context(store), committed=False)


def test_the_commit_point_can_be_declared_again():
    store = recorded()
    declare(store)
    declare(store)
    assert list(store.files()) == [JOB.commit_point]


@pytest.mark.parametrize("error", [TimeoutError, PermissionError, FileNotFoundError])
def test_a_commit_point_whose_answer_is_lost_is_seen(error: type[OSError]):
    store = recorded()
    declare(WrappedStore(store, after=at("rename", error("simulated"))))
    assert list(store.files()) == [JOB.commit_point]


@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_a_commit_point_that_cannot_be_declared_is_an_error_with_all_files_in_place(
    error: type[OSError],
):
    store = recorded()
    with pytest.raises(CommitStateUnknownError, match=r"all files are in place, run the same command"):
        declare(WrappedStore(store, before=at("rename", error("simulated"))))
    assert list(store.files()) == [JOB.commit_record]
    declare(store)


def success(store: MemoryStore, job_id: str) -> None:
    data = new_success_data(
        job_id=job_id,
        now_milliseconds=NOW,
        hostname="host",
        success=True,
        stage="stage",
        filenames=[],
        diagnostics={},
        iostatistics=IOStatistics(),
    )
    store.write(JOB.success, encode_success(data))


def nothing(store: MemoryStore) -> None:
    """No ``_SUCCESS``."""


@pytest.mark.parametrize(
    ("left", "is_committed"),
    [
        (lambda store: success(store, "job_1"), True),
        (lambda store: success(store, "job_2"), False),
        (nothing, False),
    ],
)
def test_a_job_that_another_committer_has_cleaned_up_is_known_by_its_marker(
    left: Callable[[MemoryStore], None], is_committed: bool
):
    store = recorded()
    store.delete_directory(JOB.temporary)
    left(store)
    if is_committed:
        declare(store)
    else:
        with pytest.raises(CommitStateUnknownError):
            declare(store)


def test_after_a_crash_anywhere_the_commit_point_is_declared_again():
    for store in each_crash(recorded, declare):
        declare(store)
        assert list(store.files()) == [JOB.commit_point]
