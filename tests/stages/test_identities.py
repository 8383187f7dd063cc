"""Versions that only a listing tells: listed once, saved before the first rename, and believed later."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec import structs

from ray_committer.errors import CommitStateUnknownError, ManifestChangedError, ManifestError
from ray_committer.options import CommitOptions
from ray_committer.protocol.identities import (
    FileIdentity,
    decode_identities,
    encode_identities,
    identities_name,
)
from ray_committer.protocol.manifest import decode_manifest, encode_manifest
from ray_committer.protocol.paths import MANIFEST_SUFFIX, JobAttempt, new_job_attempt
from ray_committer.protocol.recovery import Proof
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

TASKS = {0: {"p=1/a": b"a", "p=2/b": b"bb"}, 1: {"p=1/c": b"ccc"}}
VISIBLE = {"p=1/a": b"a", "p=2/b": b"bb", "p=1/c": b"ccc"}


def prepared(identity: Identity) -> tuple[MemoryStore, JobAttempt]:
    store = MemoryStore(identity=identity, real_directories=False)
    job = new_job_attempt("/table", "job_1", 0)
    write_job(store, job, TASKS)
    return store, job


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
    calls: list[StoreCall] = []
    run_commit(WrappedStore(store, before=calls.append), job, CommitOptions(validate=False))
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
    calls: list[StoreCall] = []
    run_commit(WrappedStore(store, before=calls.append), job)
    assert sum(call.operation == "list_files" for call in calls) == 2
    assert visible_files(store, "/table") == VISIBLE


@pytest.mark.parametrize("when", ["before", "after"])
def test_after_a_crash_what_was_saved_proves_the_rename(when: str):
    store, job = prepared(Identity.GENERATION)
    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, **{when: die_at_rename_to("/c")}), job)
    report = run_commit(store, job)
    assert report.proved[Proof.ETAG] == (2 if when == "before" else 3)
    assert visible_files(store, "/table") == VISIBLE
    assert store.get_status(job.temporary) is None


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


def test_a_file_that_the_task_did_not_leave_stops_everything_before_the_record():
    for change in ("gone", "longer"):
        store, job = prepared(Identity.GENERATION)
        store.delete_file(source(job, "p=2/b"))
        if change == "longer":
            store.write(source(job, "p=2/b"), b"longer")
        with pytest.raises(ManifestError, match=r"p=2/b (is not there|has 6 bytes).*run the task again"):
            run_commit(store, job)
        assert store.get_status(job.commit_record) is None
        assert visible_files(store, "/table") == {}


def test_what_was_saved_is_believed_only_if_the_record_names_it():
    store, job = prepared(Identity.GENERATION)
    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, before=die_at_rename_to("/c")), job)
    (saved, _) = sorted(
        one.path for one in store.list_status(job.manifests) if ".identities" in one.path
    )
    data = store.read(saved)
    store.write(saved, data.replace(b"crc32=", b"crc32=9"))
    with pytest.raises(ManifestChangedError, match=r"identities: was replaced"):
        run_commit(store, job)
    store.write(saved, data)
    run_commit(store, job)
    assert visible_files(store, "/table") == VISIBLE


def test_a_sidecar_is_never_taken_for_a_manifest():
    assert not identities_name(f"task{MANIFEST_SUFFIX}", "0" * 64).endswith(MANIFEST_SUFFIX)


def test_identities_survive_a_round_trip_and_must_be_as_many_as_files():
    identities = [FileIdentity("1", "a"), FileIdentity(None, None)]
    data = encode_identities(identities)
    assert decode_identities(data, "p", files=2) == identities
    for bad, files in ((data, 3), (b"{}", 0), (b"[[1]]", 1), (b"\xff", 1), (data[:-2], 2)):
        with pytest.raises(ManifestError, match=r"^p: "):
            decode_identities(bad, "p", files=files)
