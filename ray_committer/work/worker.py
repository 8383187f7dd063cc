"""The resources for work in one process: the store, the job attempt, and manifests already read."""

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

from ray_committer.errors import (
    ManifestChangedError,
    ManifestError,
    ManifestReplacedError,
    MissingManifestsError,
    mark,
)
from ray_committer.executors.base import Place
from ray_committer.executors.thread_pool import ThreadPool
from ray_committer.limits.permits import Permits
from ray_committer.protocol.iostatistics import IOStatistics
from ray_committer.protocol.manifest import TaskManifest, decode_manifest, digest
from ray_committer.protocol.paths import JobAttempt, join
from ray_committer.protocol.record import ManifestRef
from ray_committer.protocol.sidecar import FileIdentity, copy_name, decode_sidecar, sidecar_name
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
    """Opens a `Worker` in a process other than the driver; this is sent there instead of a `Worker`."""

    store: StoreSpec
    job: JobAttempt
    concurrency: int
    retry_seconds: float = 300.0

    def __call__(self, permits: Permits) -> Worker:
        return Worker(
            open_store(self.store, retry_seconds=self.retry_seconds),
            self.job,
            permits,
            self.concurrency,
            in_driver=False,
            retry_seconds=self.retry_seconds,
        )


class Worker:
    """The resources of one process, used by several threads; each request of `store` needs a permit."""

    def __init__(
        self,
        store: StoreOperations,
        job: JobAttempt,
        permits: Permits,
        concurrency: int = 1,
        *,
        in_driver: bool,
        retry_seconds: float = 300.0,
    ) -> None:
        self.store = GuardedStore(store, permits, retry_seconds=retry_seconds)
        self.job = job
        self.in_driver = in_driver
        self.cancelled = threading.Event()
        self.place: Place | None = None
        self.busy = BusyTimes()
        self._permits = permits
        self._read: Cache[bytes] = Cache(MANIFEST_CACHE_BYTES)
        self._parsed: Cache[Recorded] = Cache(PARSED_CACHE_FILES)
        self.threads = ThreadPool(concurrency) if concurrency > 1 else None
        self._readers = ThreadPool(max(2, concurrency // 4)) if concurrency > 1 else None

    @property
    def requests(self) -> int:
        """How many requests this process has made for the commit."""
        return self._permits.made

    def where(self) -> Place:
        """The place of this work: a worker, by the executor's name for it, or the driver."""
        return self.place or Place("the driver", platform.node(), os.getpid())

    def take_statistics(self) -> IOStatistics:
        """The requests of this process since the last call."""
        return self.store.take_statistics()

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Apply `function` with this worker's own concurrency; results come in any order. After an
        exception no further item is started. It is raised when those in progress have ended."""
        return self.threads.map(function, items) if self.threads else map(function, items)

    def for_each(self, function: Callable[[Item], object], items: Iterable[Item]) -> None:
        """`map`, without results."""
        for _ in self.map(function, items):
            pass

    def map_reads(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """`map` for reads that must be done before work can begin, beside the work of other calls. In
        one queue, reads left the threads idle for a quarter of the time."""
        return self._readers.map(function, items) if self._readers else map(function, items)

    def cancel(self) -> None:
        """Stop running work before its next file."""
        self.cancelled.set()

    def close(self) -> None:
        """End the threads and stop asking for permits; idempotent."""
        for pool in (self.threads, self._readers):
            if pool is not None:
                pool.close()
        self._permits.close()

    def read_manifest(self, path: str, size: int) -> bytes:
        """Read a manifest listed with `size` bytes; `ManifestReplacedError` if it has changed,
        `MissingManifestsError` if it is gone."""
        try:
            data = self.store.read(path)
        except FileNotFoundError as e:
            raise gone(path) from e
        if len(data) != size:
            raise ManifestReplacedError(
                f"{mark(path)}: had {size} bytes when listed and has {len(data)} now: a task has saved "
                "it again",
                "run the same command",
            )
        self.keep(data)
        return data

    def recorded(self, ref: ManifestRef, packed: Mapping[str, bytes] = MappingProxyType({})) -> Recorded:
        """The manifest that the commit record names; `ManifestChangedError` if it has changed. `packed`
        holds manifests or sidecars that were read already, by digest. Each is parsed once."""
        key = ref.sidecar or ref.digest
        recorded = self._parsed.get(key)
        if recorded is None:
            recorded = _parse(ref, packed.get(key) or self.kept(ref), join(self.job.frozen, ref.name))
            self._parsed.put(key, recorded, len(recorded.manifest.files))
        return recorded

    def kept(self, ref: ManifestRef) -> bytes:
        """The kept bytes of a manifest: its sidecar's if it has one, else its own."""
        wanted = ref.sidecar or ref.digest
        data = self._read.get(wanted)
        if data is None:
            data = self._read_kept(ref, wanted)
            self._read.put(wanted, data, len(data))
        return data

    def keep(self, data: bytes) -> str:
        """Cache a file that was read or written, for this process; return its SHA-256."""
        sha256 = digest(data)
        self._read.put(sha256, data, len(data))
        return sha256

    def _read_kept(self, ref: ManifestRef, wanted: str) -> bytes:
        """Read the first of the kept files of `ref` that has the `wanted` digest."""
        places = self._places(ref)
        is_there = False
        for place in places:
            with suppress(FileNotFoundError, NotADirectoryError):
                data, is_there = self.store.read(place), True
                # Only the content decides: another attempt of the task may have replaced the file under
                # this name (D4).
                if digest(data) == wanted:
                    return data
        if is_there:
            raise ManifestChangedError(
                f"{mark(places[0])}: was replaced after the commit record was written (perhaps by a "
                "task attempt that was taken for dead)",
                f"put back the file with SHA-256 {wanted}",
            )
        raise ManifestChangedError(
            f"{mark(places[0])}: is named by the commit record but is gone, perhaps because another "
            "job's clean-up deleted it",
            "put it back and run the same command, since the files "
            "that it names cannot be moved without it",
        )

    def _places(self, ref: ManifestRef) -> tuple[str, ...]:
        """Where a manifest or its sidecar is: frozen, or where tasks save them; it may be frozen between
        the two looks. On a store that completes uploads, the task has saved a copy, too."""
        job, name = self.job, kept_name(ref)
        if self.store.has(StoreOperations.publish) and ref.sidecar is None:
            attempt = ref.task_attempt_directory or job.task_attempt(ref.task_attempt_id or "unnamed")
            return (join(job.manifests, name), join(attempt, copy_name(ref.digest)))
        return tuple(join(directory, name) for directory in (job.frozen, job.manifests, job.frozen))


def gone(path: str) -> MissingManifestsError:
    """The error for a manifest that was listed but is gone."""
    return MissingManifestsError(f"{mark(path)}: was listed but is now gone")


def kept_name(ref: ManifestRef) -> str:
    """The file name of a manifest, or of its sidecar if it has one, among the frozen manifests."""
    return sidecar_name(ref.name, ref.sidecar) if ref.sidecar else ref.name


def _parse(ref: ManifestRef, kept: bytes, path: str) -> Recorded:
    if ref.sidecar is None:
        return Recorded(decode_manifest(kept, path))
    identities, data = decode_sidecar(kept, path)
    manifest = decode_manifest(data, path)
    if identities is not None and len(identities) != len(manifest.files):
        raise ManifestError(
            f"{mark(path)}: describes {len(identities)} files, its manifest names {len(manifest.files)}"
        )
    return Recorded(manifest, identities)


class Cache(Generic[T]):
    """The most recently used values, up to a total weight of `limit`, and at least one."""

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


@dataclass(slots=True)
class _Busy:
    shards: int = 0
    since: float = 0.0


class BusyTimes:
    """Busy seconds by worker; shards that overlap share them. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy: dict[str, _Busy] = {}

    def begin(self, worker: str, now: float) -> None:
        """A shard begins at `now`."""
        with self._lock:
            busy = self._busy.setdefault(worker, _Busy())
            if busy.shards == 0:
                busy.since = now
            busy.shards += 1

    def end(self, worker: str, now: float) -> float:
        """A shard ends; return the busy seconds of the worker that no other shard has counted."""
        with self._lock:
            busy = self._busy[worker]
            # The time since the last end counts for this shard alone, so overlapping shards never count
            # it twice.
            seconds, busy.since = now - busy.since, now
            busy.shards -= 1
            return seconds
