"""Several claims of one job id in the log: of one attempt, of two attempts, and of an earlier job."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.table_entry import TableDefinition
from ray_committer.tables.log import find_head, read_entry
from ray_committer.tables.put import init_table
from ray_committer.testing import MemoryStore, WrappedStore, run_abort, run_commit
from tests.commits.tables import AT_ONCE, OLD, OVERWRITE, data_in, data_of_log, in_flight, sizes
from tests.stages.support import JOB, KINDS, OTHER_JOB, do_at
from tests.table_jobs.tables_in_use import (
    NEW,
    OVERWRITE_PARTITIONS,
    Died,
    committed,
    die,
    kinds_of,
    resolve,
    stopped,
    table_with_old_files,
    write,
)
from tests.tables.support import TABLE

pytestmark = pytest.mark.usefixtures("no_pauses")

Kind = Callable[[], MemoryStore]


def two_claims(store: MemoryStore) -> MemoryStore:
    """A table with two claims of one attempt, 3 and 4: two runs with different options have died after
    their claims."""
    table_with_old_files(store)
    write(store, NEW, JOB, OVERWRITE)
    for options, entry in ((OVERWRITE, "003.entry"), (OVERWRITE_PARTITIONS, "004.entry")):
        with pytest.raises(Died):
            run_commit(WrappedStore(store, after=do_at("rename", die, end=entry)), JOB, options)
    assert kinds_of(store) == ["claim", "claim"]
    return store


def test_all_claims_of_an_attempt_that_has_moved_its_files_are_given_up(kind: Kind):
    store = two_claims(kind())
    with pytest.raises(Died):
        run_commit(WrappedStore(store, before=do_at("advance", die, end="sealed")), JOB, OVERWRITE)
    store.delete_directory("/table/_temporary")
    assert resolve(store).removed == 2
    assert in_flight(store) == []
    assert data_of_log(store) == data_in(store) == sizes(OLD)


def test_an_attempt_is_given_up_beside_another_that_is_committed(kind: Kind):
    store = stopped(kind())
    again = new_job_attempt("/table", JOB.job_id, 1)
    committed(store, {"day=1/again": b"333", "day=3/again": b"4444"}, again)
    resolve(store, job_attempt=0)
    assert data_of_log(store) == sizes(OLD, {"day=1/again": b"333", "day=3/again": b"4444"})


def test_the_end_of_an_earlier_claim_does_not_abort_a_job_of_the_same_id(kind: Kind):
    store = stopped(kind())
    write(store, {"day=7/new": b"7"}, JOB, AT_ONCE)
    resolve(store)
    assert run_commit(store, JOB, AT_ONCE).table_version is not None
    assert data_of_log(store) == data_in(store) == sizes(OLD, {"day=7/new": b"7"})


def test_an_aborted_job_is_told_in_the_log_beside_the_end_of_an_earlier_claim(kind: Kind):
    store = stopped(kind())
    write(store, {"day=7/new": b"7"}, JOB, AT_ONCE)
    resolve(store)
    run_abort(store, JOB)
    last = read_entry(store, TABLE, find_head(store, TABLE))
    assert kinds_of(store)[-1] == "abort"
    assert last.claim == 0


def test_the_claim_whose_job_is_gone_is_resolved_beside_that_of_a_job_at_work(kind: Kind):
    store = stopped(kind())
    write(store, {"day=7/new": b"7"}, JOB, AT_ONCE)
    with pytest.raises(Died):
        run_commit(WrappedStore(store, before=do_at("advance", die, end="recorded")), JOB, AT_ONCE)
    assert resolve(store).claim == 3
    assert in_flight(store) == [JOB.job_id]
    run_commit(store, JOB, AT_ONCE)
    assert data_of_log(store) == data_in(store)


@pytest.mark.parametrize("kind", KINDS, indirect=True)
def test_old_files_are_kept_where_the_table_keeps_them(kind: Kind):
    store = kind()
    init_table(store, TABLE, TableDefinition(table_id="id", keep_replaced=True, created_milliseconds=1))
    committed(store, OLD, OTHER_JOB)
    write(store, NEW, JOB, OVERWRITE)
    with pytest.raises(Died):
        run_commit(WrappedStore(store, after=do_at("rename", die, end="004.entry")), JOB, OVERWRITE)
    store.delete_directory("/table/_temporary")
    resolve(store)
    assert data_of_log(store) == data_in(store) == sizes(NEW)
    assert {name: store.read(TABLE.kept(3, name)) for name in OLD} == OLD
