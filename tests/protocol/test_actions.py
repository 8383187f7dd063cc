"""Actions: what the etag of a completed upload is."""

from __future__ import annotations

from hashlib import md5

import pytest

from ray_committer.protocol.actions import predict_etag

PARTS = [md5(data).hexdigest() for data in (b"first", b"second")]


def test_the_etag_of_an_upload_is_that_of_its_parts_and_their_number() -> None:
    joined = md5(md5(b"first").digest() + md5(b"second").digest()).hexdigest()
    assert predict_etag(PARTS) == f"{joined}-2"
    assert predict_etag(PARTS[:1]) == f"{md5(md5(b'first').digest()).hexdigest()}-1"


@pytest.mark.parametrize(
    "parts", [[], ["abc"], [*PARTS, "x" * 32], [PARTS[0].upper()], [f'"{PARTS[0]}"']]
)
def test_nothing_is_predicted_from_etags_that_are_not_md5_sums(parts: list[str]) -> None:
    assert predict_etag(parts) is None
