"""Which claims go on, wait or are refused: the whole table, partitions by prefix, and folding."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from ray_committer.protocol.claims import (
    MOST_PARTITIONS,
    Obstacle,
    Verdict,
    common_partitions,
    fold_partitions,
    judge,
)
from ray_committer.protocol.table_entry import Isolation, TableClaim, WriteMode
from ray_committer.protocol.table_state import ClaimInFlight

SERIALIZABLE, SNAPSHOT, NONE = Isolation.SERIALIZABLE, Isolation.SNAPSHOT, Isolation.NONE
APPEND, CREATE, OVERWRITE, REPLACE = (
    WriteMode.APPEND,
    WriteMode.CREATE,
    WriteMode.OVERWRITE,
    WriteMode.REPLACE,
)
REFUSED = {APPEND: (), CREATE: (), OVERWRITE: (), REPLACE: (APPEND, CREATE, OVERWRITE, REPLACE)}
"""By which jobs, committed since its base in the same partitions, a job is refused."""
modes = pytest.mark.parametrize(("mode", "other"), list(itertools.product(WriteMode, WriteMode)))
isolations = pytest.mark.parametrize("isolation", list(Isolation))


def claim(
    mode: WriteMode, partitions: Sequence[str] = ("day=1",), reads: Sequence[str] = (), *, base: int = 0
) -> TableClaim:
    return TableClaim(
        job_id=f"job_{mode}",
        job_attempt=0,
        nonce="n",
        mode=mode,
        base=base,
        partitions=list(partitions),
        reads=list(reads),
        at_milliseconds=1,
    )


def after_commit(
    one: TableClaim, other: TableClaim, isolation: Isolation = SERIALIZABLE
) -> Obstacle | None:
    """What is in the way of a claim if another job was committed since its base."""
    return judge(one, [ClaimInFlight(5, other, 9)], [], isolation)


def in_flight(
    one: TableClaim, other: TableClaim, isolation: Isolation = SERIALIZABLE
) -> Obstacle | None:
    """What is in the way of a claim if the other job is in flight."""
    return judge(one, [], [ClaimInFlight(5, other)], isolation)


def verdict_of(found: Obstacle | None) -> Verdict | None:
    return None if found is None else found.verdict


@isolations
@modes
def test_a_job_is_refused_if_what_it_depends_on_was_changed(
    mode: WriteMode, other: WriteMode, isolation: Isolation
):
    found = after_commit(claim(mode), claim(other), isolation)
    is_refused = other in REFUSED[mode] and isolation is not NONE
    assert verdict_of(found) is (Verdict.REFUSED if is_refused else None)
    assert verdict_of(after_commit(claim(mode), claim(other, ["day=2"]), isolation)) is None


@isolations
@modes
def test_a_job_is_refused_if_what_it_has_read_elsewhere_was_changed(
    mode: WriteMode, other: WriteMode, isolation: Isolation
):
    found = after_commit(claim(mode, ["day=1"], ["day=2"]), claim(other, ["day=2"]), isolation)
    assert verdict_of(found) is (Verdict.REFUSED if isolation is SERIALIZABLE else None)


@isolations
@modes
def test_a_job_waits_for_one_in_flight_in_the_same_partitions(
    mode: WriteMode, other: WriteMode, isolation: Isolation
):
    found = in_flight(claim(mode), claim(other), isolation)
    assert verdict_of(found) is (None if {mode, other} == {APPEND} else Verdict.WAITS)
    assert verdict_of(in_flight(claim(mode), claim(other, ["day=2"]), isolation)) is None


@isolations
@modes
def test_a_job_waits_for_one_in_flight_that_changes_what_it_has_read_or_has_read_what_it_changes(
    mode: WriteMode, other: WriteMode, isolation: Isolation
):
    reader, writer = claim(mode, ["day=1"], ["day=2"]), claim(other, ["day=2"])
    wanted = Verdict.WAITS if isolation is SERIALIZABLE else None
    assert verdict_of(in_flight(reader, writer, isolation)) is wanted
    assert verdict_of(in_flight(writer, reader, isolation)) is wanted


@modes
def test_of_two_jobs_in_flight_either_waits_for_the_other(mode: WriteMode, other: WriteMode):
    for paths in itertools.product((["day=1"], ["day=2"], [""]), repeat=3):
        one, two = claim(mode, paths[0], paths[1]), claim(other, paths[2])
        assert verdict_of(in_flight(one, two)) is verdict_of(in_flight(two, one))


def test_a_judgement_names_the_claim_in_the_way_and_the_partitions_of_both():
    other = claim(OVERWRITE, ["day=1", "day=3"])
    found = after_commit(claim(REPLACE, ["day=1/hour=2", "day=2", "day=3"]), other)
    assert found == Obstacle(Verdict.REFUSED, ClaimInFlight(5, other, 9), ("day=1/hour=2", "day=3"))
    found = in_flight(claim(APPEND, [""]), other)
    assert found == Obstacle(Verdict.WAITS, ClaimInFlight(5, other), ("day=1", "day=3"))


def test_what_waiting_cannot_change_is_found_first():
    other = claim(OVERWRITE)
    committed = [ClaimInFlight(5, other, 9)]
    assert verdict_of(judge(claim(REPLACE), committed, committed, SERIALIZABLE)) is Verdict.REFUSED
    assert verdict_of(judge(claim(OVERWRITE), committed, committed, SERIALIZABLE)) is Verdict.WAITS


def test_the_first_claim_in_the_way_is_named():
    flights = [ClaimInFlight(version, claim(OVERWRITE, [path])) for version, path in enumerate("xyy", 3)]
    assert judge(claim(APPEND, ["y"]), [], flights, SERIALIZABLE).other.version == 4


@pytest.mark.parametrize(
    ("some", "others", "common"),
    [
        (["day=1"], ["day=1"], ["day=1"]),
        (["day=1"], ["day=10"], []),
        (["day=1"], ["day=1/hour=1"], ["day=1/hour=1"]),
        (["day=1/hour=1"], ["day=1"], ["day=1/hour=1"]),
        (["day=1/hour=1"], ["day=1/hour=10"], []),
        ([""], ["day=1"], ["day=1"]),
        (["day=1"], [""], ["day=1"]),
        ([""], [""], [""]),
        ([], [""], []),
        (["a", "b/c"], ["b", "a/d", "e"], ["a/d", "b/c"]),
    ],
)
def test_partitions_overlap_if_one_contains_the_other(
    some: list[str], others: list[str], common: list[str]
):
    assert sorted(common_partitions(some, others)) == common


paths = st.lists(st.sampled_from("abc"), max_size=3).map("/".join)


@given(st.lists(paths, max_size=6), st.lists(paths, max_size=6))
def test_an_overlap_is_found_by_prefix_whatever_the_order(some: list[str], others: list[str]):
    def contains(one: str, other: str) -> bool:
        return one in ("", other) or other.startswith(one + "/")

    overlap = any(contains(a, b) or contains(b, a) for a in some for b in others)
    assert bool(common_partitions(some, others)) is overlap
    assert common_partitions(some, others) == common_partitions(others, some)


@given(st.lists(paths, max_size=12), st.integers(1, 12))
def test_folded_partitions_contain_all_that_were_claimed_and_are_few(partitions: list[str], most: int):
    folded = fold_partitions(partitions, most)
    assert len(folded) <= most
    assert folded == sorted(set(folded))
    for path in partitions:
        assert path in common_partitions([path], folded)


@pytest.mark.parametrize(
    ("partitions", "most", "folded"),
    [
        ([], 1, []),
        (["b", "a", "b"], 2, ["a", "b"]),
        (["a", "a/b"], 2, ["a"]),
        (["a/x", "a/y", "b/x"], 3, ["a/x", "a/y", "b/x"]),
        (["a/x", "a/y", "b/x"], 2, ["a", "b"]),
        (["a/x/1", "a/x/2", "a/y/1"], 2, ["a/x", "a/y"]),
        (["a/x/1", "a/x/2", "b"], 2, ["a/x", "b"]),
        (["a", "b", "c"], 2, [""]),
    ],
)
def test_more_partitions_than_allowed_are_folded_one_level_at_a_time(
    partitions: list[str], most: int, folded: list[str]
):
    assert fold_partitions(partitions, most) == folded


def test_ten_thousand_partitions_are_judged_one_by_one():
    hours = [f"day={day}/hour={hour}" for day in range(417) for hour in range(24)][:MOST_PARTITIONS]
    assert fold_partitions(hours) == sorted(hours)
    one, other = claim(OVERWRITE, hours), claim(OVERWRITE, ["day=9000", hours[-1]])
    assert in_flight(one, other).partitions == (hours[-1],)
    assert fold_partitions([*hours, "day=417/hour=0"]) == sorted(
        {one.split("/")[0] for one in hours} | {"day=417"}
    )


@isolations
@modes
def test_claims_of_one_run_id_exclude_each_other_in_any_partitions(
    mode: WriteMode, other: WriteMode, isolation: Isolation
):
    one = structs.replace(claim(mode, ["day=1"]), run_id="r")
    others = [claim(other, ["day=2"]), structs.replace(claim(other, ["day=2"]), run_id="s")]
    assert [in_flight(one, each, isolation) for each in others] == [None, None]
    found = in_flight(one, structs.replace(claim(other, ["day=2"]), run_id="r"), isolation)
    assert found is not None
    assert (found.verdict, found.run_id) == (Verdict.WAITS, "r")


def test_a_run_that_has_ended_is_in_no_way():
    one = structs.replace(claim(APPEND, ["day=1"]), run_id="r")
    assert after_commit(one, one) is None
