"""What must be at the destination, packed: all of it comes back, each directory to one share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_committer.protocol import expected_files as module
from ray_committer.protocol.expected_files import by_directory, etag_number, hashed_etag, pack_expected
from ray_committer.protocol.fingerprints import fingerprint, share_of
from ray_committer.protocol.paths import parent
from ray_committer.protocol.recovery import Expectation, Proof, prove

expectations = st.builds(
    Expectation,
    size=st.integers(0, 2**62),
    etag=st.none() | st.text(max_size=3),
    modified_milliseconds=st.none() | st.integers(-(2**62), 2**62),
)
names = st.lists(st.sampled_from(["a", "b", "é", "p=1"]), min_size=1, max_size=3)
files = st.dictionaries(names.map(lambda parts: "/" + "/".join(parts)), expectations, max_size=20)


@pytest.fixture(scope="module", params=[0, module.FEW], ids=["with numpy", "without"], autouse=True)
def few(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW", request.param)
        yield


def hashed(expected: Expectation) -> Expectation:
    return Expectation(expected.size, hashed_etag(expected.etag), expected.modified_milliseconds)


@given(files, st.integers(1, 5), st.integers(1, 4))
def test_every_file_comes_back_once_in_the_share_of_its_directory(
    expected: dict[str, Expectation], shares: int, parts: int
) -> None:
    items = list(expected.items())
    packed = [pack_expected(items[number::parts]) for number in range(parts)]
    assert sum(map(len, packed)) == 40 * len(items)
    found = [by_directory(packed, number, shares) for number in range(shares)]
    for path, each in expected.items():
        directory = fingerprint(parent(path))
        own = share_of(directory, shares)
        assert found[own][directory][fingerprint(path)] == hashed(each)
    assert sum(len(inside) for share in found for inside in share.values()) == len(expected)
    for number, share in enumerate(found):
        assert all(share_of(directory, shares) == number for directory in share)


@pytest.mark.parametrize("modified", [None, 0, -1, 1_700_000_000_000])
@pytest.mark.parametrize("etag", [None, "", "0x8D"])
def test_what_is_not_known_stays_unknown(modified: int | None, etag: str | None) -> None:
    packed = pack_expected([("/d/f", Expectation(0, etag, modified))])
    (found,) = by_directory([packed], 0, 1)[fingerprint("/d")].values()
    assert found.size == 0
    assert found.modified_milliseconds == modified
    assert (found.etag is None) is not bool(etag)


@pytest.mark.parametrize("parts", [[], [b""], [b"", b""]])
def test_no_files_are_no_directories(parts: list[bytes]) -> None:
    assert by_directory(parts, 0, 3) == {}
    assert pack_expected([]) == b""


@given(st.text(min_size=1, max_size=5), st.text(min_size=1, max_size=5))
def test_etags_are_equal_when_they_were(one: str, other: str) -> None:
    assert (hashed_etag(one) == hashed_etag(other)) is (one == other)
    proof = prove(Expectation(1, hashed_etag(one)), Expectation(1, hashed_etag(other)))  # type: ignore[arg-type]
    assert proof is (Proof.ETAG if one == other else None)


def test_no_etag_is_no_number() -> None:
    assert etag_number(None) == etag_number("") == 0
    assert hashed_etag(None) is hashed_etag("") is None
    assert etag_number("x") == int.from_bytes(fingerprint("x"), "little") > 0
