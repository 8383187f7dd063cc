"""The states of a job: which follow which, and what is stored of one."""

from __future__ import annotations

import itertools
from dataclasses import replace
from uuid import uuid4

import pytest

from ray_committer.errors import ManifestError
from ray_committer.protocol.paths import MANIFEST_SUFFIX, is_name
from ray_committer.protocol.state import (
    IN_THE_WAY,
    SUFFIX,
    TRANSITIONS,
    UNDECIDED,
    UNSTAMPED,
    WITH_RECORD,
    Intent,
    JobState,
    Phase,
    TableBase,
    new_nonce,
    new_state,
    parse_token,
)
from ray_committer.stores.base import STATE_SUFFIX

PAIRS = list(itertools.product(Phase, Phase))
WAYS = {
    "open": {"declared", "aborted"},
    "declared": {"open", "recorded", "aborted"},
    "recorded": {"sealed", "committed", "undoing"},
    "sealed": {"committed", "undoing"},
    "committed": set(),
    "undoing": {"undoing", "aborted"},
    "aborted": set(),
}


def in_phase(phase: Phase, intent: Intent = Intent.APPENDS) -> JobState:
    return JobState(phase, "stamp", "nonce", intent, "record" if phase in WITH_RECORD else None)


def reachable(phase: Phase) -> set[Phase]:
    found: set[Phase] = set()
    left = {phase}
    while left:
        found |= (left := set().union(*(TRANSITIONS[one] for one in left)) - found)
    return found


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_a_state_becomes_what_the_protocol_says_and_nothing_else(before: Phase, after: Phase) -> None:
    state = in_phase(before)
    if after.value in WAYS[before.value]:
        assert state.to(after, "fresh").phase is after
    else:
        with pytest.raises(ValueError, match=f"is {before} cannot become {after}"):
            state.to(after, "fresh")


def test_what_is_committed_is_never_given_up() -> None:
    assert reachable(Phase.COMMITTED).isdisjoint({Phase.UNDOING, Phase.ABORTED})


def test_what_is_recorded_is_given_up_by_undoing_alone_and_never_reopened() -> None:
    assert reachable(Phase.RECORDED).isdisjoint(UNDECIDED)
    assert {one for one in Phase if Phase.ABORTED in TRANSITIONS[one]} == UNDECIDED | {Phase.UNDOING}


@pytest.mark.parametrize(
    ("before", "after"), [pair for pair in PAIRS if pair[1] in TRANSITIONS[pair[0]]]
)
def test_a_change_has_a_nonce_of_its_own_and_keeps_what_set_up_said(before: Phase, after: Phase) -> None:
    table = TableBase("id", 3)
    changed = replace(in_phase(before, Intent.REPLACES), table=table).to(after, "fresh")
    assert changed.table == table
    assert (changed.nonce, changed.stamp, changed.intent) == ("fresh", "stamp", Intent.REPLACES)


def test_the_record_stands_under_the_nonce_of_the_change_that_made_it_until_the_job_is_aborted() -> None:
    recorded = in_phase(Phase.DECLARED).to(Phase.RECORDED, "r")
    for way in ([Phase.SEALED, Phase.COMMITTED], [Phase.COMMITTED], [Phase.UNDOING]):
        state = recorded
        for phase in way:
            state = state.to(phase, phase.value)
            assert state.record == "r"
    assert state.to(Phase.ABORTED, "a").record is None


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("intent", list(Intent))
def test_a_state_is_read_as_it_was_stored(phase: Phase, intent: Intent) -> None:
    state = in_phase(phase, intent)
    assert parse_token(state.token, "/p") == state


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("version", [0, 41])
@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("table_id", ["id", "0b5f8a9e-2f0a-4a41-9a54-0d5b8c9d3f11"])
def test_a_state_with_a_table_is_read_as_it_was_stored(
    phase: Phase, is_late: bool, version: int, table_id: str
) -> None:
    table = TableBase(table_id, version, is_late)
    state = replace(in_phase(phase, Intent.REPLACES), table=table)
    assert parse_token(state.token, "/p") == state
    assert table.read == (None if is_late else version)


def test_only_an_open_job_is_given_a_table() -> None:
    assert in_phase(Phase.OPEN).at(TableBase("id", 3), "fresh").table == TableBase("id", 3)
    for phase in set(Phase) - {Phase.OPEN}:
        with pytest.raises(ValueError, match="cannot be given a table"):
            in_phase(phase).at(TableBase("id", 3), "fresh")


@pytest.mark.parametrize("phase", list(Phase))
def test_a_token_is_a_short_plain_name_and_never_that_of_a_manifest(phase: Phase) -> None:
    record = new_nonce() if phase in WITH_RECORD else None
    token = JobState(phase, new_nonce(), new_nonce(), Intent.REPLACES, record).token
    assert is_name(token)
    assert len(token) < 100
    table = TableBase(str(uuid4()), 10**9, is_late=True)
    token = JobState(phase, new_nonce(), new_nonce(), Intent.REPLACES, record, table).token
    assert is_name(token)
    assert len(token) < 150
    assert token.endswith(STATE_SUFFIX)
    assert not token.endswith(MANIFEST_SUFFIX)
    assert SUFFIX == STATE_SUFFIX


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".state",
        "open.state",
        "open.appends.stamp.state",
        "open.sometimes.stamp.nonce.state",
        "opened.appends.stamp.nonce.state",
        "OPEN.appends.stamp.nonce.state",
        "open.appends.stamp.nonce.record.state",
        "recorded.appends.stamp.nonce.state",
        "recorded.appends.stamp.nonce.record.more.state",
        "sealed.replaces.stamp.nonce.state",
        "aborted.appends.stamp.nonce.record.state",
        "open.appends-id.stamp.nonce.state",
        "open.appends-id-x.stamp.nonce.state",
        "open.sometimes-id-1.stamp.nonce.state",
    ],
)
def test_what_this_version_cannot_have_stored_is_refused_by_name(token: str) -> None:
    with pytest.raises(
        ManifestError, match=r"/p/.*is not a job state that this version can read"
    ) as caught:
        parse_token(token, "/p")
    assert str(caught.value).startswith(f"/p/{token}: ")


def test_a_declared_state_keeps_its_time_until_the_next_change() -> None:
    declared = in_phase(Phase.OPEN).to(Phase.DECLARED, "fresh", 1_700_000_000_000)
    assert parse_token(declared.token, "/p") == declared
    assert declared.to(Phase.OPEN, "next").since is None


def test_an_object_that_is_no_state_is_not_shown_whole() -> None:
    with pytest.raises(ManifestError, match=r"/p/\[+: is not a job state") as caught:
        parse_token("[" * 1_000_000, "/p")
    assert len(str(caught.value)) < 500


def test_each_job_is_set_up_open_with_a_stamp_and_a_nonce_that_no_other_has() -> None:
    states = [new_state() for _ in range(100)]
    assert {state.phase for state in states} == {Phase.OPEN}
    assert len({name for state in states for name in (state.stamp, state.nonce)}) == 200
    assert new_state(Intent.REPLACES).intent is Intent.REPLACES
    assert new_state(stamp=UNSTAMPED).stamp == UNSTAMPED


@pytest.mark.parametrize("phase", list(Phase))
def test_only_what_is_open_or_declared_is_undecided(phase: Phase) -> None:
    assert in_phase(phase).is_decided is (phase not in (Phase.OPEN, Phase.DECLARED))


def test_what_still_moves_or_may_move_files_is_in_the_way_of_others() -> None:
    assert set(Phase) - IN_THE_WAY == {Phase.OPEN, Phase.COMMITTED, Phase.ABORTED}
