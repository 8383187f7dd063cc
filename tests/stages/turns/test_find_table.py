"""A job knows from its set-up whether it belongs to a table, and which version it can have read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ray_committer.errors import TableLogError, TaskCommitError
from ray_committer.job_files.job_state import begin_state, read_state
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.state import UNSTAMPED, Phase, TableBase, new_state
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stages.setup_job import setup_job
from ray_committer.stages.turns.find_table import find_table_late
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import MemoryStore, WrappedStore
from ray_committer.testing.harness import run_abort
from tests.stages.support import (
    EACH_TABLE,
    JOB,
    KINDS_OF_TABLES,
    do_at,
    each_crash,
    requests,
    seen_in,
    state_of,
    with_job,
)
from tests.tables.support import TABLE, append_commit, table_on


@pytest.fixture(params=EACH_TABLE)
def kind(request: pytest.FixtureRequest) -> Callable[[], MemoryStore]:
    return KINDS_OF_TABLES[request.param]


def test_a_job_notes_its_table_and_the_last_version_there(kind):
    store = table_on(kind())
    setup_job(store, JOB)
    assert state_of(store).table == TableBase("id", 0)
    append_commit(store, "other")
    run_abort(store, JOB)
    setup_job(store, JOB)
    assert state_of(store).table == TableBase("id", 3)


def test_a_destination_without_a_log_costs_one_request(kind):
    plain = requests(store := kind(), lambda one: setup_job(one, JOB))
    assert state_of(store).table is None
    in_table = requests(table_on(kind()), lambda one: setup_job(one, JOB))
    assert plain["read"] == 2  # of the definition, and of an earlier _SUCCESS
    assert sum((in_table - plain).values()) == 3  # the head of an empty log takes two


def test_a_table_that_is_made_while_a_job_is_set_up_is_seen_by_one_of_the_two(kind):
    store = kind()
    made = WrappedStore(store, before=do_at("read", lambda: table_on(store), end=TABLE.definition))
    setup_job(made, JOB)
    assert state_of(store).table == TableBase("id", 0)
    store = kind()
    jobs: list[object] = []
    note = do_at(
        "read", lambda: jobs.append(table_on(store) and read_state(store, JOB)), end=TABLE.definition
    )
    made = WrappedStore(store, after=note)
    setup_job(made, JOB)
    assert jobs != [None]  # who makes a table looks for jobs after that
    assert state_of(store).table is None


def test_a_log_that_is_damaged_refuses_the_job_and_leaves_none(kind):
    store = table_on(kind())
    store.write(TABLE.definition, b"{")
    with pytest.raises(TableLogError):
        setup_job(store, JOB)
    assert read_state(store, JOB) is None


def test_a_job_that_is_aborted_during_its_set_up_is_refused(kind):
    store = table_on(kind())
    meanwhile = do_at("list_status", lambda: run_abort(store, JOB), end=TABLE.block(0))
    with pytest.raises(TaskCommitError, match="another process changed this job"):
        setup_job(WrappedStore(store, before=meanwhile), JOB)


def test_after_a_crash_the_id_can_be_set_up_again_after_an_abort(kind):
    def new() -> MemoryStore:
        return table_on(kind())

    for store in each_crash(new, lambda one: setup_job(one, JOB)):
        run_abort(store, JOB)
        setup_job(store, JOB)
        assert state_of(store).table in (TableBase("id", 0), TableBase("id", 1))


def test_a_job_that_hadoop_set_up_has_a_table_but_has_not_read_its_version(kind):
    store = table_on(kind())
    append_commit(store, "before")
    store.mkdirs(JOB.directory)
    seen = begin_state(store, JOB, new_state(stamp=UNSTAMPED))
    found = find_table_late(store, JOB, seen)
    assert (found.state.table, found.phase) == (TableBase("id", 2, is_late=True), Phase.OPEN)
    assert found.state.table.read is None
    assert find_table_late(store, JOB, found) == found
    ours = with_job(store=kind())
    assert requests(ours, lambda one: find_table_late(one, JOB, seen_in(ours))) == {}


def test_on_local_files(tmp_path: Path):
    store = LocalStore(StoreSpec("file"))
    table_on(store, TablePlaces(str(tmp_path / "table")))
    job = new_job_attempt(str(tmp_path / "table"), "job_1", 0)
    setup_job(store, job)
    assert state_of(store, job).table == TableBase("id", 0)
