"""Modes for the partitions that a job writes to: only these are replaced, or have to be empty.

The partitions are found before the job is declared. From the record on, it decides, whatever has come
to the partitions since.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest

from ray_committer.errors import CommitConflictError, PreflightError
from ray_committer.options import CommitOptions
from ray_committer.protocol.commit_result import CommitResult, Outcome
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.record import Claim, ConflictMode
from ray_committer.protocol.state import Phase
from ray_committer.stages.old_data.mode_roots import MOST_WRITES
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    run_abort,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import all_files, put_file
from tests.doubles import phase_of, recorded
from tests.stages.support import JOB, KINDS, OTHER_JOB, at, calls_of, each_crash

REPLACE = CommitOptions(mode=ConflictMode.OVERWRITE_PARTITIONS, conflict_wait_seconds=0.0)
FAIL = replace(REPLACE, mode=ConflictMode.ERROR_PARTITIONS)
TASKS = {0: {"p=1/a": b"1", "p=2/q=1/b": b"22"}, 1: {"p=1/same": b"333"}, 2: {}}
NEW = {name: data for files in TASKS.values() for name, data in files.items()}
KEPT = {"p=3/old": b"kept", "p=2/q=2/old": b"kept", "p=10/old": b"kept", "top": b"kept"}
OLD = {**KEPT, "p=1/old": b"old", "p=1/same": b"old", "p=2/q=1/r=1/old": b"old"}


@dataclass(frozen=True)
class Kind:
    """How a job is committed, and what is there before."""

    options: CommitOptions
    old: Mapping[str, bytes]


MODES = {"replace": Kind(REPLACE, OLD), "fail": Kind(FAIL, KEPT)}
kinds = pytest.mark.parametrize("kind", MODES.values(), ids=MODES)
stores = pytest.mark.parametrize("new_store", KINDS.values(), ids=KINDS)


def prepared(
    store: MemoryStore,
    kind: Kind,
    tasks: Mapping[int, Mapping[str, bytes]] = TASKS,
    job: JobAttempt = JOB,
) -> MemoryStore:
    for name, data in kind.old.items():
        put_file(store, f"/table/{name}", data)
    write_job(store, job, tasks, mode=kind.options.mode)
    return store


def seen(store: MemoryStore) -> dict[str, bytes]:
    return visible_files(store, "/table")


@stores
@kinds
def test_the_other_partitions_stay(kind: Kind, new_store: Callable[[], MemoryStore]):
    store = prepared(new_store(), kind)
    assert run_commit(store, JOB, kind.options).outcome is Outcome.COMMITTED
    assert seen(store) == {**KEPT, **NEW}
    assert all_files(store, JOB.temporary) == {}


@stores
@pytest.mark.parametrize("name", ["p=1/old", "p=1/same", "p=2/q=1/r=1/old"])
def test_data_in_a_partition_of_the_job_refuses_it(name: str, new_store: Callable[[], MemoryStore]):
    old = {**KEPT, name: b"old"}
    store = prepared(new_store(), Kind(FAIL, old))
    partition = "/table/p=1" if name.startswith("p=1") else "/table/p=2/q=1"
    with pytest.raises(CommitConflictError) as caught:
        run_commit(store, JOB, FAIL)
    first = f"/table/{name}".removeprefix(f"{partition}/").split("/")[0]
    said = f"{partition}: holds data already ({first}); this job has changed nothing"
    assert str(caught.value).endswith(said)
    assert phase_of(store, JOB) is Phase.OPEN
    assert seen(store) == old
    run_abort(store, JOB)
    assert seen(store) == old


def test_all_partitions_with_data_are_named_at_once():
    store = prepared(MemoryStore(), Kind(FAIL, OLD))
    with pytest.raises(
        CommitConflictError, match=r"p=1: holds data.* \| memory://test/table/p=2/q=1: holds data"
    ):
        run_commit(store, JOB, FAIL)


@pytest.mark.parametrize("name", ["p=1/_hidden", "p=1/.hidden"])
def test_names_that_readers_skip_are_no_data(name: str):
    store = prepared(MemoryStore(), Kind(FAIL, {name: b""}))
    run_commit(store, JOB, FAIL)
    assert seen(store) == {**NEW, name: b""}


@kinds
def test_a_file_in_the_place_of_a_partition_is_refused_before_the_record(kind: Kind):
    old = {"p=1": b"file", **KEPT}
    store = prepared(MemoryStore(), replace(kind, old=old))
    with pytest.raises(CommitConflictError, match="/table/p=1: is a file where the job needs a dir"):
        run_commit(store, JOB, kind.options)
    assert phase_of(store, JOB) is Phase.OPEN
    assert seen(store) == old


@kinds
def test_a_file_in_no_partition_is_refused_and_changes_nothing(kind: Kind):
    store = prepared(MemoryStore(), kind, {0: {"p=1/a": b"1", "new": b"2"}})
    with pytest.raises(PreflightError, match="/table/new: is in no partition"):
        run_commit(store, JOB, kind.options)
    assert phase_of(store, JOB) is Phase.OPEN
    assert seen(store) == kind.old


@stores
@kinds
def test_a_job_without_files_changes_nothing(kind: Kind, new_store: Callable[[], MemoryStore]):
    store = prepared(new_store(), kind, {0: {}})
    assert run_commit(store, JOB, kind.options).outcome is Outcome.COMMITTED
    assert seen(store) == kind.old


def commit(kind: Kind) -> Callable[[StoreOperations], CommitResult]:
    return lambda store: run_commit(store, JOB, kind.options)


@pytest.mark.slow
@pytest.mark.alternate
@stores
@kinds
def test_a_commit_crashed_at_any_store_call_is_finished_by_running_it_again(
    kind: Kind, new_store: Callable[[], MemoryStore]
):
    """Its own files are no data that refuses it. The mode need not be given again after the record."""
    start = prepared(new_store(), kind)
    for store in each_crash(start.copy, commit(kind)):
        is_open = phase_of(store, JOB) in (Phase.OPEN, Phase.DECLARED)
        run_commit(store, JOB, kind.options if is_open else CommitOptions())
        assert seen(store) == {**KEPT, **NEW}
        assert all_files(store, JOB.temporary) == {}


@pytest.mark.slow
@stores
@kinds
def test_what_comes_to_a_partition_after_the_record_stays(
    kind: Kind, new_store: Callable[[], MemoryStore]
):
    start, late = prepared(new_store(), kind), {"p=1/late": b"late"}
    found = set()
    for store in each_crash(start.copy, commit(kind)):
        phase = phase_of(store, JOB)
        found.add(phase)
        if phase in (Phase.RECORDED, Phase.SEALED):
            put_file(store, "/table/p=1/late", b"late")
            run_commit(store, JOB, kind.options)
            assert seen(store) == {**KEPT, **NEW, **late}
    assert Phase.RECORDED in found


@kinds
def test_the_record_names_the_partitions_and_only_their_old_files(kind: Kind):
    start = prepared(MemoryStore(), kind)
    stores = each_crash(start.copy, commit(kind))
    record = recorded(next(one for one in stores if phase_of(one, JOB) is Phase.RECORDED), JOB)
    partitions = ["/table/p=1", "/table/p=2/q=1"]
    assert (record.mode, record.claim) == (kind.options.mode, Claim(partitions, partitions))
    old = {file.path.removeprefix("/table/") for file in (*record.replaced, *record.overwritten)}
    assert old == kind.old.keys() - KEPT.keys()


# Two jobs


@pytest.mark.slow
@pytest.mark.alternate
@pytest.mark.parametrize("first", MODES.values(), ids=MODES)
@pytest.mark.parametrize("second", MODES.values(), ids=MODES)
@stores
def test_jobs_of_different_partitions_are_committed_between_two_requests_of_each_other(
    first: Kind, second: Kind, new_store: Callable[[], MemoryStore]
):
    mine, theirs = {"p=1/a": b"1", "p=2/q=1/b": b"2"}, {"p=10/a": b"3", "p=2/q=2/b": b"4"}
    old = {name: b"old" for name in KEPT if second.options.mode.replaces or name[0] == "t"}
    start = prepared(new_store(), Kind(first.options, old), {0: mine})
    write_job(start, OTHER_JOB, {0: theirs}, mode=second.options.mode)
    kept = dict.fromkeys(old.keys() & {"p=3/old", "top"}, b"old")
    for number in range(1, len(calls_of(start.copy(), commit(first))) + 1):
        store = start.copy()

        def overtake(call: StoreCall, number=number, store=store) -> None:
            if call.number == number:
                run_commit(store, OTHER_JOB, second.options)

        run_commit(WrappedStore(store, before=overtake), JOB, first.options)
        assert seen(store) == {**kept, **mine, **theirs}


@kinds
def test_jobs_of_many_different_partitions_are_not_in_each_others_way(kind: Kind):
    def files(hour: int) -> dict[str, bytes]:
        return {f"day={day}/hour={hour}/a": b"new" for day in range(MOST_WRITES + 1)}

    store = prepared(MemoryStore(), Kind(kind.options, KEPT), {0: files(1)})
    write_job(store, OTHER_JOB, {0: files(2)}, mode=kind.options.mode)
    renames = itertools.count()

    def overtake(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[-1].endswith("hour=1/a") and not next(renames):
            run_commit(store, OTHER_JOB, kind.options)

    run_commit(WrappedStore(store, before=overtake), JOB, kind.options)
    assert seen(store) == {**KEPT, **files(1), **files(2)}


@kinds
def test_a_job_of_a_partition_as_its_own_table_waits_for_the_table(kind: Kind):
    store = prepared(MemoryStore(), Kind(kind.options, KEPT), {0: {"p=1/a": b"1", "p=1/b": b"2"}})
    below = new_job_attempt("/table/p=1", "job_2", 0)
    write_job(store, below, {0: {"c": b"3"}})

    def overtake(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[-1] == "/table/p=1/b":
            with pytest.raises(CommitConflictError, match="job_1"):
                run_commit(store, below, CommitOptions(conflict_wait_seconds=0.0))

    run_commit(WrappedStore(store, before=overtake), JOB, kind.options)
    run_commit(store, below)
    assert seen(store).keys() - KEPT.keys() == {"p=1/a", "p=1/b", "p=1/c", "p=1/_SUCCESS"}


@kinds
def test_a_job_of_many_partitions_replaces_or_forbids_only_these(kind: Kind):
    many = {f"d={number}/a": b"new" for number in range(MOST_WRITES + 1)}
    old = {**KEPT, **{f"d={number}/old": b"old" for number in range(MOST_WRITES + 2)}}
    is_replaced = kind.options.mode.replaces
    store = prepared(MemoryStore(), Kind(kind.options, old if is_replaced else KEPT), {0: many})
    run_commit(store, JOB, kind.options)
    left = {f"d={MOST_WRITES + 1}/old": b"old"} if is_replaced else {}
    assert seen(store) == {**KEPT, **many, **left}


# Beside a job whose commit died


def with_a_dead_append(kind: Kind, files: Mapping[str, bytes]) -> MemoryStore:
    store = prepared(MemoryStore(), Kind(kind.options, KEPT), {0: {"p=1/a": b"1"}})
    write_job(store, OTHER_JOB, {0: files})

    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, after=at("rename", SimulatedCrash())), OTHER_JOB)
    return store


def test_a_dead_job_is_superseded_if_all_its_partitions_are_replaced():
    store = with_a_dead_append(MODES["replace"], {"p=1/x": b"x", "p=1/y": b"y"})
    run_commit(store, JOB, REPLACE)
    assert seen(store) == {**KEPT, "p=1/a": b"1"}
    assert phase_of(store, OTHER_JOB) is None


@pytest.mark.parametrize(
    ("kind", "files"),
    [
        (MODES["replace"], {"p=1/x": b"x", "p=4/y": b"y"}),
        (MODES["fail"], {"p=1/x": b"x"}),
    ],
)
def test_a_dead_job_is_kept_if_it_also_writes_elsewhere_or_nothing_is_replaced(
    kind: Kind, files: Mapping[str, bytes]
):
    store = with_a_dead_append(kind, files)
    with pytest.raises(CommitConflictError, match="job_2"):
        run_commit(store, JOB, kind.options)
    assert phase_of(store, OTHER_JOB) is Phase.RECORDED
    assert seen(store) == {**KEPT, "p=1/x": b"x"}
