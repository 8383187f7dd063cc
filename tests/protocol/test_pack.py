"""A pack gives back the entries that were put into it, in order, also some of them and after a join."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_committer.protocol.actions import CompleteUpload, Rename
from ray_committer.protocol.pack import (
    NO_SECTIONS,
    Entry,
    decode_section,
    encode_section,
    joined,
    pack_name,
    sections_of,
)
from ray_committer.protocol.recovery import Expectation

TASKS = "/table/_temporary/job_1/00/tasks"

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1)
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
maybe = st.none() | st.text(st.characters(exclude_categories=["Cs"]))
expected = st.builds(
    Expectation,
    size=st.integers(0, 2**62),
    etag=maybe,
    modified_milliseconds=st.none() | st.integers(0, 2**60),
)
renames = st.builds(
    Rename,
    source=paths.map(f"{TASKS}/{{}}".format),
    dest=paths.map("/{}".format),
    expected=expected,
    version=maybe,
)
uploads = st.builds(
    CompleteUpload,
    dest=paths.map("/{}".format),
    id=names,
    parts=st.lists(names, max_size=2).map(tuple),
    etag=maybe,
    stamp=maybe,
    task=maybe,
    job=maybe,
    size=st.integers(0, 2**62),
)
entries = st.lists(renames, max_size=12) | st.lists(uploads, max_size=12)


def decoded(data: bytes) -> list[Entry]:
    return [entry for place in sections_of(data) for entry in decode_section(data, place).entries(TASKS)]


@given(entries)
def test_what_is_packed_comes_back(given_entries: list[Entry]) -> None:
    sections = encode_section(given_entries, TASKS)
    assert decoded(sections.data) == given_entries
    assert sections.files == len(given_entries)
    assert sections.size == sum(entry.expected.size for entry in given_entries)


@given(entries, st.integers(0, 12), st.integers(0, 12))
def test_a_part_of_a_section_is_that_part(given_entries: list[Entry], low: int, high: int) -> None:
    data = encode_section(given_entries, TASKS).data
    for place in sections_of(data):
        assert decode_section(data, place).entries(TASKS, low, high) == given_entries[low:high]


@given(entries, st.integers(0, 12), st.integers(0, 12), st.sets(st.integers(0, 11)))
def test_a_part_without_some_directories_has_the_other_files_of_that_part(
    given_entries: list[Entry], low: int, high: int, left_out: set[int]
) -> None:
    def directory_of(entry: Entry) -> str:
        if isinstance(entry, CompleteUpload):
            return "it has no source"
        return entry.source.removeprefix(f"{TASKS}/").rpartition("/")[0]

    without = {directory_of(entry) for n, entry in enumerate(given_entries) if n in left_out}
    without.discard("it has no source")
    data = encode_section(given_entries, TASKS).data
    for place in sections_of(data):
        found = decode_section(data, place).entries(TASKS, low, high, without)
        assert found == [
            entry for entry in given_entries[low:high] if directory_of(entry) not in without
        ]


@given(st.lists(entries, max_size=4))
def test_sections_that_are_joined_have_the_entries_of_all(groups: list[list[Entry]]) -> None:
    whole = joined([encode_section(group, TASKS) for group in groups])
    assert decoded(whole.data) == [entry for group in groups for entry in group]
    places = list(sections_of(whole.data))
    assert [place.first for place in places] == [
        sum(before.files for before in places[:number]) for number in range(len(places))
    ]


def test_each_directory_is_named_once_and_those_without_files_are_kept() -> None:
    made = [Rename(f"{TASKS}/a/p=1/{n}", f"/table/p=1/{n}", Expectation(n)) for n in range(3)]
    data = encode_section(made, TASKS, ["/table/p=1", "/table/p=2"]).data
    (place,) = sections_of(data)
    section = decode_section(data, place)
    assert list(section.directories) == ["/table/p=2", "/table/p=1"]
    assert section.sources == ["a/p=1"]
    assert data.count(b"p=1") == 2


def test_directories_alone_are_a_section_and_nothing_is_none() -> None:
    (place,) = sections_of(encode_section([], TASKS, ["/table/empty"]).data)
    assert place.files == 0
    assert encode_section([], TASKS) == NO_SECTIONS


@pytest.mark.parametrize("files", [1, 500])
def test_an_entry_takes_less_than_its_paths(files: int) -> None:
    name = "part-{:05d}-3f2a8c1e-1111-2222-3333-444455556666.c000.snappy.parquet"
    made = [
        Rename(
            f"{TASKS}/attempt_1_m_000001_0/{name.format(n)}",
            f"/table/{name.format(n)}",
            Expectation(n, None, n),
        )
        for n in range(files)
    ]
    assert len(encode_section(made, TASKS).data) < files * (len(name) + 20) + 100


def test_a_pack_is_known_by_its_digest_and_its_name_by_its_writer() -> None:
    sections = encode_section([Rename(f"{TASKS}/a", "/table/a", Expectation(7))], TASKS)
    pack = sections.pack()
    assert pack.ref.digest == sha256(sections.data).hexdigest()
    assert (pack.ref.name, pack.ref.size, pack.ref.files, pack.ref.bytes) == (
        "",
        len(sections.data),
        1,
        7,
    )
    assert pack_name("nonce", pack.ref.digest) == f"nonce-{pack.ref.digest[:16]}"
