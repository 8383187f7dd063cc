"""Fingerprints: every repeated path is found, none is invented."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_committer.protocol import fingerprints as module
from ray_committer.protocol.fingerprints import (
    WIDTH,
    common,
    fingerprint,
    fingerprints,
    repeated,
    share_of,
)

short_paths = st.lists(st.lists(st.text("ab/é", max_size=3), max_size=8), max_size=6)
marks = st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 3), max_size=8), max_size=6)


@pytest.fixture(scope="module", params=[0, module.FEW], ids=["with numpy", "without"], autouse=True)
def few(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW", request.param)
        yield


@given(short_paths)
def test_repeated_paths_are_those_that_a_counter_finds(parts: list[list[str]]) -> None:
    counted = Counter(path for part in parts for path in part)
    wanted = {fingerprint(path) for path, number in counted.items() if number > 1}
    assert repeated([fingerprints(part) for part in parts]) == wanted


@given(marks)
def test_repeated_keeps_the_bytes_of_any_fingerprint(parts: list[list[int]]) -> None:
    encoded = [[number.to_bytes(WIDTH, "little") for number in part] for part in parts]
    counted = Counter(mark for part in encoded for mark in part)
    assert repeated(b"".join(part) for part in encoded) == {m for m, n in counted.items() if n > 1}


@pytest.mark.parametrize("parts", [[], [b""], [b"", b""], [fingerprint("/a")], [b"", fingerprint("/a")]])
def test_nothing_is_repeated_among_none_or_one(parts: list[bytes]) -> None:
    assert repeated(parts) == frozenset()


def test_fingerprints_keep_the_order_and_width() -> None:
    paths = ["/a", "/é", "/a b"]
    assert fingerprints(paths) == fingerprint("/a") + fingerprint("/é") + fingerprint("/a b")
    assert {len(fingerprint(path)) for path in paths} == {WIDTH} == {8}


def test_fingerprints_are_the_same_in_every_process() -> None:
    # Workers compute them in other processes, so Python's salted hash() would not do.
    assert fingerprint("/d/part-00000").hex() == "88bc0c8cd8d7def6"


@given(marks, st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 3), max_size=8))
def test_common_is_what_two_sets_have_in_common(parts: list[list[int]], wanted: list[int]) -> None:
    def encode(numbers: list[int]) -> bytes:
        return b"".join(number.to_bytes(WIDTH, "little") for number in numbers)

    there = {number for part in parts for number in part}
    found = {number.to_bytes(WIDTH, "little") for number in there & set(wanted)}
    assert common((encode(part) for part in parts), encode(wanted)) == found


@given(st.binary(min_size=WIDTH, max_size=WIDTH), st.integers(1, 1000))
def test_every_fingerprint_has_one_share(mark: bytes, shares: int) -> None:
    assert 0 <= share_of(mark, shares) < shares
    assert share_of(mark, 1) == 0


def test_shares_are_the_same_in_every_process_and_about_equal() -> None:
    assert share_of(b"\x05" + bytes(6) + b"\x01", 16) == 5
    counted = Counter(share_of(fingerprint(f"/d/{number}"), 4) for number in range(4000))
    assert sorted(counted) == [0, 1, 2, 3]
    assert min(counted.values()) > 900
