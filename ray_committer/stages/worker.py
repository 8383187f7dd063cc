"""What work has at hand in its process: the store, the job attempt, and manifests already read."""

from __future__ import annotations

import os
import platform
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar

from ray_committer.errors import ManifestChangedError, ManifestError, ManifestReplacedError
from ray_committer.executors.base import THREAD_PREFIX, Place
from ray_committer.permits import Permits
from ray_committer.protocol.iostatistics import IOStatistics
from ray_committer.protocol.manifest import TaskManifest, decode_manifest, digest
from ray_committer.protocol.paths import JobAttempt, join
from ray_committer.protocol.record import ManifestRef
from ray_committer.protocol.sidecar import FileIdentity, decode_sidecar, sidecar_name
from ray_committer.stages.busy import BusyTimes
from ray_committer.stages.crew import Crew
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.guarded import GuardedStore
from ray_committer.stores.registry import open_store

MANIFEST_CACHE_BYTES = 64 << 20
PARSED_CACHE_FILES = 10_000

Item = TypeVar("Item")
Result = TypeVar("Result")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A manifest that the commit record names, and the identities of its files if they were saved."""

    manifest: TaskManifest
    identities: list[FileIdentity] | None = None


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """How a process that is not the driver opens its `Worker`; travels instead of one."""

    store: StoreSpec
    job: JobAttempt
    concurrency: int
    retry_seconds: float = 300.0

    def __call__(self) -> Worker:
        return Worker(
            open_store(self.store),
            self.job,
            self.concurrency,
            in_driver=False,
            retry_seconds=self.retry_seconds,
        )


class Worker:
    """The resources of one process; used by several threads."""

    def __init__(
        self,
        store: StoreOperations,
        job: JobAttempt,
        concurrency: int = 1,
        *,
        in_driver: bool,
        retry_seconds: float = 300.0,
    ) -> None:
        self.store = store
        self.job = job
        self.in_driver = in_driver
        self.cancelled = threading.Event()
        self.place: Place | None = None
        self.busy = BusyTimes()
        self._retry_seconds = retry_seconds
        self._guarded: GuardedStore | None = None
        self._read: _Cache[bytes] = _Cache(MANIFEST_CACHE_BYTES)
        self._parsed: _Cache[Recorded] = _Cache(PARSED_CACHE_FILES)
        self._crew = Crew(concurrency) if concurrency > 1 else None
        self._readers = Crew(max(2, concurrency // 4)) if concurrency > 1 else None

    def guard(self, permits: Permits) -> None:
        """Make no more request without a permit."""
        self._permits = permits
        self.store = self._guarded = GuardedStore(self.store, permits, retry_seconds=self._retry_seconds)

    def where(self) -> Place:
        """Where this work runs: the worker that an executor calls it, or this thread of the driver."""
        return self.place or Place(_thread_name(), platform.node(), os.getpid())

    def take_statistics(self) -> IOStatistics:
        """The requests of this process since the last call."""
        return self._guarded.take_statistics() if self._guarded else IOStatistics()

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Apply `function` with this worker's own concurrency; results in no order.

        After an exception no further item is begun; it is raised when those in progress have ended.
        """
        return self._crew.map(function, items) if self._crew else map(function, items)

    def map_reads(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """`map` for what must be read before work can begin, beside the work of other calls.

        Behind that in one queue, it left the threads idle for a request a shard: a quarter of the time.
        """
        return self._readers.map(function, items) if self._readers else map(function, items)

    def cancel(self) -> None:
        """Let running work stop before its next file."""
        self.cancelled.set()

    def close(self) -> None:
        """End its threads and stop asking for permits; idempotent."""
        for crew in (self._crew, self._readers):
            if crew is not None:
                crew.close()
        if self._guarded is not None:
            self._permits.close()

    def read_manifest(self, path: str, size: int) -> tuple[bytes, TaskManifest]:
        """Read a manifest that was just listed with `size` bytes; `ManifestReplacedError` if it is
        another now."""
        data = self.store.read(path)
        if len(data) != size:
            raise ManifestReplacedError(
                f"{path}: had {size} bytes when listed and has {len(data)} now: a task has saved it "
                f"again; run the same command"
            )
        manifest = decode_manifest(data, path)
        self.keep(data)
        return data, manifest

    def recorded(self, ref: ManifestRef, packed: Mapping[str, bytes] = MappingProxyType({})) -> Recorded:
        """The manifest that the commit record names; `ManifestChangedError` if it is another now.

        `packed` holds what is kept of manifests that were read already, by digest. One that several
        shards share is parsed once.
        """
        key = ref.sidecar or ref.digest
        recorded = self._parsed.get(key)
        if recorded is None:
            recorded = _parse(ref, packed.get(key) or self.kept(ref), join(self.job.frozen, ref.name))
            self._parsed.put(key, recorded, len(recorded.manifest.files))
        return recorded

    def kept(self, ref: ManifestRef) -> bytes:
        """What is kept of a manifest, byte for byte: its sidecar if it has one, else itself."""
        wanted = ref.sidecar or ref.digest
        data = self._read.get(wanted)
        if data is None:
            name = kept_name(ref)
            data = self._read_frozen(name)
            if digest(data) != wanted:
                raise ManifestChangedError(
                    f"{join(self.job.frozen, name)}: was replaced after the commit record was written "
                    f"(a task attempt that should be dead?); put back the file with SHA-256 {wanted}"
                )
            self._read.put(wanted, data, len(data))
        return data

    def keep(self, data: bytes) -> str:
        """Know a file that was just read or written, so that this process does not read it; its
        SHA-256.
        """
        own = digest(data)
        self._read.put(own, data, len(data))
        return own

    def _read_frozen(self, name: str) -> bytes:
        """A manifest or sidecar where it is once it is frozen or, before that, where tasks put it; it
        may be frozen between the two looks."""
        for directory in (self.job.frozen, self.job.manifests, self.job.frozen):
            with suppress(FileNotFoundError, NotADirectoryError):
                return self.store.read(join(directory, name))
        raise ManifestChangedError(
            f"{join(self.job.frozen, name)}: is named by the commit record but gone; another job's "
            f"clean-up may have deleted it, and what it names cannot be moved without it"
        )


def kept_name(ref: ManifestRef) -> str:
    """The name of what is kept of a manifest, in the directory of those that are frozen."""
    return sidecar_name(ref.name, ref.sidecar) if ref.sidecar else ref.name


def _parse(ref: ManifestRef, kept: bytes, path: str) -> Recorded:
    if ref.sidecar is None:
        return Recorded(decode_manifest(kept, path))
    identities, data = decode_sidecar(kept, path)
    manifest = decode_manifest(data, path)
    if identities is not None and len(identities) != len(manifest.files):
        raise ManifestError(
            f"{path}: tells of {len(identities)} files, its manifest names {len(manifest.files)}"
        )
    return Recorded(manifest, identities)


def _thread_name() -> str:
    prefix, _, number = threading.current_thread().name.rpartition("_")
    return f"thread {number}" if prefix == THREAD_PREFIX else "the driver"


class _Cache(Generic[T]):
    """The values used last, as many as weigh no more than `limit` together, and always one."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._entries: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> T | None:
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: str, value: T, weight: int) -> None:
        with self._lock:
            if key in self._entries:
                return
            self._entries[key] = (value, weight)
            self._held += weight
            while self._held > self._limit and len(self._entries) > 1:
                self._held -= self._entries.popitem(last=False)[1][1]
