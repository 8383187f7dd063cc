"""The state of a table: which claims are in flight after which entries, and its files by partition."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from ray_committer.errors import TableLogError
from ray_committer.protocol.file_list import ListedFile, inline_set
from ray_committer.protocol.table_entry import (
    LogEntry,
    TableAbort,
    TableClaim,
    TableCommit,
    TableDone,
    WriteMode,
)
from ray_committer.protocol.table_state import (
    ClaimCommitted,
    ClaimInFlight,
    TableState,
    by_partition,
    ended_since,
    follow,
    quiet_at,
)

OLD = inline_set([ListedFile("day=1/old", 3)])


def claim(job_id: str = "job_1") -> TableClaim:
    return TableClaim(
        job_id=job_id,
        job_attempt=0,
        nonce="n",
        mode=WriteMode.OVERWRITE,
        partitions=["day=1"],
        at_milliseconds=1,
    )


def commit(of: int, *, replaces: bool = False) -> TableCommit:
    removed = {"removed": OLD} if replaces else {}
    return TableCommit(job_id="j", job_attempt=0, claim=of, at_milliseconds=2, **removed)


def done(of: int) -> TableDone:
    return TableDone(job_id="j", job_attempt=0, claim=of, at_milliseconds=3)


def abort(of: int) -> TableAbort:
    return TableAbort(job_id="j", job_attempt=0, claim=of, at_milliseconds=4)


def after(*entries: LogEntry) -> TableState:
    return follow(TableState(), enumerate(entries, 1))[0]


@pytest.mark.parametrize(
    ("entries", "in_flight"),
    [
        ((), []),
        ((claim(),), [ClaimInFlight(1, claim())]),
        ((claim(), commit(1)), []),
        ((claim(), commit(1, replaces=True)), [ClaimInFlight(1, claim(), 2)]),
        ((claim(), commit(1, replaces=True), done(1)), []),
        ((claim(), abort(1)), []),
        (
            (claim(), claim("job_2"), claim("job_3"), commit(2)),
            [ClaimInFlight(1, claim()), ClaimInFlight(3, claim("job_3"))],
        ),
    ],
)
def test_a_claim_is_in_flight_until_it_is_aborted_or_its_old_files_are_gone(
    entries: tuple[LogEntry, ...], in_flight: list[ClaimInFlight]
):
    state = after(*entries)
    assert state.in_flight == in_flight
    assert state.version == len(entries)


@pytest.mark.parametrize("again", [commit(1), commit(1, replaces=True), done(1), abort(1)])
@pytest.mark.parametrize(
    "entries", [(claim(), commit(1)), (claim(), abort(1)), (claim(), commit(1, replaces=True), done(1))]
)
def test_what_is_said_of_a_claim_that_has_ended_changes_nothing(
    entries: tuple[LogEntry, ...], again: LogEntry
):
    state, committed = follow(after(*entries), [(len(entries) + 1, again)])
    assert (state.in_flight, committed) == ([], [])
    assert state.version == len(entries) + 1


def test_a_commit_that_is_said_twice_is_one():
    state, committed = follow(
        TableState(), enumerate((claim(), commit(1, replaces=True), commit(1, replaces=True)), 1)
    )
    assert committed == [ClaimCommitted(2, 1, claim(), OLD, at_milliseconds=2)]
    assert state.in_flight == [ClaimInFlight(1, claim(), 2)]


@pytest.mark.parametrize(
    ("entries", "what"),
    [
        ((claim(), done(1)), "entry 2 of the log: claim 1 is not committed"),
        ((claim(), commit(1, replaces=True), abort(1)), "entry 3 of the log: claim 1 is committed"),
    ],
)
def test_an_entry_that_cannot_follow_is_an_error(entries: tuple[LogEntry, ...], what: str):
    with pytest.raises(TableLogError, match=what):
        after(*entries)


@pytest.mark.parametrize("committed", [1, 2])
def test_the_commit_of_one_of_several_claims_of_a_job_ends_the_others(committed: int):
    other = structs.replace(claim(), partitions=["day=2"])
    state, jobs = follow(
        TableState(), enumerate((claim(), other, claim("job_2"), commit(committed, replaces=True)), 1)
    )
    named = (claim(), other)[committed - 1]
    assert jobs == [ClaimCommitted(4, committed, named, OLD, at_milliseconds=2)]
    assert state.in_flight == [ClaimInFlight(committed, named, 4), ClaimInFlight(3, claim("job_2"))]
    assert after(claim(), other, abort(1)).in_flight == [ClaimInFlight(2, other)]


@given(st.randoms(use_true_random=False))
def test_an_entry_shows_a_version_at_which_no_claim_was_in_flight(random: Random):
    log: list[LogEntry] = []
    while len(log) < 30:
        state = after(*log)
        one = random.choice([*state.in_flight, None]) if state.in_flight else None
        if one is None:
            log.append(structs.replace(claim(f"job_{len(log)}"), quiet=state.quiet))
        elif one.committed is not None:
            log.append(structs.replace(done(one.version), quiet=one.claim.quiet))
        else:
            ends = (commit(one.version), commit(one.version, replaces=True), abort(one.version))
            log.append(structs.replace(random.choice(ends), quiet=one.claim.quiet))
        quiet = quiet_at(len(log), log[-1])
        assert after(*log[:quiet]).in_flight == []


@pytest.mark.parametrize(
    "entries", [(claim(), commit(1)), (claim(), abort(1)), (claim(), commit(1, replaces=True), done(1))]
)
def test_the_last_entry_of_a_job_that_was_alone_shows_that_none_is_in_flight(
    entries: tuple[LogEntry, ...],
):
    assert quiet_at(len(entries), entries[-1]) == len(entries)
    assert quiet_at(len(entries) - 1, entries[-2]) == 0


def test_the_claim_of_the_same_job_attempt_for_the_same_work_is_found():
    state = after(claim("job_1"), claim("job_2"))
    assert state.own(claim("job_2")) == ClaimInFlight(2, claim("job_2"))
    assert state.own(claim("job_3")) is None
    assert state.own(structs.replace(claim("job_1"), partitions=["day=2"])) is None


def test_a_state_is_the_same_wherever_the_log_is_cut():
    entries = list(
        enumerate(
            (claim(), claim("job_2"), commit(1, replaces=True), claim("job_3"), done(1), abort(2)), 1
        )
    )
    whole = follow(TableState(), entries)
    for cut in range(len(entries) + 1):
        half, first = follow(TableState(), entries[:cut])
        state, second = follow(half, entries[cut:])
        assert (state, first + second) == whole


@pytest.mark.parametrize(
    ("before", "since", "ended"),
    [
        ((), (), []),
        ((claim(), commit(1)), (), []),
        ((), (claim(),), []),
        ((), (claim(), commit(1)), [1]),
        ((claim(),), (commit(1),), [1]),
        ((claim(),), (abort(1),), [1]),
        ((claim(), commit(1, replaces=True)), (), [1]),
        ((claim(), commit(1, replaces=True)), (done(1),), [1]),
        ((claim(), commit(1, replaces=True), done(1)), (claim("job_2"),), []),
    ],
)
def test_what_a_reader_may_have_seen_in_part_has_ended_since(
    before: tuple[LogEntry, ...], since: tuple[LogEntry, ...], ended: list[int]
):
    entries = list(enumerate((*before, *since), 1))
    found, state = ended_since(after(*before), entries[len(before) :])
    assert [one.version for one in found] == ended
    assert state == after(*before, *since)


def test_files_are_listed_by_partition():
    files = by_partition([ListedFile("day=1/a", 1), ListedFile("day=2/b", 2), ListedFile("c", 3)])
    assert {name: sorted(found) for name, found in files.items()} == {
        "day=1": ["day=1/a"],
        "day=2": ["day=2/b"],
        "": ["c"],
    }
