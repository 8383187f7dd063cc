"""The second look finds the very names behind fingerprints, and whose they are."""

from __future__ import annotations

from collections import Counter

import pytest

from ray_committer.errors import PackChangedError, mark
from ray_committer.protocol.fingerprints import fingerprint
from ray_committer.protocol.pack import Pack
from ray_committer.stages.checks.find_destinations import find_destinations
from ray_committer.stages.load_manifests import save_packs
from ray_committer.testing import MemoryStore, WrappedStore
from tests.stages.support import (
    JOB,
    at,
    context,
    freeze,
    loaded,
    requests,
    source_path,
    with_job,
)

TASKS = {n: {f"p={n}/{name}": b"x" for name in "ab"} for n in range(5)}


@pytest.fixture
def memory() -> MemoryStore:
    store = with_job(TASKS)
    freeze(store)
    return store


def find(store, packs, *paths: str) -> list[tuple[str, str]]:
    return sorted(find_destinations(context(store), packs, frozenset(map(fingerprint, paths))))


def saved(store) -> tuple[Pack, ...]:
    """The packs as another process knows them."""
    found = context(store)
    return tuple(Pack(pack.ref) for pack in save_packs(found, loaded(found)).packs)


@pytest.mark.parametrize("wanted", [[], ["/table/p=1/a"], ["/table/p=1/a", "/table/p=4/b"]])
def test_a_destination_is_found_with_the_file_that_goes_there(memory: MemoryStore, wanted: list[str]):
    sources = [mark(source_path(int(path[9]), path.removeprefix("/table/"))) for path in wanted]
    assert find(memory, saved(memory), *wanted) == list(zip(wanted, sources, strict=True))


def test_a_name_that_no_pack_has_is_not_found(memory: MemoryStore):
    assert find(memory, saved(memory), "/table/p=1", "/table/p=1/c") == []


def test_two_entries_of_one_destination_are_both_found(memory: MemoryStore):
    (pack,) = saved(memory)
    assert [path for path, _ in find(memory, (pack, pack), "/table/p=0/a")] == ["/table/p=0/a"] * 2


def test_each_pack_is_read_once_unless_it_is_in_memory(memory: MemoryStore):
    packs, known = saved(memory), loaded(context(memory)).packs
    assert requests(memory, lambda one: find(one, packs, "/table/p=1/a")) == Counter(read=1)
    assert requests(memory, lambda one: find(one, known, "/table/p=1/a")) == Counter()


@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_a_pack_that_cannot_be_read_is_an_error_and_not_one_without_the_name(memory, error):
    packs = saved(memory)
    with pytest.raises(error):
        find(WrappedStore(memory, before=at("read", error("simulated"))), packs, "/table/p=1/a")


def test_a_pack_that_was_replaced_is_not_believed(memory: MemoryStore):
    packs = saved(memory)
    path = f"{JOB.packs}/{packs[0].ref.name}"
    memory.write(path, b"")
    with pytest.raises(PackChangedError, match=path):
        find(memory, packs, "/table/p=1/a")
