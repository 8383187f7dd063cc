"""Two jobs of a table that have room in a directory only one by one: one of them is refused."""

from __future__ import annotations

from collections import Counter

import pytest

from ray_committer.errors import PreflightError
from ray_committer.protocol import file_list
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.state import Phase
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    MemoryStore,
    StoreCall,
    WrappedStore,
    run_abort,
    run_commit,
)
from ray_committer.testing.harness import run_undo
from tests.commits.tables import (
    AT_ONCE,
    THIRD,
    committed,
    data_in,
    data_of_log,
    in_flight,
    kinds_of,
    stopped_at,
    write,
)
from tests.stages.checks.test_items import LIMIT, Bounded
from tests.stages.support import JOB, OTHER_JOB, do_at, requests, state_of
from tests.tables.support import table_on

OLD = {f"day=1/old-{number}": b"o" for number in range(LIMIT - 3)}
FIRST = {"day=1/a-1": b"1", "day=1/a-2": b"2", "day=2/a": b"3"}
SECOND = {"day=1/b-1": b"4", "day=1/b-2": b"5"}


def two_appends() -> MemoryStore:
    """A table with room for either of two jobs."""
    store = Bounded()
    committed(table_on(store), OLD, THIRD)
    write(store, FIRST, JOB)
    write(store, SECOND, OTHER_JOB)
    return store


def is_committed(store: StoreOperations, job: JobAttempt) -> bool:
    """Commit a job; False if it has no room."""
    try:
        run_commit(store, job, AT_ONCE)
    except PreflightError as error:
        found = str(error)
    else:
        return True
    assert "/table/day=1: holds " in found
    assert f"the store allows {LIMIT} in a directory; nothing was changed: abort the job" in found
    return False


def assert_given_up(store: MemoryStore, job: JobAttempt) -> None:
    """Give up a job that was refused: an entry ends its claim."""
    assert state_of(store, job).phase is Phase.OPEN
    assert in_flight(store) == [job.job_id]
    assert run_abort(store, job)
    assert in_flight(store) == []
    assert kinds_of(store).count("abort") == 1
    assert data_of_log(store) == data_in(store)


@pytest.mark.slow
def test_of_two_jobs_at_once_one_has_no_room_wherever_they_meet():
    calls = list[StoreCall]()
    run_commit(WrappedStore(two_appends(), before=calls.append), JOB, AT_ONCE)
    refused = set[bool]()
    for number in range(1, len(calls) + 1):
        store, second = two_appends(), list[bool]()

        def meet(call: StoreCall, number=number, store=store, second=second) -> None:
            if call.number == number:
                second.append(is_committed(store, OTHER_JOB))

        first = is_committed(WrappedStore(store, before=meet), JOB)
        assert [first] != second
        refused.add(first)
        assert_given_up(store, OTHER_JOB if first else JOB)
        assert set(data_in(store)) == {*OLD, *(FIRST if first else SECOND)}
    assert refused == {True, False}


@pytest.mark.parametrize("phase", ["recorded", "sealed"])
@pytest.mark.parametrize("are_listed", [False, True])
def test_each_file_of_an_earlier_claim_counts_once_whether_or_not_it_is_in_place(
    phase: str, are_listed: bool, monkeypatch: pytest.MonkeyPatch
):
    if are_listed:
        monkeypatch.setattr(file_list, "MOST_INLINE", 0)
    store, errors = two_appends(), list[PreflightError]()

    def meet() -> None:
        with pytest.raises(PreflightError) as caught:
            run_commit(store, OTHER_JOB, AT_ONCE)
        errors.append(caught.value)

    run_commit(WrappedStore(store, before=do_at("advance", meet, end=phase)), JOB, AT_ONCE)
    is_moved, [error] = phase == "sealed", errors
    held, coming = (LIMIT - 1, "") if is_moved else (LIMIT - 3, ", besides 2 of jobs at work")
    assert f"/table/day=1: holds {held} names and gets 2 more{coming}, but the store" in error.what
    goes_on = "if one of the jobs at work (job_1) is given up, run the same command"
    assert (goes_on in error.advice) is not is_moved
    assert "ray-committer abort memory://test/table --job-id job_2" in error.advice
    assert set(data_in(store)) == {*OLD, *FIRST}


def test_the_last_places_are_taken_beside_another_job():
    store = two_appends()
    stopped_at(store, "recorded", JOB, AT_ONCE)
    committed(store, {"day=1/c": b"c", "day=2/c": b"c"}, THIRD)
    run_commit(store, JOB, AT_ONCE)
    assert sum(name.startswith("day=1/") for name in data_in(store)) == LIMIT
    assert data_of_log(store) == data_in(store)


def test_a_job_that_was_refused_goes_on_once_the_other_one_is_given_up():
    store = two_appends()
    stopped_at(store, "recorded", JOB, AT_ONCE)
    assert not is_committed(store, OTHER_JOB)
    run_undo(store, JOB)
    assert is_committed(store, OTHER_JOB)
    assert kinds_of(store)[2:] == ["claim", "claim", "abort", "commit"]
    assert set(data_in(store)) == {*OLD, *SECOND}


def test_claims_make_no_request_where_there_is_room():
    def cost(store: MemoryStore) -> Counter[str]:
        write(table_on(store), {"day=1/a": b"1"}, JOB)
        write(store, {"day=1/b": b"2"}, OTHER_JOB)
        stopped_at(store, "recorded", JOB, AT_ONCE)
        return requests(store, lambda one: run_commit(one, OTHER_JOB, AT_ONCE))

    assert cost(Bounded()) == cost(MemoryStore())
