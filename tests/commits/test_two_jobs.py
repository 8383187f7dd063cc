"""Another job is committed, whole or up to a crash, between any two requests of a commit.

Whatever the order, what is visible in the end is what the two leave one after the other, in some order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest

from ray_committer.errors import CommitConflictError, JobGoneError
from ray_committer.options import CommitOptions
from ray_committer.protocol.commit_result import Outcome
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.state import Phase
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    crash_at,
    run_abort,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import all_files, put_file
from tests.doubles import phase_of
from tests.stages.support import staged_name
from tests.tiers import moments

OLD = {"p=1/old": b"old", "p=2/kept": b"kept"}
FIRST_FILES = {f"p=1/{staged_name('a')}": b"1", f"p=1/{staged_name('b')}": b"22"}
SECOND_FILES = {f"p=1/{staged_name('c')}": b"333", f"p=1/{staged_name('d')}": b"4444"}
APPEND = CommitOptions(conflict_wait_seconds=0.0)
ERROR = replace(APPEND, mode=ConflictMode.ERROR)
OVERWRITE = replace(APPEND, mode=ConflictMode.OVERWRITE)
IN_PARTITIONS = replace(APPEND, mode=ConflictMode.OVERWRITE_PARTITIONS)
NOTHING_THERE = replace(APPEND, mode=ConflictMode.ERROR_PARTITIONS)
IN_TABLE = replace(OVERWRITE, replaced_roots=("/table/p=1",))
KEPT = {"p=2/kept": b"kept"}
BOTH = {**FIRST_FILES, **SECOND_FILES}

pytestmark = [pytest.mark.alternate, pytest.mark.slow]


@dataclass(frozen=True)
class Case:
    """Two jobs, where they were set up, and what may be visible in the end."""

    first: CommitOptions
    second: CommitOptions
    ends: tuple[Mapping[str, bytes], ...]
    old: Mapping[str, bytes]
    second_destination: str = "/table"


CASES = {
    "two appends": Case(APPEND, APPEND, ({**OLD, **BOTH},), OLD),
    "two appends into a new partition": Case(APPEND, APPEND, ({**KEPT, **BOTH},), KEPT),
    "an overwrite and an append": Case(
        IN_TABLE, APPEND, ({**KEPT, **BOTH}, {**KEPT, **FIRST_FILES}), OLD
    ),
    "an append and an overwrite": Case(
        APPEND, IN_TABLE, ({**KEPT, **BOTH}, {**KEPT, **SECOND_FILES}), OLD
    ),
    "two overwrites": Case(OVERWRITE, OVERWRITE, (FIRST_FILES, SECOND_FILES), OLD),
    "an overwrite of the table and an append to a partition as its own table": Case(
        OVERWRITE, APPEND, (BOTH, FIRST_FILES), OLD, "/table/p=1"
    ),
    "an append and an overwrite of a partition as its own table": Case(
        APPEND, OVERWRITE, ({**KEPT, **BOTH}, {**KEPT, **SECOND_FILES}), OLD, "/table/p=1"
    ),
    "two that want nothing there": Case(ERROR, ERROR, (FIRST_FILES, SECOND_FILES), {}),
    "one that wants nothing there and an append": Case(ERROR, APPEND, (BOTH, SECOND_FILES), {}),
    "an overwrite of its partitions and an append": Case(
        IN_PARTITIONS, APPEND, ({**KEPT, **BOTH}, {**KEPT, **FIRST_FILES}), OLD
    ),
    "two overwrites of their partitions": Case(
        IN_PARTITIONS, IN_PARTITIONS, ({**KEPT, **FIRST_FILES}, {**KEPT, **SECOND_FILES}), OLD
    ),
    "two that want nothing in their partitions": Case(
        NOTHING_THERE, NOTHING_THERE, ({**KEPT, **FIRST_FILES}, {**KEPT, **SECOND_FILES}), KEPT
    ),
    "one that wants nothing in its partitions and an append": Case(
        NOTHING_THERE, APPEND, ({**KEPT, **BOTH}, {**KEPT, **SECOND_FILES}), KEPT
    ),
}
STORES: dict[str, Callable[[], MemoryStore]] = {
    "directories": MemoryStore,
    "flat": lambda: MemoryStore(real_directories=False, listing_is_cheap=False),
}
cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
stores = pytest.mark.parametrize("new_store", STORES.values(), ids=STORES)


@dataclass
class Pair:
    """The two jobs of a case, on a store of their own."""

    case: Case
    store: MemoryStore
    first: JobAttempt
    second: JobAttempt

    def commit(self, job: JobAttempt, store: StoreOperations | None = None) -> bool:
        """Commit a job; False if it was refused, with nothing changed."""
        options = self.case.first if job is self.first else self.case.second
        try:
            report = run_commit(store or self.store, job, options)
        except CommitConflictError:
            assert phase_of(self.store, job) is Phase.OPEN
            return False
        except JobGoneError:  # it had ended, and the other job's _SUCCESS is there by now
            return True
        assert report.outcome in (Outcome.COMMITTED, Outcome.ALREADY_COMMITTED)
        return True

    def finish(self, *, is_first: bool, is_second: bool) -> None:
        """Commit what was refused once more, the second job first; what is refused still is given up."""
        for job, is_done in ((self.second, is_second), (self.first, is_first)):
            if not is_done and not self.commit(job):
                run_abort(self.store, job)
        found = visible_files(self.store, "/table")
        seen = {name: data for name, data in found.items() if not name.endswith("/_SUCCESS")}
        assert seen in self.case.ends
        assert all_files(self.store, self.first.temporary) == {}
        assert all_files(self.store, self.second.temporary) == {}


def pair(case: Case, prepared: MemoryStore) -> Pair:
    job = new_job_attempt(case.second_destination, "job_2", 0)
    return Pair(case, prepared.copy(), new_job_attempt("/table", "job_1", 0), job)


def prepare(case: Case, store: MemoryStore) -> MemoryStore:
    for name, data in case.old.items():
        put_file(store, f"/table/{name}", data)
    both = pair(case, store)
    below = case.second_destination.removeprefix("/table").lstrip("/")
    second = {name.removeprefix(f"{below}/"): data for name, data in SECOND_FILES.items()}
    write_job(store, both.first, {0: FIRST_FILES}, mode=case.first.mode)
    write_job(store, both.second, {0: second}, mode=case.second.mode)
    return store


def count_calls(case: Case, prepared: MemoryStore) -> int:
    calls: list[StoreCall] = []
    one = pair(case, prepared)
    assert one.commit(one.first, WrappedStore(one.store, before=calls.append))
    return len(calls)


@pytest.mark.moments
@stores
@cases
def test_a_job_that_is_committed_between_two_requests_of_another(
    case: Case, new_store: Callable[[], MemoryStore]
):
    prepared = prepare(case, new_store())
    refused = 0
    for number in moments(range(1, count_calls(case, prepared) + 1)):
        both, done = pair(case, prepared), []

        def overtake(call: StoreCall, number=number, both=both, done=done) -> None:
            if call.number == number:
                done.append(both.commit(both.second))

        is_first = both.commit(both.first, WrappedStore(both.store, before=overtake))
        assert is_first or done[0], "one of two must go on"
        refused += not (is_first and done[0])
        both.finish(is_first=is_first, is_second=done[0])
    is_in_the_way = (
        case.first.mode is not ConflictMode.APPEND or case.second.mode is not ConflictMode.APPEND
    )
    assert (refused > 3) is is_in_the_way


@pytest.mark.moments
@stores
@cases
def test_a_job_whose_committer_dies_between_two_requests_of_another(
    case: Case, new_store: Callable[[], MemoryStore]
):
    prepared = prepare(case, new_store())
    calls = count_calls(case, prepared)
    for number in moments(range(1, calls + 1, 2)):
        for last in range(5 + number % 3 * 3, calls, 9):
            both = pair(case, prepared)

            def overtake(call: StoreCall, number=number, both=both, last=last) -> None:
                if call.number == number:
                    crashing = WrappedStore(both.store, before=crash_at(last))
                    with suppress(SimulatedCrash):
                        both.commit(both.second, crashing)

            is_first = both.commit(both.first, WrappedStore(both.store, before=overtake))
            both.finish(is_first=is_first, is_second=False)
