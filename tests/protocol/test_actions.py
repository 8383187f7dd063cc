"""Actions: what the answer to a completion means, and what the etag of a completed upload is."""

from __future__ import annotations

import itertools
from hashlib import md5

import pytest

from ray_committer.protocol.actions import (
    Answer,
    CompleteUpload,
    Place,
    compare_place,
    judge_complete,
    predict_etag,
)
from ray_committer.protocol.recovery import Judgement, Observation, Proof, Verdict

PARTS = [md5(data).hexdigest() for data in (b"first", b"second")]
DONE, NOT_DONE, LOST, CONFLICT = (
    Judgement(one) for one in (Verdict.DONE, Verdict.NOT_DONE, Verdict.LOST, Verdict.CONFLICT)
)
BY_ETAG, BY_STAMP = Judgement(Verdict.DONE, Proof.ETAG), Judgement(Verdict.DONE, Proof.STAMP)

TABLE = [
    # the answer, what is at the destination, whether the upload is pending
    (Answer.DONE, None, None, DONE),
    (Answer.UNCLEAR, None, None, NOT_DONE),
    (Answer.UNCLEAR, Place.EMPTY, True, NOT_DONE),
    (Answer.UNCLEAR, Place.OTHER, True, NOT_DONE),  # the next answer says that it is taken
    (Answer.UNCLEAR, Place.SAME_ETAG, False, BY_ETAG),  # moto answers 500 for an upload that is gone
    (Answer.UNCLEAR, Place.EMPTY, False, LOST),
    (Answer.UNCLEAR, Place.OTHER, False, CONFLICT),
    (Answer.NO_UPLOAD, None, None, NOT_DONE),
    (Answer.NO_UPLOAD, Place.SAME_ETAG, None, BY_ETAG),
    (Answer.NO_UPLOAD, Place.SAME_STAMP, None, BY_STAMP),
    (Answer.NO_UPLOAD, Place.EMPTY, None, LOST),
    (Answer.NO_UPLOAD, Place.OTHER, None, CONFLICT),
    (Answer.NO_UPLOAD, Place.SAME_ETAG, True, BY_ETAG),  # the answer is newer than that look
    (Answer.TAKEN, Place.SAME_ETAG, False, BY_ETAG),
    (Answer.TAKEN, Place.SAME_STAMP, False, BY_STAMP),
    (Answer.TAKEN, Place.SAME_ETAG, True, CONFLICT),  # an older file with the same bytes
    (Answer.TAKEN, Place.OTHER, True, CONFLICT),
    (Answer.TAKEN, Place.OTHER, False, CONFLICT),
    (Answer.TAKEN, Place.EMPTY, True, NOT_DONE),  # what was there is gone
    (Answer.TAKEN, Place.EMPTY, False, LOST),
    (Answer.TAKEN, Place.OTHER, None, NOT_DONE),
]


@pytest.mark.parametrize(("answer", "place", "is_pending", "judgement"), TABLE)
def test_each_answer_is_judged_by_what_the_store_shows(
    answer: Answer, place: Place | None, is_pending: bool | None, judgement: Judgement
):
    assert judge_complete(answer, place, is_pending) == judgement


def test_nothing_but_a_confirmation_or_a_proof_counts_as_done():
    for answer, place, is_pending in itertools.product(Answer, (None, *Place), (None, True, False)):
        found = judge_complete(answer, place, is_pending)
        if found.verdict is Verdict.DONE and answer is not Answer.DONE:
            assert place in (Place.SAME_ETAG, Place.SAME_STAMP)
            assert found.proof is not None
            assert answer is Answer.NO_UPLOAD or is_pending is False


def test_a_pending_upload_is_never_lost_and_never_done_without_a_confirmation():
    for answer, place in itertools.product((Answer.UNCLEAR, Answer.TAKEN), Place):
        assert judge_complete(answer, place, True).verdict in (Verdict.NOT_DONE, Verdict.CONFLICT)


def action(etag: str | None = "e-1", stamp: str | None = "s") -> CompleteUpload:
    return CompleteUpload("/d", "id", ("p",), etag, stamp, size=5)


@pytest.mark.parametrize(
    ("wanted", "found", "stamp", "place"),
    [
        (action(), None, None, Place.EMPTY),
        (action(), Observation(5, "e-1"), None, Place.SAME_ETAG),
        (action(), Observation(5, "e-1"), "another", Place.SAME_ETAG),  # S3A sets no stamp
        (action(), Observation(5, "e-2"), "s", Place.OTHER),  # another file of the same job
        (action(), Observation(6, "e-1"), "s", Place.OTHER),
        (action(etag=None), Observation(5, "e-1"), "s", Place.SAME_STAMP),
        (action(etag=None), Observation(5, "e-1"), "another", Place.OTHER),
        (action(etag=None), Observation(5, "e-1"), None, Place.OTHER),
        (action(etag=None), Observation(6, "e-1"), "s", Place.OTHER),
        (action(None, None), Observation(5, "e-1"), None, Place.OTHER),  # nothing proves anything
    ],
)
def test_a_file_is_ours_by_its_etag_or_by_the_stamp_of_the_job(
    wanted: CompleteUpload, found: Observation | None, stamp: str | None, place: Place
):
    assert compare_place(wanted, found, stamp) is place


def test_the_etag_of_an_upload_is_that_of_its_parts_and_their_number() -> None:
    joined = md5(md5(b"first").digest() + md5(b"second").digest()).hexdigest()
    assert predict_etag(PARTS) == f"{joined}-2"
    assert predict_etag(PARTS[:1]) == f"{md5(md5(b'first').digest()).hexdigest()}-1"


@pytest.mark.parametrize(
    "parts", [[], ["abc"], [*PARTS, "x" * 32], [PARTS[0].upper()], [f'"{PARTS[0]}"']]
)
def test_nothing_is_predicted_from_etags_that_are_not_md5_sums(parts: list[str]) -> None:
    assert predict_etag(parts) is None
