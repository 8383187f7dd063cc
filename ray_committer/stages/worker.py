"""What work has at hand in its process: the store, the job attempt, and manifests already read."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from ray_committer.errors import ManifestChangedError, ManifestError
from ray_committer.protocol.manifest import TaskManifest, decode_manifest, digest
from ray_committer.protocol.paths import JobAttempt, join
from ray_committer.protocol.record import ManifestRef
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.registry import open_store

MANIFEST_CACHE_BYTES = 64 << 20

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """How a process that is not the driver opens its `Worker`; travels instead of one."""

    store: StoreSpec
    job: JobAttempt
    concurrency: int

    def __call__(self) -> Worker:
        return Worker(open_store(self.store), self.job, self.concurrency, in_driver=False)


class Worker:
    """The resources of one process; used by several threads."""

    def __init__(
        self, store: StoreOperations, job: JobAttempt, concurrency: int = 1, *, in_driver: bool
    ) -> None:
        self.store = store
        self.job = job
        self.in_driver = in_driver
        self.cancelled = threading.Event()
        self._cache = _BytesCache(MANIFEST_CACHE_BYTES)
        self._pool = ThreadPoolExecutor(concurrency) if concurrency > 1 else None

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Apply `function` with this worker's own concurrency; results in order."""
        return self._pool.map(function, items) if self._pool else map(function, items)

    def cancel(self) -> None:
        """Let running work stop before its next file."""
        self.cancelled.set()

    def read_manifest(self, name: str, size: int) -> tuple[bytes, TaskManifest]:
        """Read a manifest that was just listed with `size` bytes."""
        path = join(self.job.manifests, name)
        data = self.store.read(path)
        if len(data) != size:
            raise ManifestError(f"{path}: had {size} bytes when listed and has {len(data)} now")
        manifest = decode_manifest(data, path)
        self._cache.put(digest(data), data)
        return data, manifest

    def recorded_manifest(self, ref: ManifestRef) -> TaskManifest:
        """The manifest that the commit record names; `ManifestChangedError` if it is another now."""
        path = join(self.job.manifests, ref.name)
        data = self._cache.get(ref.digest)
        if data is None:
            data = self._read_recorded(path)
            if digest(data) != ref.digest:
                raise ManifestChangedError(
                    f"{path}: was replaced after the commit record was written (a task attempt that "
                    f"should be dead?); put back the manifest with SHA-256 {ref.digest}"
                )
            self._cache.put(ref.digest, data)
        return decode_manifest(data, path)

    def _read_recorded(self, path: str) -> bytes:
        try:
            return self.store.read(path)
        except FileNotFoundError as e:
            raise ManifestChangedError(
                f"{path}: is named by the commit record but gone; another job's clean-up may have "
                f"deleted it, and what it names cannot be moved without it"
            ) from e


class _BytesCache:
    """Manifests by digest, the least recently used dropped first; bounded in bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._entries: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def put(self, key: str, data: bytes) -> None:
        with self._lock:
            if key in self._entries:
                return
            self._entries[key] = data
            self._held += len(data)
            while self._held > self._limit:
                self._held -= len(self._entries.popitem(last=False)[1])
