"""Undo of a version beside imports, removals of orphans, and files that are not of the table."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ray_committer.errors import CommitConflictError, PathError
from ray_committer.limits.waiting import Waiting
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.table_entry import Isolation, TableDefinition
from ray_committer.stores.base import StoreOperations
from ray_committer.table_jobs.drop_partitions import drop_partitions, plan_drop
from ray_committer.table_jobs.resolve_claim import resolve_on
from ray_committer.table_jobs.scan_table import scan_on
from ray_committer.table_jobs.table_files import as_listed
from ray_committer.table_jobs.table_job import dead_table_jobs
from ray_committer.table_jobs.undo_version import plan_undo, undo_version
from ray_committer.tables.append import append
from ray_committer.tables.put import init_table
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore
from ray_committer.testing.harness import put_file
from tests.commits.test_table_commit import data_in, data_of_log
from tests.commits.test_table_jobs import UNDO, committed, context, copy
from tests.stages.support import KINDS, do_at
from tests.tables.support import TABLE, abort_of, claim_of, table_on

pytestmark = pytest.mark.usefixtures("no_pauses")

KEEPING = CommitOptions(
    mode=ConflictMode.OVERWRITE_PARTITIONS, conflict_wait_seconds=0.0, keep_replaced=True
)
DROP = new_job_attempt("/table", "drop-1", 0)


@pytest.fixture(params=["directories", "generations"])
def kind(request: pytest.FixtureRequest) -> Callable[[], MemoryStore]:
    return KINDS[request.param]


def undo(store: StoreOperations, version: int) -> None:
    undo_version(context(store, job=UNDO), plan_undo(store, TABLE, "id", version), copy=copy)


def test_an_import_by_a_scan_is_not_undone(kind):
    store = kind()
    table_on(store)
    put_file(store, "/table/day=1/strange", b"333")
    scan_on(store, "/table", import_foreign=True, waiting=Waiting(0.0))
    with pytest.raises(PathError, match="is the import of files that were there"):
        undo(store, 2)
    assert data_of_log(store) == data_in(store) == {"day=1/strange": 3}


def test_a_file_that_was_not_part_of_the_table_does_not_come_back(kind):
    store = kind()
    table_on(store)
    committed(store, "job_1", {"day=1/a": b"a"})
    put_file(store, "/table/day=1/strange", b"333")
    assert committed(store, "job_2", {"day=1/b": b"b"}, KEEPING) == 4
    undo(store, 4)
    assert data_of_log(store) == {"day=1/a": 1}
    assert store.read(TABLE.kept(3, "day=1/strange")) == b"333"


def test_a_removal_of_orphans_does_not_hinder_an_undo(kind):
    store = kind()
    table_on(store)
    assert committed(store, "job_1", {"day=1/a": b"a"}) == 2
    put_file(store, "/table/day=1/orphan", b"333")
    found = scan_on(store, "/table", waiting=Waiting(0.0))
    assert found.foreign == ("day=1/orphan",)
    status = store.get_status("/table/day=1/orphan")
    assert status is not None
    append(store, TABLE, claim_of("job_2", [as_listed("day=1/orphan", status)]), 2)
    append(store, TABLE, abort_of(3, "job_2"), 3)
    assert resolve_on(store, "/table", "job_2", waiting=Waiting(0.0)).removed == 1
    undo(store, 2)
    assert data_of_log(store) == data_in(store) == {}


@pytest.mark.parametrize("isolation", list(Isolation))
def test_a_dropped_partition_does_not_come_back_beside_rows_of_a_later_job(kind, isolation: Isolation):
    store = kind()
    definition = TableDefinition(
        table_id="id", isolation=isolation, keep_replaced=True, created_milliseconds=1
    )
    init_table(store, TABLE, definition)
    committed(store, "job_1", {"day=1/a": b"a"})
    drop_partitions(context(store, job=DROP), plan_drop(store, TABLE, "id", ["day=1"]))
    found = plan_undo(store, TABLE, "id", 4)
    committed(store, "job_2", {"day=1/b": b"b"})
    with pytest.raises(CommitConflictError):
        undo_version(context(store, job=UNDO), found, copy=copy)
    assert data_of_log(store) == data_in(store) == {"day=1/b": 1}


def test_a_job_that_waits_for_another_is_not_taken_for_dead(kind):
    store = kind()
    table_on(store)
    committed(store, "job_1", {"day=1/a": b"a"})
    append(store, TABLE, claim_of("other"), 2)
    seen = []

    def look() -> None:
        seen.append(list(dead_table_jobs(store, "/table")))

    wrapped = WrappedStore(store, after=do_at("advance", look, end="declared"))
    work = plan_drop(store, TABLE, "id", ["day=1"])
    with pytest.raises(CommitConflictError):
        drop_partitions(context(wrapped, job=DROP), work)
    assert seen == [[]]


def test_a_job_that_is_just_set_up_is_not_taken_for_dead(kind):
    store = kind()
    table_on(store)
    committed(store, "job_1", {"day=1/a": b"a"})
    seen = []

    def look() -> None:
        seen.append(list(dead_table_jobs(store, "/table")))

    def at_heartbeat(call: StoreCall) -> None:
        if not seen and any("heartbeat" in path for path in call.paths):
            look()

    wrapped = WrappedStore(store, before=at_heartbeat)
    drop_partitions(context(wrapped, job=DROP), plan_drop(store, TABLE, "id", ["day=1"]))
    assert seen == [[]]
