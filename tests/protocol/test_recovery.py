"""``judge_rename`` as one table: the two ends of a rename, the evidence, and the only verdict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_committer.protocol.recovery import (
    Expectation,
    Judgement,
    Observation,
    Proof,
    Verdict,
    judge_rename,
    prove,
)

SIZE = Expectation(10)
TIMED = Expectation(10, modified_milliseconds=1000)
TAGGED = Expectation(10, etag="x")
BOTH = Expectation(10, etag="x", modified_milliseconds=1000)

CONFLICT = Judgement(Verdict.CONFLICT)
LOST = Judgement(Verdict.LOST)
NOT_DONE = Judgement(Verdict.NOT_DONE)


def done(proof: Proof) -> Judgement:
    return Judgement(Verdict.DONE, proof)


def seen(
    size: int = 10, etag: str | None = None, mtime: int | None = None, file_id: str | None = None
) -> Observation:
    return Observation(size, etag, mtime, file_id)


@pytest.mark.parametrize(
    ("expected", "source", "dest", "verdict"),
    [
        # Neither end: whatever was expected, the data is gone.
        (SIZE, None, None, LOST),
        (BOTH, None, None, LOST),
        # Source only: not done, even if the source is not what the manifest says.
        (SIZE, seen(), None, NOT_DONE),
        (BOTH, seen(etag="x", mtime=1000), None, NOT_DONE),
        (BOTH, seen(11, "y", 2000), None, NOT_DONE),
        # Both ends: a conflict even if every property is equal...
        (SIZE, seen(), seen(), CONFLICT),
        (SIZE, seen(), seen(11), CONFLICT),
        (TIMED, seen(mtime=1000), seen(mtime=1000), CONFLICT),
        (TAGGED, seen(etag="x"), seen(etag="x"), CONFLICT),
        (BOTH, seen(etag="x", mtime=1000), seen(etag="x", mtime=1000), CONFLICT),
        (SIZE, seen(file_id="1"), seen(file_id="2"), CONFLICT),
        (SIZE, seen(file_id="1"), seen(), CONFLICT),
        (SIZE, seen(), seen(file_id="1"), CONFLICT),
        # ...unless they are one file under two names.
        (SIZE, seen(file_id="1"), seen(file_id="1"), done(Proof.SAME_FILE)),
        (BOTH, seen(etag="x", file_id="1"), seen(etag="x", file_id="1"), done(Proof.SAME_FILE)),
        # Destination only, size alone is known.
        (SIZE, None, seen(), done(Proof.SIZE_ONLY)),
        (SIZE, None, seen(11), CONFLICT),
        (SIZE, None, seen(0), CONFLICT),
        (SIZE, None, seen(etag="y", mtime=5), done(Proof.SIZE_ONLY)),
        (Expectation(0), None, seen(0), done(Proof.SIZE_ONLY)),
        # Destination only, with the modification time.
        (TIMED, None, seen(mtime=1000), done(Proof.MODIFICATION_TIME)),
        (TIMED, None, seen(mtime=1001), CONFLICT),
        (TIMED, None, seen(mtime=999), CONFLICT),
        (TIMED, None, seen(11, mtime=1000), CONFLICT),
        (TIMED, None, seen(), done(Proof.SIZE_ONLY)),
        (Expectation(10, modified_milliseconds=0), None, seen(mtime=0), done(Proof.MODIFICATION_TIME)),
        (Expectation(10, modified_milliseconds=0), None, seen(mtime=1000), CONFLICT),
        (TIMED, None, seen(mtime=0), CONFLICT),
        # Destination only, with the etag, which outranks the time.
        (TAGGED, None, seen(etag="x"), done(Proof.ETAG)),
        (TAGGED, None, seen(etag="y"), CONFLICT),
        (TAGGED, None, seen(11, "x"), CONFLICT),
        (TAGGED, None, seen(mtime=1000), done(Proof.SIZE_ONLY)),
        (BOTH, None, seen(etag="x", mtime=9), done(Proof.ETAG)),
        (BOTH, None, seen(etag="y", mtime=1000), CONFLICT),
        (BOTH, None, seen(mtime=1000), done(Proof.MODIFICATION_TIME)),
        (BOTH, None, seen(mtime=1001), CONFLICT),
        (Expectation(10, etag=""), None, seen(etag=""), done(Proof.SIZE_ONLY)),
        (Expectation(10, "", 1000), None, seen(etag="", mtime=1001), CONFLICT),
        # An identity of the destination alone proves nothing.
        (SIZE, None, seen(11, file_id="1"), CONFLICT),
    ],
)
def test_judgement_table(
    expected: Expectation, source: Observation | None, dest: Observation | None, verdict: Judgement
) -> None:
    assert judge_rename(expected, source, dest) == verdict


tags = st.none() | st.sampled_from(["", "x", "y"])
times = st.none() | st.sampled_from([0, 1000])
expectations = st.builds(Expectation, st.sampled_from([0, 10]), tags, times)
observations = st.builds(Observation, st.sampled_from([0, 10]), tags, times, st.none() | st.just("1"))


@given(expectations, st.none() | observations, st.none() | observations)
def test_done_is_never_said_without_proof(
    expected: Expectation, source: Observation | None, dest: Observation | None
) -> None:
    judgement = judge_rename(expected, source, dest)
    assert (judgement.verdict is Verdict.DONE) == (judgement.proof is not None)
    if judgement.verdict is Verdict.DONE:
        assert dest is not None
        assert (source is not None) == (judgement.proof is Proof.SAME_FILE)


@given(expectations, observations)
def test_a_known_difference_is_never_proved_away(expected: Expectation, dest: Observation) -> None:
    if expected.size != dest.size or (expected.etag and dest.etag and expected.etag != dest.etag):
        assert prove(expected, dest) is None


@given(expectations)
def test_a_file_as_expected_is_always_proved(expected: Expectation) -> None:
    dest = Observation(expected.size, expected.etag, expected.modified_milliseconds)
    assert judge_rename(expected, None, dest).verdict is Verdict.DONE
