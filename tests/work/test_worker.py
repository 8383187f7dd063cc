"""A worker reads each manifest once, believes only what the record names, and ends its threads."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec import structs

from ray_committer.errors import ManifestChangedError, ManifestError, ManifestReplacedError
from ray_committer.executors.base import Place
from ray_committer.limits.permits import Permits
from ray_committer.limits.ratelimit import RateLimit
from ray_committer.protocol.manifest import decode_manifest, digest
from ray_committer.protocol.record import ManifestRef
from ray_committer.protocol.sidecar import FileIdentity, encode_sidecar, sidecar_name
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore
from ray_committer.work.worker import Cache, Worker
from tests.stages.support import JOB, at, context, freeze, frozen_path, loaded, with_job
from tests.threads import running_threads


@pytest.fixture
def memory() -> MemoryStore:
    store = with_job({task: {f"f{task}": b"x"} for task in range(3)})
    freeze(store)
    return store


@pytest.fixture
def refs(memory: MemoryStore) -> tuple[ManifestRef, ...]:
    return loaded(context(memory)).manifests


def worker(store, concurrency: int = 1) -> Worker:
    permits = Permits(RateLimit(), "worker", is_here=True)
    return Worker(store, JOB, permits, concurrency, in_driver=True)


def test_a_manifest_is_read_once_however_often_it_is_asked_for(memory: MemoryStore, refs):
    calls: list[StoreCall] = []
    own = worker(WrappedStore(memory, before=calls.append))
    for _ in range(3):
        assert [own.recorded(ref).manifest.files[0].z for ref in refs] == [1, 1, 1]
    assert [call.paths[0] for call in calls] == [frozen_path(task) for task in range(3)]


def test_a_manifest_that_was_listed_is_not_read_again_for_the_record(memory: MemoryStore, refs):
    calls: list[StoreCall] = []
    own = worker(WrappedStore(memory, before=calls.append))
    data = own.read_manifest(frozen_path(0), refs[0].size)
    manifest = decode_manifest(data, "")
    assert (digest(data), own.recorded(refs[0]).manifest) == (refs[0].digest, manifest)
    assert Counter(call.operation for call in calls) == Counter(read=1)


def test_a_manifest_that_travelled_with_the_work_is_not_read(memory: MemoryStore, refs):
    packed = {refs[0].digest: memory.read(frozen_path(0))}
    own = worker(WrappedStore(memory, before=at("read", AssertionError("must not be read"))))
    assert own.recorded(refs[0], packed).manifest.files[0].z == 1


def test_a_file_that_was_just_written_is_known():
    own = worker(MemoryStore())
    assert own.kept(ManifestRef("nowhere", 4, own.keep(b"data"), 0, 0)) == b"data"


def test_a_manifest_is_read_where_it_is_until_it_is_frozen(memory: MemoryStore, refs):
    memory.move_directory(JOB.frozen, JOB.manifests)
    assert worker(memory).recorded(refs[0]).manifest.files[0].z == 1


def test_a_manifest_that_is_frozen_between_two_looks_for_it_is_found(memory: MemoryStore, refs):
    memory.move_directory(JOB.frozen, JOB.manifests)

    def freeze_now(call: StoreCall) -> None:
        if call.paths[0].startswith(JOB.manifests):
            memory.move_directory(JOB.manifests, JOB.frozen)

    own = worker(WrappedStore(memory, before=freeze_now))
    assert own.recorded(refs[0]).manifest.files[0].z == 1


def with_sidecar(memory: MemoryStore, ref: ManifestRef, identities: list[FileIdentity]) -> ManifestRef:
    sidecar = encode_sidecar(identities, memory.read(frozen_path(0)))
    own = digest(sidecar)
    memory.write(f"{JOB.frozen}/{sidecar_name(ref.name, own)}", sidecar)
    return structs.replace(ref, sidecar=own)


def test_what_a_sidecar_holds_is_believed_and_its_manifest_is_not_read(memory: MemoryStore, refs):
    ref = with_sidecar(memory, refs[0], [FileIdentity("7", "crc")])
    memory.write(frozen_path(0), b"of a late attempt")
    found = worker(memory).recorded(ref)
    assert found.identities == [FileIdentity("7", "crc")]
    assert found.manifest.files[0].z == 1


def test_a_sidecar_that_tells_of_another_number_of_files_is_refused(memory: MemoryStore, refs):
    ref = with_sidecar(memory, refs[0], [FileIdentity("7", "crc")] * 2)
    with pytest.raises(ManifestError, match=r"describes 2 files, its manifest names 1"):
        worker(memory).recorded(ref)


@pytest.mark.parametrize("data", [None, b"{}"])
def test_what_the_record_does_not_name_is_not_believed(memory: MemoryStore, refs, data: bytes | None):
    memory.delete_file(frozen_path(0))
    if data is not None:
        memory.write(frozen_path(0), data)
    with pytest.raises(ManifestChangedError, match=frozen_path(0)):
        worker(memory).recorded(refs[0])


def test_a_manifest_that_grew_since_it_was_listed_is_refused(memory: MemoryStore, refs):
    with pytest.raises(ManifestReplacedError, match=r"had 1 bytes when listed"):
        worker(memory).read_manifest(frozen_path(0), 1)


@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_a_read_that_fails_is_not_remembered(memory: MemoryStore, refs, error: type[OSError]):
    failures = iter([error("simulated")])

    def fail_once(call: StoreCall) -> None:
        for failure in failures:
            raise failure

    own = worker(WrappedStore(memory, before=fail_once))
    with pytest.raises(error):
        own.recorded(refs[0])
    assert own.recorded(refs[0]).manifest.files[0].z == 1


def test_a_cache_holds_what_was_used_last_within_its_limit_and_always_one():
    cache: Cache[str] = Cache(10)
    for key, weight in (("a", 4), ("b", 4)):
        cache.put(key, key.upper(), weight)
    assert cache.get("a") == "A"
    cache.put("c", "C", 4)
    assert [cache.get(key) for key in "abc"] == ["A", None, "C"]
    cache.put("large", "L", 99)
    assert [cache.get(key) for key in ("a", "c", "large")] == [None, None, "L"]


def test_a_cache_counts_a_value_once_that_is_put_twice():
    cache: Cache[str] = Cache(10)
    for _ in range(5):
        cache.put("a", "A", 4)
    cache.put("b", "B", 4)
    assert [cache.get("a"), cache.get("b")] == ["A", "B"]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_every_item_is_worked_on_whatever_the_concurrency(concurrency: int):
    own = worker(MemoryStore(), concurrency)
    assert sorted(own.map(str, range(20))) == sorted(map(str, range(20)))
    assert sorted(own.map_reads(str, range(20))) == sorted(map(str, range(20)))
    own.close()


def test_closing_ends_its_threads_and_its_requests():
    before = running_threads()
    own = worker(MemoryStore(), 4)
    list(own.map(str, range(4)))
    started = running_threads() - before
    assert len(started) == 4
    own.close()
    own.close()
    for thread in started:
        thread.join(10)
    assert not any(thread.is_alive() for thread in started)


def test_the_requests_that_are_guarded_are_counted_once():
    own = worker(MemoryStore())
    assert own.take_statistics().counters == {}
    own.store.mkdirs("/table")
    assert own.take_statistics().counters["op_mkdirs"] == 1
    assert own.take_statistics().counters == {}


def test_a_worker_is_where_its_executor_puts_it_or_in_this_process():
    own = worker(MemoryStore())
    assert own.where().worker == "the driver"
    own.place = Place("worker 7", "10.0.0.1", 42)
    assert own.where() == own.place
