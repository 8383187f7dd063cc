"""What work has at hand in its process: the store, the job attempt, and manifests already read."""

from __future__ import annotations

import os
import platform
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar

from ray_committer.errors import ManifestChangedError, ManifestError
from ray_committer.executors.base import THREAD_PREFIX, Place
from ray_committer.permits import Permits
from ray_committer.protocol.iostatistics import IOStatistics
from ray_committer.protocol.manifest import TaskManifest, decode_manifest, digest
from ray_committer.protocol.paths import JobAttempt, join
from ray_committer.protocol.record import ManifestRef
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
        self._parsed: _Cache[TaskManifest] = _Cache(PARSED_CACHE_FILES)
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

    def read_manifest(self, name: str, size: int) -> tuple[bytes, TaskManifest]:
        """Read a manifest that was just listed with `size` bytes."""
        path = join(self.job.manifests, name)
        data = self.store.read(path)
        if len(data) != size:
            raise ManifestError(f"{path}: had {size} bytes when listed and has {len(data)} now")
        manifest = decode_manifest(data, path)
        self._read.put(digest(data), data, len(data))
        return data, manifest

    def recorded_manifest(
        self, ref: ManifestRef, packed: Mapping[str, bytes] = MappingProxyType({})
    ) -> TaskManifest:
        """The manifest that the commit record names; `ManifestChangedError` if it is another now.

        `packed` holds manifests that were read already, by digest. One that several shards share is
        parsed once.
        """
        manifest = self._parsed.get(ref.digest)
        if manifest is None:
            data = packed.get(ref.digest) or self.recorded_data(ref)
            manifest = decode_manifest(data, join(self.job.manifests, ref.name))
            self._parsed.put(ref.digest, manifest, len(manifest.files))
        return manifest

    def recorded_data(self, ref: ManifestRef) -> bytes:
        """The bytes of `recorded_manifest`."""
        return self.recorded_file(join(self.job.manifests, ref.name), ref.digest)

    def recorded_file(self, path: str, expected: str) -> bytes:
        """A file that the commit record names by its SHA-256; `ManifestChangedError` if it changed."""
        data = self._read.get(expected)
        if data is None:
            data = self._read_recorded(path)
            if digest(data) != expected:
                raise ManifestChangedError(
                    f"{path}: was replaced after the commit record was written (a task attempt that "
                    f"should be dead?); put back the manifest with SHA-256 {expected}"
                )
            self._read.put(expected, data, len(data))
        return data

    def keep(self, data: bytes) -> str:
        """Know a file that was just written, so that this process does not read it; its SHA-256."""
        own = digest(data)
        self._read.put(own, data, len(data))
        return own

    def _read_recorded(self, path: str) -> bytes:
        try:
            return self.store.read(path)
        except FileNotFoundError as e:
            raise ManifestChangedError(
                f"{path}: is named by the commit record but gone; another job's clean-up may have "
                f"deleted it, and what it names cannot be moved without it"
            ) from e


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
