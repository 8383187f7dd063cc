"""Claiming: whoever is beaten judges again, waits for others, goes on with a claim of its own run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs

from ray_committer.errors import (
    CommitAbortedError,
    CommitCancelledError,
    CommitConflictError,
    TableLogGoneError,
)
from ray_committer.limits.waiting import Waiting
from ray_committer.protocol.file_list import ListedFile
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.table_entry import Isolation, TableClaim, TableDefinition, WriteMode
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_state import ClaimInFlight
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.append import append
from ray_committer.tables.checkpoint import read_state
from ray_committer.tables.claim import Claimant, claim_partitions
from ray_committer.tables.log import find_head, read_entries
from ray_committer.tables.save_checkpoint import save_checkpoint
from ray_committer.testing import MemoryStore, SimulatedCrash, StoreCall, WrappedStore, crash_at, fail_at
from tests.stages.support import KINDS, do_at, requests
from tests.tables.support import (
    DEFINITION,
    TABLE,
    abort_of,
    append_commit,
    claim_of,
    commit_of,
    done_of,
    table_on,
)
from tests.threads import at_once

pytestmark = pytest.mark.usefixtures("no_pauses")

OLD = [ListedFile("day=1/old", 1)]
AT_ONCE = Waiting(0.0)
OVERWRITE = claim_of("over", mode=WriteMode.OVERWRITE)
REPLACE = claim_of("replaces", mode=WriteMode.REPLACE, base=0)
APPEND = claim_of("appends")


def claimed(
    store: StoreOperations,
    claim: TableClaim,
    waiting: Waiting = AT_ONCE,
    *,
    table: TablePlaces = TABLE,
    definition: TableDefinition = DEFINITION,
) -> ClaimInFlight:
    return claim_partitions(store, table, definition, claim, waiting)


def then(*actions: Callable[[], object]) -> Waiting:
    """A wait in whose pauses other jobs do something, one after the other; it is over after them."""
    left = list(actions)

    def sleep(_: float) -> None:
        left.pop(0)()

    return Waiting(len(actions), sleep=sleep, clock=lambda: float(len(actions) - len(left)))


def test_a_claim_is_put_at_the_end_of_the_log(store, tmp_path: Path):
    table = TablePlaces(str(tmp_path / "table"))
    table_on(store, table)
    assert claimed(store, APPEND, table=table) == ClaimInFlight(1, APPEND)
    assert read_entries(store, table) == [(1, APPEND)]


@pytest.mark.parametrize("kind", KINDS, indirect=True)
def test_a_claim_without_others_makes_few_requests(kind):
    memory = table_on(kind())
    for job_id in "abc":
        version = claimed(memory, claim_of(job_id)).version
        append(memory, TABLE, commit_of(version, quiet=version - 1), version)
    found = requests(memory, lambda one: claimed(one, claim_of("replaces", base=6)))
    assert found - Counter(sync=2) == Counter(list_status=1, read=1, write=1, rename=1)


def test_the_log_is_read_from_where_no_claim_was_in_flight(kind):
    memory = table_on(kind())
    append_commit(memory, "a")
    append(memory, TABLE, OVERWRITE, 2)
    assert claimed(memory, claim_of("one", partitions=["day=2"])).claim.quiet == 2
    append(memory, TABLE, commit_of(4), 4)
    with pytest.raises(CommitConflictError, match=r"job over .* is at work"):
        claimed(memory, APPEND)
    append(memory, TABLE, abort_of(3), 5)
    assert claimed(memory, APPEND) == ClaimInFlight(7, structs.replace(APPEND, quiet=6))


@pytest.mark.parametrize("kind", KINDS, indirect=True)
def test_a_claim_that_is_in_flight_for_long_makes_others_look_for_a_checkpoint(kind):
    memory = table_on(kind())
    append(memory, TABLE, claim_of("dead"), 0)
    for number in range(40):
        version = claimed(memory, claim_of(f"job_{number}")).version
        append(memory, TABLE, commit_of(version), version)
    save_checkpoint(memory, TABLE, "id")
    found = requests(memory, lambda one: claimed(one, APPEND))
    assert found - Counter(sync=2) == Counter(list_status=2, read=2, write=1, rename=1)
    with pytest.raises(CommitConflictError, match=r"job dead .* is at work"):
        claimed(memory, OVERWRITE)


def test_appends_do_not_wait_for_each_other(kind):
    memory = table_on(kind())
    assert [claimed(memory, claim_of(job_id)).version for job_id in "abc"] == [1, 2, 3]


def test_a_claim_waits_until_the_job_in_its_way_has_ended(kind):
    memory = table_on(kind())
    append(memory, TABLE, OVERWRITE, 0)
    waiting = then(
        lambda: append(memory, TABLE, claim_of("elsewhere", partitions=["day=2"]), 0),
        lambda: append(memory, TABLE, commit_of(1, OLD), 0),
        lambda: append(memory, TABLE, done_of(1), 0),
    )
    assert claimed(memory, APPEND, waiting) == ClaimInFlight(5, APPEND)


def test_a_claim_that_waits_is_not_in_the_log(kind):
    memory = table_on(kind())
    append(memory, TABLE, OVERWRITE, 0)
    heads: list[int] = []
    waiting = then(*[lambda: heads.append(find_head(memory, TABLE))] * 3)
    with pytest.raises(CommitConflictError):
        claimed(memory, APPEND, waiting)
    assert heads == [1, 1, 1]
    assert read_entries(memory, TABLE) == [(1, OVERWRITE)]


def test_who_waited_too_long_names_the_job_its_partitions_and_the_commands(kind):
    memory = table_on(kind())
    job = new_job_attempt("/table", "other", 1)
    stamp = setup_job(memory, job)
    other = claim_of("other", partitions=["day=1", "day=2"], job_attempt=1, nonce=stamp)
    append(memory, TABLE, other, 0)
    with pytest.raises(CommitConflictError) as caught:
        claimed(memory, claim_of("over", mode=WriteMode.OVERWRITE, partitions=[""]), then(lambda: None))
    error = caught.value
    assert error.exit_code == 4
    assert "/table: job other (version 1) is at work in day=1 | day=2, " in error.what
    assert "(waited 1 s)" in error.what
    command = "DEST --job-id other --attempt 1".replace("DEST", "memory://test/table")
    assert "only its own process can finish that job: if that has ended, give it up with" in error.advice
    assert f"give it up with: ray-committer abort {command}" in error.advice
    memory.delete_directory(job.directory)
    with pytest.raises(CommitConflictError) as caught:
        claimed(memory, claim_of("over", mode=WriteMode.OVERWRITE, partitions=[""]))
    resolve = "ray-committer table resolve memory://test/table other --attempt 1"
    told = f"that job is gone: give it up with: {resolve}; then run the same command"
    assert told in caught.value.advice


def test_a_job_in_the_whole_table_is_named_as_such(kind):
    memory = table_on(kind())
    append(memory, TABLE, claim_of("other", mode=WriteMode.OVERWRITE, partitions=[""]), 0)
    with pytest.raises(CommitConflictError, match="is at work in the whole table"):
        claimed(memory, claim_of("over", mode=WriteMode.OVERWRITE, partitions=[""]))


def test_a_claim_whose_data_was_changed_is_refused_and_not_in_the_log(kind):
    memory = table_on(kind())
    append_commit(memory, "other")
    before = memory.files()
    with pytest.raises(CommitConflictError) as caught:
        claimed(memory, REPLACE, then(lambda: pytest.fail("it is of no use to wait")))
    assert caught.value.exit_code == 4
    assert caught.value.what == (
        "/table: job other (version 1) has written to day=1, which job replaces has read at version 0"
    )
    assert "ray-committer abort memory://test/table --job-id replaces" in caught.value.advice
    assert memory.files() == before


def test_a_claim_is_judged_by_what_was_committed_since_its_base(kind):
    memory = table_on(kind())
    append_commit(memory, "before")
    save_checkpoint(memory, TABLE, "id")
    append_commit(memory, "after", partitions=["day=2"])
    assert claimed(memory, claim_of("one", mode=WriteMode.REPLACE, base=2)).version == 5
    reader = claim_of("two", mode=WriteMode.APPEND, partitions=["day=3"], reads=["day=2"], base=2)
    with pytest.raises(CommitConflictError, match=r"job after .* has written to day=2, which job two"):
        claimed(memory, reader)


def test_a_job_that_was_committed_and_removed_old_files_at_the_base_counts(kind):
    memory = table_on(kind())
    append(memory, TABLE, OVERWRITE, 0)
    append(memory, TABLE, commit_of(1, OLD), 0)
    append(memory, TABLE, done_of(1), 0)
    with pytest.raises(CommitConflictError, match=r"job over .* has written to day=1"):
        claimed(memory, claim_of("one", mode=WriteMode.REPLACE, base=2))
    assert claimed(memory, claim_of("one", mode=WriteMode.REPLACE, base=3)).version == 4


def test_without_isolation_nothing_is_refused(kind):
    memory = table_on(kind())
    append_commit(memory, "other")
    loose = TableDefinition(table_id="id", isolation=Isolation.NONE, created_milliseconds=1)
    assert claimed(memory, REPLACE, definition=loose).version == 3


def test_a_base_that_the_log_does_not_have_is_an_error(kind):
    with pytest.raises(TableLogGoneError, match=r"007\.entry: is gone"):
        claimed(table_on(kind()), claim_of("one", mode=WriteMode.REPLACE, base=7))


def test_a_wait_can_be_cancelled(kind):
    memory = table_on(kind())
    append(memory, TABLE, OVERWRITE, 0)

    def cancel() -> None:
        raise CommitCancelledError("cancelled")

    with pytest.raises(CommitCancelledError):
        claimed(memory, APPEND, then(cancel))


# Others that are faster


def test_who_is_beaten_judges_again(kind):
    memory = table_on(kind())
    hook = do_at("rename", lambda: append(memory, TABLE, OVERWRITE, 0))
    with pytest.raises(CommitConflictError, match=r"job over .* is at work"):
        claimed(WrappedStore(memory, before=hook), APPEND)
    assert read_entries(memory, TABLE) == [(1, OVERWRITE)]


def test_who_is_beaten_by_one_that_is_not_in_the_way_is_put_after_it(kind):
    memory = table_on(kind())
    hook = do_at("rename", lambda: append(memory, TABLE, claim_of("other"), 0))
    assert claimed(WrappedStore(memory, before=hook), APPEND) == ClaimInFlight(2, APPEND)


def test_of_jobs_that_must_not_be_together_one_is_in_flight_at_any_time(store, tmp_path: Path):
    table = TablePlaces(str(tmp_path / "table"))
    table_on(store, table)
    at_work: list[str] = []

    def job(number: int) -> None:
        for round_ in range(3):
            name = f"{number}_{round_}"
            claim = claim_of(name, mode=WriteMode.OVERWRITE)
            version = claimed(store, claim, Waiting(200.0), table=table).version
            at_work.append(name)
            assert at_work == [name]
            append(store, table, commit_of(version, OLD), version)
            at_work.remove(name)
            append(store, table, done_of(version), version)

    at_once([partial(job, number) for number in range(4)])
    assert read_state(store, table, "id").version == 4 * 3 * 3


# The same job again


def test_another_run_goes_on_with_the_claim_that_is_there(kind):
    memory = table_on(kind())
    append(memory, TABLE, APPEND, 0)
    append(memory, TABLE, claim_of("other"), 0)
    again = claim_of("appends", OLD)  # with other file lists
    assert claimed(memory, again) == ClaimInFlight(1, APPEND)
    assert find_head(memory, TABLE) == 2


def test_another_run_finds_that_its_job_is_committed(kind):
    memory = table_on(kind())
    append(memory, TABLE, REPLACE, 0)
    append(memory, TABLE, commit_of(1, OLD), 0)
    assert claimed(memory, REPLACE) == ClaimInFlight(1, REPLACE, 2)
    append(memory, TABLE, done_of(1), 0)
    assert claimed(memory, REPLACE) == ClaimInFlight(1, REPLACE, 2)


@pytest.mark.parametrize("change", [{"job_attempt": 1}, {"nonce": "another set-up"}])
def test_another_attempt_or_set_up_of_the_id_is_another_job(kind, change: dict[str, object]):
    memory = table_on(kind())
    append(memory, TABLE, REPLACE, 0)
    with pytest.raises(CommitConflictError, match=r"job replaces .* is at work"):
        claimed(memory, claim_of("replaces", mode=WriteMode.REPLACE, base=0, **change))


def test_a_claim_that_has_ended_since_the_log_was_read_is_not_in_the_way(kind):
    memory = table_on(kind())
    append(memory, TABLE, OVERWRITE, 0)
    claimant = Claimant(memory, TABLE, DEFINITION, APPEND)
    append(memory, TABLE, abort_of(1, OVERWRITE.job_id), 1)
    found = claimant.put()
    assert isinstance(found, ClaimInFlight)
    assert found.version == 3


def test_a_job_that_was_aborted_makes_no_claim(kind):
    memory = table_on(kind())
    append(memory, TABLE, REPLACE, 0)
    append(memory, TABLE, abort_of(1, REPLACE.job_id), 0)
    with pytest.raises(CommitAbortedError, match="says that job replaces was aborted"):
        claimed(memory, REPLACE)


def test_two_runs_at_once_have_one_claim(kind):
    memory = table_on(kind())
    hook = do_at("rename", lambda: append(memory, TABLE, REPLACE, 0))
    assert claimed(WrappedStore(memory, before=hook), REPLACE) == ClaimInFlight(1, REPLACE)
    assert find_head(memory, TABLE) == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_or_a_failure_at_any_request_leaves_one_claim_or_none(kind, when: str):
    def begun() -> MemoryStore:
        memory = table_on(kind())
        append_commit(memory, "a", partitions=["day=2"])
        return memory

    calls: list[StoreCall] = []
    claimed(WrappedStore(begun(), before=calls.append), REPLACE)
    for call in calls:
        for fault in (crash_at(call.number), fail_at(call.number)):
            memory = begun()
            try:
                claimed(WrappedStore(memory, **{when: fault}), REPLACE)
            except (SimulatedCrash, OSError):
                assert claimed(memory, REPLACE).version == 3
            assert [version for version, _ in read_entries(memory, TABLE)] == [1, 2, 3]
