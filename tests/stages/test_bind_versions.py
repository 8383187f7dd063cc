"""Entries get the versions of their files before the record, by one listing of all tasks."""

from __future__ import annotations

from collections import Counter

import pytest

from ray_committer.errors import ManifestError
from ray_committer.protocol.actions import Rename
from ray_committer.stages import bind_versions as module
from ray_committer.stages.bind_versions import bind_versions
from ray_committer.stages.load_manifests import LoadedManifests
from ray_committer.testing import (
    Identity,
    MemoryStore,
    StoreCall,
    WrappedStore,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.work import packs as packs_module
from ray_committer.work.packs import PackReader
from tests.stages.support import JOB, calls_of, context, loaded, place_of, source_path, state_of

GENERATIONS = [True, False]


@pytest.fixture(params=GENERATIONS, ids=["folders", "flat"])
def store(request: pytest.FixtureRequest) -> MemoryStore:
    return written(MemoryStore(identity=Identity.GENERATION, real_directories=request.param))


def written(store: MemoryStore, tasks: int = 5, files: int = 7) -> MemoryStore:
    write_job(store, JOB, {t: {f"p={n}/{t}-{n}": b"x" * n for n in range(files)} for t in range(tasks)})
    return store


def bound_to(store: MemoryStore, manifests: LoadedManifests) -> dict[str, str | None]:
    """The version of each source, after a check of its checksum."""
    reader, versions = PackReader(store, JOB), dict[str, str | None]()
    for pack in manifests.packs:
        for entry in reader.entries(pack):
            assert isinstance(entry, Rename)
            status = store.get_status(entry.source)
            assert status is not None
            assert (entry.expected.etag, entry.expected.size) == (status.etag, status.size)
            versions[entry.source] = entry.version
    return versions


def of_store(store: MemoryStore) -> dict[str, str | None]:
    return {status.path: status.version for status in store.list_files(JOB.tasks)}


def test_each_entry_gets_the_version_and_the_checksum_of_its_file(store: MemoryStore):
    found = context(store)
    manifests = loaded(found)
    for saves in (False, True):
        bound = bind_versions(found, manifests, saves=saves)
        assert bound_to(store, bound) == of_store(store)
        assert (bound.tasks, bound.files) == (5, 35)


@pytest.mark.parametrize(("names", "pages"), [(1000, 1), (35, 1), (34, 2), (1, 35)])
def test_all_files_are_listed_by_pages(store: MemoryStore, names: int, pages: int):
    manifests, store.page_names = loaded(context(store)), names
    calls = calls_of(store, lambda one: bind_versions(context(one), manifests))
    assert Counter(call.operation for call in calls) == Counter(list_files_page=pages)


@pytest.mark.parametrize(("files", "groups"), [(1, 5), (14, 3), (34, 2), (35, 1)])
def test_of_very_many_files_some_are_held_at_a_time(
    store: MemoryStore, files: int, groups: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(packs_module, "MOST_ENTRIES", 7)
    monkeypatch.setattr(packs_module, "SECTION_ENTRIES", 7)
    monkeypatch.setattr(module, "FILES_AT_ONCE", files)
    found = context(store)
    manifests, bound = loaded(found), list[LoadedManifests]()
    calls = calls_of(store, lambda one: bound.append(bind_versions(context(one), manifests)))
    assert sum(call.operation == "list_files_page" for call in calls) == groups
    assert bound_to(store, bound[0]) == of_store(store)
    run_commit(store, JOB)
    assert len(visible_files(store, JOB.destination)) == 35


@pytest.mark.parametrize(
    "store", [MemoryStore(), MemoryStore(identity=Identity.ETAG)], ids=["times", "etags"]
)
def test_where_a_version_is_no_more_than_an_etag_or_nothing_it_costs_nothing(store: MemoryStore):
    written(store)
    manifests = loaded(context(store))
    calls = calls_of(store, lambda one: bind_versions(context(one), manifests))
    assert calls == []


def test_a_file_that_is_gone_or_another_is_an_error_and_the_job_stays_open(store: MemoryStore):
    store.delete_file(source_path(1, "p=2/1-2"))
    store.write(source_path(2, "p=3/2-3"), b"longer")
    with pytest.raises(ManifestError) as caught:
        run_commit(store, JOB)
    assert "names 2 files that are missing or changed" in str(caught.value)
    assert "p=2/1-2: is not there" in str(caught.value)
    assert "p=3/2-3: has 6 bytes, not 3" in str(caught.value)
    assert state_of(store).phase == "open"


def test_a_file_that_is_written_again_after_its_version_was_listed_is_found_before_the_record(
    store: MemoryStore,
):
    path, pages = source_path(1, "p=2/1-2"), list[StoreCall]()

    def write_again(call: StoreCall) -> None:
        if call.operation == "list_files_page":
            pages.append(call)
            if len(pages) == 2:  # the look
                store.write(place_of(store, path), b"yy")

    with pytest.raises(ManifestError, match="1-2: was changed after its task committed"):
        run_commit(WrappedStore(store, before=write_again), JOB)
    assert state_of(store).phase == "open"
