"""Beside many jobs at a table with a log, a commit relies on the log instead of looking at each job."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from ray_committer.errors import CommitConflictError
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.state import Phase
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.at_once import MANY
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.put import complete_table, init_table
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore, run_commit
from tests.commits.tables import (
    AT_ONCE,
    OVERWRITE,
    claimants_at_work,
    data_in,
    data_of_log,
    stopped_at,
    write,
)
from tests.stages.support import JOB, do_at, state_of
from tests.tables.support import DEFINITION, TABLE

pytestmark = pytest.mark.usefixtures("no_pauses")

FILES = {"day=1/new": b"x"}


def other(number: int) -> JobAttempt:
    return new_job_attempt("/table", f"other_{number}", 0)


def beside(kind: Callable[[], MemoryStore], jobs: int, *, is_complete: bool = True) -> MemoryStore:
    """A table with many open jobs, and the job that is to be committed."""
    store = kind()
    init_table(store, TABLE, DEFINITION)
    if is_complete:
        complete_table(store, TABLE, DEFINITION)
    for number in range(jobs):
        setup_job(store, other(number))
    write(store, FILES)
    return store


def requests_to_others(store: StoreOperations) -> tuple[int, int]:
    """The requests of the commit, and those of them to other jobs."""
    calls: list[StoreCall] = []
    run_commit(WrappedStore(store, before=calls.append), JOB, AT_ONCE)
    to_others = [one for one in calls if any("/other_" in path for path in one.paths)]
    return len(calls), len(to_others)


def test_the_requests_do_not_grow_with_the_other_jobs(kind):
    found = {jobs: requests_to_others(beside(kind, jobs)) for jobs in (0, MANY, 3 * MANY)}
    assert found[MANY] == found[3 * MANY] == (found[0][0] + 1, 0)


@pytest.mark.parametrize(("jobs", "is_complete"), [(MANY - 1, True), (MANY, False)])
def test_each_of_few_jobs_is_looked_at_and_each_if_the_table_is_not_complete(
    kind, jobs: int, is_complete: bool
):
    assert requests_to_others(beside(kind, jobs, is_complete=is_complete))[1] >= 2 * jobs


def test_a_mark_of_another_table_does_not_count(kind):
    store = beside(kind, MANY, is_complete=False)
    complete_table(store, TABLE, type(DEFINITION)(table_id="other", created_milliseconds=1))
    assert requests_to_others(store)[1] >= 2 * MANY


@pytest.mark.parametrize("is_complete", [False, True])
def test_a_job_that_does_not_know_the_log_is_found_while_the_table_is_made(kind, is_complete: bool):
    """It was set up before, and `table init` has refused it; so the table is not complete."""
    store = kind()
    write(store, {"day=1/late": b"x"}, other(99))
    init_table(store, TABLE, DEFINITION)
    if is_complete:
        complete_table(store, TABLE, DEFINITION)
    for number in range(MANY):
        setup_job(store, other(number))
    write(store, FILES)
    stopped_at(store, "committed", other(99), OVERWRITE)
    if is_complete:  # which `table init` never says beside such a job
        assert run_commit(store, JOB, AT_ONCE).table_version == 2
    else:
        with pytest.raises(CommitConflictError, match="job other_99"):
            run_commit(store, JOB, AT_ONCE)


@pytest.mark.parametrize("phase", ["sealed", "committed"])
def test_a_job_that_has_died_in_its_commit_is_found(kind, phase: str, monkeypatch: pytest.MonkeyPatch):
    """The job may be the same application, run again: its rows must not be doubled."""
    store = beside(kind, MANY)
    dead = other(0)
    write(store, {"day=1/first": b"x"}, new_job_attempt("/table", "other_first", 0))
    dead = new_job_attempt("/table", "other_first", 0)
    stopped_at(store, phase, dead, AT_ONCE)
    assert state_of(store, dead).phase in (Phase.RECORDED, Phase.SEALED)
    with pytest.raises(CommitConflictError, match="other_first"):
        run_commit(store, JOB, AT_ONCE)
    report = run_commit(store, JOB, CommitOptions(conflict_wait_seconds=0.0, unfinished="finish"))
    assert report.table_version is not None
    assert data_in(store) == data_of_log(store) == {"day=1/first": 1, "day=1/new": 1}


def test_a_job_at_work_is_not_looked_at_but_its_claim_is_in_the_way(kind):
    store = beside(kind, MANY)
    first = new_job_attempt("/table", "other_first", 0)
    write(store, {"day=1/first": b"x"}, first, ConflictMode.OVERWRITE)
    stopped_at(store, "sealed", first, OVERWRITE)
    calls: list[StoreCall] = []
    is_in_the_way = pytest.raises(CommitConflictError, match=r"job other_first \(version 1\) is at work")
    with claimants_at_work(store), is_in_the_way:
        run_commit(WrappedStore(store, before=calls.append), JOB, AT_ONCE)
    assert not any("/other_0" in path for one in calls for path in one.paths)


def test_what_is_committed_just_before_its_claim_is_replaced_by_an_overwrite(kind):
    store = beside(kind, MANY)
    first = new_job_attempt("/table", "other_first", 0)
    write(store, {"day=1/first": b"x"}, first, ConflictMode.OVERWRITE)
    meanwhile = do_at("rename", partial(run_commit, store, JOB, AT_ONCE), end="001.entry")
    run_commit(WrappedStore(store, before=meanwhile), first, OVERWRITE)
    assert data_in(store) == data_of_log(store) == {"day=1/first": 1}
