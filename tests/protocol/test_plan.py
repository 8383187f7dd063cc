"""The rename plan: every entry in exactly one shard, in order, no shard too large."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_committer.protocol.pack import Pack, PackRef
from ray_committer.protocol.plan import Shard, plan_shards, shard_size

counts = st.lists(st.integers(0, 40), max_size=12)
sizes = st.integers(1, 50)


def packs(files: Sequence[int]) -> list[Pack]:
    return [Pack(PackRef(str(index), "", 1, number, 0)) for index, number in enumerate(files)]


def planned(files: Sequence[int], shard_files: int, sample: int = 0) -> list[Shard]:
    return list(plan_shards(packs(files), shard_files=lambda _: shard_files, sample=sample))


def entries(shards: Sequence[Shard]) -> list[tuple[int, int]]:
    return [(shard.index, number) for shard in shards for number in range(shard.low, shard.high)]


@given(counts, sizes)
def test_every_entry_is_planned_exactly_once_and_in_order(files: list[int], size: int) -> None:
    wanted = [(index, number) for index, total in enumerate(files) for number in range(total)]
    assert entries(planned(files, size)) == wanted


@given(counts, sizes)
def test_all_shards_but_the_last_of_a_pack_are_full(files: list[int], size: int) -> None:
    shards = planned(files, size)
    assert all(
        shard.files == size or (shard.files < size and shard.high == files[shard.index])
        for shard in shards
    )
    assert [shard.number for shard in shards] == list(range(len(shards)))
    assert [shard.start for shard in shards] == [
        sum(before.files for before in shards[:number]) for number in range(len(shards))
    ]


@given(counts, sizes)
def test_a_shard_names_its_pack_and_is_never_empty(files: list[int], size: int) -> None:
    known = packs(files)
    for shard in plan_shards(known, shard_files=lambda _: size, sample=0):
        assert shard.pack is known[shard.index]
        assert 0 <= shard.low < shard.high <= shard.pack.files


@given(counts, sizes, st.integers(0, 150))
def test_the_first_entries_are_to_be_named(files: list[int], size: int, sample: int) -> None:
    shards = planned(files, size, sample)
    named = sum(min(shard.sample, shard.files) for shard in shards)
    assert named == min(sample, sum(files))
    assert all(shard.sample == max(0, sample - shard.start) for shard in shards)


@pytest.mark.parametrize("files", [[], [0], [0, 0, 0]])
def test_a_job_without_files_has_no_shard(files: list[int]) -> None:
    assert planned(files, 10) == []


def test_a_huge_plan_is_lazy() -> None:
    shards = plan_shards(packs([10**12]), shard_files=lambda _: 250, sample=100)
    assert [shard.files for shard in islice(shards, 3)] == [250, 250, 250]


@pytest.mark.parametrize(
    ("threads", "seconds_a_file", "files"),
    [
        (16, 0.010, 160),
        (32, 0.010, 320),
        (16, 0.001, 1000),
        (16, 0.0, 1000),
        (16, 0.1, 32),  # never fewer than two for each thread,
        (64, 0.2, 128),
        (32, float("inf"), 64),
        (1, 1.0, 4),  # and four
        (600, 0.2, 1000),  # and never more than 1,000
        (1, 0.001, 500),  # one thread, half a second
    ],
)
def test_a_shard_is_what_its_threads_rename_in_a_tenth_of_a_second(
    threads: int, seconds_a_file: float, files: int
) -> None:
    assert shard_size(threads=threads, seconds_a_file=seconds_a_file) == files


@given(st.integers(1, 500), st.floats(0, 1000), st.floats(0, 1000))
def test_slower_files_make_no_larger_shards(threads: int, one: float, other: float) -> None:
    sizes = [shard_size(threads=threads, seconds_a_file=each) for each in sorted((one, other))]
    assert 1000 >= sizes[0] >= sizes[1] >= 4


@given(counts, st.lists(sizes, min_size=1, max_size=100), st.integers(0, 150))
def test_each_shard_has_the_size_that_was_asked_for_it(
    files: list[int], wanted: list[int], sample: int
) -> None:
    asked = iter(wanted * 500)
    shards = list(plan_shards(packs(files), shard_files=lambda _: next(asked), sample=sample))
    left = [files[shard.index] - shard.low for shard in shards]
    assert [shard.files for shard in shards] == list(map(min, wanted * 500, left))
    assert sum(shard.files for shard in shards) == sum(files)


def test_a_shard_says_which_files_it_has():
    _, second = planned([3, 5], 6)
    assert str(second) == "shard 1, 5 files, 0 to 4 of pack 1"
