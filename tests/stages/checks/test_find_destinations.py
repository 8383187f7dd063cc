"""The second look finds the very names behind fingerprints, and whose they are."""

from __future__ import annotations

from collections import Counter

import pytest

from ray_committer.errors import ManifestChangedError
from ray_committer.protocol.fingerprints import fingerprint
from ray_committer.stages.checks.find_destinations import find_destinations
from ray_committer.testing import MemoryStore, WrappedStore
from tests.stages.support import (
    at,
    context,
    freeze,
    frozen_path,
    loaded,
    requests,
    stamp_of_job,
    with_job,
)

TASKS = {n: {f"p={n}/{name}": b"x" for name in "ab"} for n in range(5)}


@pytest.fixture
def memory() -> MemoryStore:
    store = with_job(TASKS)
    freeze(store)
    return store


def find(store, refs, *paths: str) -> list[tuple[str, str]]:
    return sorted(find_destinations(context(store), refs, frozenset(map(fingerprint, paths))))


@pytest.mark.parametrize("wanted", [[], ["/table/p=1/a"], ["/table/p=1/a", "/table/p=4/b"]])
def test_a_destination_is_found_with_the_manifest_that_names_it(memory: MemoryStore, wanted: list[str]):
    refs = loaded(context(memory)).manifests
    names = [f"task_job_1_m_{int(path[9]):06d}-manifest.json" for path in wanted]
    assert find(memory, refs, *wanted) == list(zip(wanted, names, strict=True))


def test_a_name_that_no_manifest_has_is_not_found(memory: MemoryStore):
    assert find(memory, loaded(context(memory)).manifests, "/table/p=1", "/table/p=1/c") == []


def test_two_manifests_of_one_destination_are_both_found(memory: MemoryStore):
    refs = loaded(context(memory)).manifests
    assert find(memory, (refs[0], refs[0]), "/table/p=0/a") == [("/table/p=0/a", refs[0].name)] * 2


def test_each_manifest_is_read_once_unless_this_process_knows_it(memory: MemoryStore):
    refs = loaded(context(memory)).manifests
    assert requests(memory, lambda one: find(one, refs, "/table/p=1/a")) == Counter(read=5)

    def twice(store) -> None:
        found = context(store)
        find_destinations(found, loaded(found, stamp).manifests, frozenset())

    stamp = stamp_of_job(memory)
    assert requests(memory, twice) == Counter(list_status=2, read=5)


@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_a_manifest_that_cannot_be_read_is_an_error_and_not_one_without_the_name(memory, error):
    refs = loaded(context(memory)).manifests
    with pytest.raises(error):
        find(WrappedStore(memory, before=at("read", error("simulated"))), refs, "/table/p=1/a")


def test_a_manifest_that_was_replaced_is_not_believed(memory: MemoryStore):
    refs = loaded(context(memory)).manifests
    memory.write(frozen_path(2), b"{}")
    with pytest.raises(ManifestChangedError, match=frozen_path(2)):
        find(memory, refs, "/table/p=1/a")
