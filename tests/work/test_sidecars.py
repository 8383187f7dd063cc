"""Copies of manifests, with versions that only a listing tells: saved first, and believed later."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec import structs

from ray_committer.errors import CommitStateUnknownError, ManifestChangedError
from ray_committer.job_files.read_job import read_job
from ray_committer.options import CommitOptions
from ray_committer.protocol.manifest import decode_manifest, encode_manifest
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.sidecar import SUFFIX, decode_sidecar
from ray_committer.stages.commit_job import commit_job
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    Identity,
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    run_commit,
    visible_files,
    write_job,
)
from tests.stages.support import calls_of, context

TASKS = {0: {"p=1/a": b"a", "p=2/b": b"bb"}, 1: {"p=1/c": b"ccc"}}
VISIBLE = {"p=1/a": b"a", "p=2/b": b"bb", "p=1/c": b"ccc"}


def prepared(identity: Identity, *, real_directories: bool = False) -> tuple[MemoryStore, JobAttempt]:
    store = MemoryStore(identity=identity, real_directories=real_directories)
    job = new_job_attempt("/table", "job_1", 0)
    write_job(store, job, TASKS)
    return store, job


def record_only(store: StoreOperations, job: JobAttempt) -> None:
    commit_job(context(store, job=job), read_job(store, job), record_only=True)


def sidecars(store: MemoryStore, job: JobAttempt) -> dict[str, bytes]:
    found = store.files(job.directory).items()
    return {path: data for path, data in found if path.endswith(SUFFIX)}


def source(job: JobAttempt, name: str, task: int = 0) -> str:
    return f"{job.task_attempt(f'attempt_job_1_m_{task:06d}_0')}/{name}"


def die_at_rename_to(name: str):
    def hook(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[1].endswith(name):
            raise SimulatedCrash(call)

    return hook


@pytest.mark.parametrize(
    ("identity", "listings"),
    [(Identity.GENERATION, 2), (Identity.ETAG, 0), (Identity.MODIFICATION_TIME, 0)],
)
def test_only_a_store_that_must_is_asked(identity: Identity, listings: int):
    store, job = prepared(identity)
    calls = calls_of(store, lambda one: run_commit(one, job, CommitOptions(validate=False)))
    made = Counter(call.operation for call in calls)
    assert made["list_files"] == listings
    assert made["read"] == 2  # what this process saved of their files it does not read
    assert visible_files(store, "/table") == VISIBLE


def test_without_etags_in_the_manifest_they_are_listed():
    store, job = prepared(Identity.ETAG)
    for status in store.list_status(job.manifests):
        manifest = decode_manifest(store.read(status.path), status.path)
        files = [structs.replace(file, e=None) for file in manifest.files]
        store.write(status.path, encode_manifest(structs.replace(manifest, files=files)))
    calls = calls_of(store, lambda one: run_commit(one, job))
    assert sum(call.operation == "list_files" for call in calls) == 2
    assert visible_files(store, "/table") == VISIBLE


@pytest.mark.parametrize("identity", [Identity.GENERATION, Identity.ETAG])
def test_a_source_that_was_written_again_is_not_moved(identity: Identity):
    store, job = prepared(identity)
    path = source(job, "p=2/b")

    def rewrite(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[0] == path and store.read(path) == b"bb":
            store.write(path, b"BB")

    with pytest.raises(CommitStateUnknownError, match="was written again"):
        run_commit(WrappedStore(store, before=rewrite), job)
    assert store.read(path) == b"BB"
    assert "p=2/b" not in visible_files(store, "/table")


def test_what_was_saved_is_believed_only_if_the_record_names_it():
    store, job = prepared(Identity.GENERATION)
    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, before=die_at_rename_to("/c")), job)
    (saved, _) = sorted(sidecars(store, job))
    data = store.read(saved)
    store.write(saved, data.replace(b"crc32=", b"crc32=9"))
    with pytest.raises(ManifestChangedError, match=r"sidecar: was replaced"):
        run_commit(store, job)
    store.write(saved, data)
    run_commit(store, job)
    assert visible_files(store, "/table") == VISIBLE


KINDS = [
    (identity, real_directories)
    for identity in (Identity.GENERATION, Identity.ETAG, Identity.MODIFICATION_TIME)
    for real_directories in (False, True)
]


@pytest.mark.parametrize(("identity", "real_directories"), KINDS)
def test_a_manifest_is_copied_where_its_files_need_it_or_nothing_else_freezes_it(
    identity: Identity, real_directories: bool
):
    store, job = prepared(identity, real_directories=real_directories)
    record_only(store, job)
    needs = identity is Identity.GENERATION or not real_directories
    found = sidecars(store, job)
    assert len(found) == (2 if needs else 0)
    for path, data in found.items():
        identities, manifest = decode_sidecar(data, path)
        files = decode_manifest(manifest, path).files
        assert (identities is not None) is (identity is Identity.GENERATION)
        assert identities is None or len(identities) == len(files)


def test_where_nothing_else_freezes_it_a_manifest_without_files_is_copied_as_well():
    store, job = MemoryStore(real_directories=False), new_job_attempt("/table", "job_1", 0)
    write_job(store, job, {0: {}, 1: {"a": b"a"}})
    record_only(store, job)
    assert len(sidecars(store, job)) == 2


@pytest.mark.parametrize("identity", [Identity.GENERATION, Identity.MODIFICATION_TIME])
def test_a_manifest_that_is_replaced_after_the_record_counts_for_nothing(identity: Identity):
    store, job = prepared(identity)
    record_only(store, job)
    for path in store.files(job.manifests):
        store.write(path, b"of an attempt that is late")
    run_commit(store, job)
    assert visible_files(store, "/table") == VISIBLE


def test_copies_are_saved_before_the_record_and_none_by_a_run_that_goes_on():
    store, job = prepared(Identity.GENERATION)
    calls = calls_of(store, lambda one: record_only(one, job))
    writes = [n for n, call in enumerate(calls) if call.paths[-1].endswith(SUFFIX)]
    (recorded,) = [
        n
        for n, call in enumerate(calls)
        if call.operation == "advance" and call.paths[-1].startswith("recorded")
    ]
    assert len(writes) == 2
    assert max(writes) < recorded
    calls.clear()
    run_commit(WrappedStore(store, before=calls.append), job)
    assert not [call for call in calls if call.operation == "write" and call.paths[-1].endswith(SUFFIX)]
