"""Versions that only a listing tells are in the packs, and a rename is bound to them."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec import structs

from ray_committer.errors import CommitStateUnknownError
from ray_committer.job_files.read_job import read_job
from ray_committer.options import CommitOptions
from ray_committer.protocol.manifest import decode_manifest, encode_manifest
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.stages.commit_job import commit_job
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    Identity,
    MemoryStore,
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


def source(job: JobAttempt, name: str, task: int = 0) -> str:
    return f"{job.task_attempt(f'attempt_job_1_m_{task:06d}_0')}/{name}"


@pytest.mark.parametrize(
    ("identity", "listings"),
    [(Identity.GENERATION, 2), (Identity.ETAG, 1), (Identity.MODIFICATION_TIME, 0)],
)
def test_only_a_store_that_must_is_asked(identity: Identity, listings: int):
    store, job = prepared(identity)
    calls = calls_of(store, lambda one: run_commit(one, job, CommitOptions(validate=False)))
    made = Counter(call.operation for call in calls)
    assert made["list_files_page"] == listings  # for the versions, and before the record
    assert made["read"] == 2  # its own pack this process does not read
    assert visible_files(store, "/table") == VISIBLE


def test_without_etags_in_the_manifest_they_are_listed():
    store, job = prepared(Identity.ETAG)
    for status in store.list_status(job.manifests):
        manifest = decode_manifest(store.read(status.path), status.path)
        files = [structs.replace(file, e=None) for file in manifest.files]
        store.write(status.path, encode_manifest(structs.replace(manifest, files=files)))
    calls = calls_of(store, lambda one: run_commit(one, job))
    assert sum(call.operation == "list_files_page" for call in calls) == 2
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


@pytest.mark.parametrize("real_directories", [False, True])
def test_packs_are_saved_before_the_record_and_none_by_a_run_that_goes_on(real_directories: bool):
    store, job = prepared(Identity.GENERATION, real_directories=real_directories)

    def packs_in(calls: list[StoreCall]) -> list[int]:
        return [
            number
            for number, call in enumerate(calls)
            if call.operation == "write" and call.paths[0].startswith(job.packs)
        ]

    calls = calls_of(store, lambda one: record_only(one, job))
    (recorded,) = [
        number
        for number, call in enumerate(calls)
        if call.operation == "advance" and call.paths[-1].startswith("recorded")
    ]
    (write,) = packs_in(calls)
    assert write < recorded
    calls.clear()
    run_commit(WrappedStore(store, before=calls.append), job)
    assert packs_in(calls) == []
    assert not [call for call in calls if call.operation == "read" and "manifest.json" in call.paths[0]]
