"""File lists: what is inline, where lists are cut, and that a list that was changed is refused."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_committer.errors import TableLogError
from ray_committer.protocol.file_list import (
    MOST_FILES,
    MOST_INLINE,
    NO_PACKED,
    ListedFile,
    are_inline,
    cut,
    decode_file_list,
    inline_set,
    listed_set,
    pack,
    partition_of,
    unpack,
)
from ray_committer.protocol.paths import is_name

text = st.text(st.characters(exclude_categories=["Cs"]))
listed = st.builds(
    ListedFile,
    path=text,
    size=st.integers(0, 2**60),
    modified_milliseconds=st.none() | st.integers(0, 2**53),
    etag=st.none() | text,
)


def some(count: int) -> list[ListedFile]:
    return [
        ListedFile(f"day={number % 7}/{number}", number, modified_milliseconds=number)
        for number in range(count)
    ]


@given(st.lists(listed, min_size=1, max_size=5))
def test_file_lists_round_trip(files: list[ListedFile]):
    (packed,) = cut(files)
    assert decode_file_list(packed.data, packed.digest, "/p") == unpack(packed) == files
    assert (packed.files, packed.size) == (len(files), sum(file.size for file in files))


@given(st.lists(st.lists(listed, max_size=3), max_size=3))
def test_the_sum_of_packed_files_is_the_list_of_all(parts: list[list[ListedFile]]):
    whole = sum(map(pack, parts), NO_PACKED)
    files = [file for part in parts for file in part]
    assert decode_file_list(whole.data, whole.digest, "/p") == files
    assert (whole.files, whole.size) == (len(files), sum(file.size for file in files))


@pytest.mark.parametrize(("count", "inline"), [(0, True), (MOST_INLINE, True), (MOST_INLINE + 1, False)])
def test_a_few_files_are_inline(count: int, inline: bool):
    assert are_inline(count) is inline
    found = inline_set(some(count))
    assert (found.inline, found.lists) == (some(count), [])
    assert (found.files, found.bytes) == (count, sum(range(count)))


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(0, []), (MOST_FILES, [MOST_FILES]), (2 * MOST_FILES + 1, [MOST_FILES, MOST_FILES, 1])],
)
def test_files_are_cut_into_lists_that_hold_each_once_and_in_order(count: int, sizes: list[int]):
    lists = list(cut(some(count)))
    assert [one.files for one in lists] == sizes
    assert [file for one in lists for file in unpack(one)] == some(count)


def test_a_list_has_a_name_of_its_own_that_is_never_as_data_is():
    first, again = pack(some(2)).listed("nonce"), pack(some(2)).listed("another nonce")
    assert first.digest == again.digest
    assert first.name != again.name
    assert is_name(first.name)
    assert first.name.startswith(first.digest[:8])
    assert first.name.endswith(".z")


def test_a_list_takes_few_bytes_per_file():
    run = "5014639f-3f2c-436a-b488-babe56eed15c"
    places = [f"day=2024-01-{day:02d}/part-{task:05d}" for day in range(1, 11) for task in range(1_000)]
    files = [
        ListedFile(f"{place}-{run}.parquet", 1_000_000 + 7919 * task, 1_700_000_000_000 + 37 * task)
        for task, place in enumerate(places)
    ]
    assert len(pack(files).data) < 24 * len(files)


def test_sets_of_lists_are_summed():
    parts = [pack(some(10)).listed(str(number)) for number in range(3)]
    assert (listed_set(parts).files, listed_set(parts).bytes) == (30, 135)
    assert inline_set(some(10)).bytes == 45


def _lists() -> tuple[str, dict[str, bytes]]:
    packed, other = pack(some(3)), pack(some(4)).data
    data = packed.data
    return packed.digest, {
        "empty": b"",
        "truncated": data[:-1],
        "cut to nothing": data[:5],
        "not compressed": zlib.decompress(data),
        "a bit flipped": data[:-1] + bytes([data[-1] ^ 1]),
        "another list": other,
        "no lines": zlib.compress(b"{"),
    }


@pytest.mark.parametrize("what", _lists()[1])
def test_a_list_that_is_not_the_one_named_is_refused_by_name(what: str):
    digest, bad = _lists()
    with pytest.raises(TableLogError, match=r"^/p: is not the file list") as caught:
        decode_file_list(bad[what], digest, "/p")
    assert "ray-committer table log" in caught.value.advice


@pytest.mark.parametrize(
    ("path", "partition"), [("a", ""), ("day=1/a", "day=1"), ("day=1/hour=2/a", "day=1/hour=2")]
)
def test_the_partition_of_a_file_is_its_directory(path: str, partition: str):
    assert partition_of(path) == partition
