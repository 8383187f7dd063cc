"""Write the packs of a job, and read them: each is written once, under a name that was never used.

The record names a pack after it was written. So no process reads a pack that is being written, and none
writes one that another reads.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

from msgspec import structs

from ray_committer.errors import MissingManifestsError, PackChangedError, mark
from ray_committer.limits.settle import settle
from ray_committer.protocol.pack import (
    MOST_ENTRIES,
    SECTION_ENTRIES,
    Entry,
    Pack,
    PackRef,
    Place,
    Section,
    Sections,
    decode_section,
    digest_of,
    encode_section,
    joined,
    pack_name,
    sections_of,
)
from ray_committer.protocol.paths import JobAttempt, is_name, join
from ray_committer.protocol.state import new_nonce
from ray_committer.stores.base import StoreOperations

READ_BYTES = 64 << 20
"""The most bytes of packs in the memory of a process: about half a million entries."""
DECODED_ENTRIES = 10_000
"""The most entries in decoded sections: those of the shards that are worked on at the same time."""

T = TypeVar("T")


class PackWriter:
    """Collects the entries of tasks, and makes packs of up to 10,000; for one thread. `packs` are full
    and saved, or in memory if it `saves` none."""

    def __init__(self, store: StoreOperations, job: JobAttempt, *, saves: bool = True) -> None:
        self.packs: list[Pack] = []
        self.saves = saves
        self._store, self._job = store, job
        self._entries: list[Entry] = []
        self._directories: dict[str, None] = {}
        self._parts: list[Sections] = []
        self._files = 0

    def add(self, entries: Sequence[Entry], directories: Iterable[str] = ()) -> None:
        """Add the entries of a task, and the `directories` of the output that it names."""
        self._entries += entries
        self._directories |= dict.fromkeys(directories)
        if len(self._entries) >= SECTION_ENTRIES:
            self._encode(len(self._entries) - len(self._entries) % SECTION_ENTRIES)

    def join(self, sections: Sections) -> None:
        """Add what another writer has left."""
        if self._files + sections.files > MOST_ENTRIES:
            self._end_pack()
        self._parts.append(sections)
        self._files += sections.files

    def rest(self) -> Sections:
        """Take what is in no pack yet: up to 10,000 entries."""
        self._encode(len(self._entries) or len(self._directories))
        rest, self._parts, self._files = joined(self._parts), [], 0
        return rest

    def _encode(self, count: int) -> None:
        for start in range(0, count, SECTION_ENTRIES):
            some = self._entries[start : start + SECTION_ENTRIES]
            self.join(encode_section(some, self._job.tasks, self._directories))
            self._directories = {}
        del self._entries[:count]

    def _end_pack(self) -> None:
        pack = joined(self._parts).pack()
        self.packs.append(save_pack(self._store, self._job, pack) if self.saves else pack)
        self._parts, self._files = [], 0


def save_pack(store: StoreOperations, job: JobAttempt, pack: Pack, name: str = "") -> Pack:
    """Write a pack that is in memory, if possible under the `name`; return it as it is on the store.
    `MissingManifestsError` if the job is gone."""
    saved: list[PackRef] = []
    unused = [name] if name else []

    def write() -> None:
        # A name of its own at each attempt: a write without an answer may still come, and must not meet
        # this one.
        new = unused.pop() if unused else pack_name(new_nonce(), pack.ref.digest)
        try:
            store.write_once(join(job.packs, new), pack.data or b"")
        except FileNotFoundError:  # nothing was written
            unused.append(new)
            raise
        saved.append(structs.replace(pack.ref, name=new))

    try:
        settle(write)
    except FileNotFoundError:
        _make_place(store, job)
        settle(write)
    return Pack(saved[0])


def _make_place(store: StoreOperations, job: JobAttempt) -> None:
    """Make the directory of packs in a job that Hadoop's committer has set up, which makes none."""
    if store.get_status(job.state) is None:
        raise MissingManifestsError(
            f"{mark(job.directory)}: is gone, perhaps because another job's clean-up deleted all of "
            f"{mark(job.temporary)}"
        )
    store.mkdirs(job.packs)


class _Read(NamedTuple):
    data: bytes
    places: tuple[Place, ...]


class PackReader:
    """Reads the packs of a job for all threads of a process: each part once, while there is room."""

    def __init__(self, store: StoreOperations, job: JobAttempt) -> None:
        self._store, self._job = store, job
        self._read: Cache[_Read] = Cache(READ_BYTES)
        self._decoded: Cache[Section] = Cache(DECODED_ENTRIES)
        self._locks: dict[str, threading.Lock] = {}

    def entries(
        self,
        pack: Pack,
        low: int = 0,
        high: int | None = None,
        *,
        tasks: str | None = None,
        without: AbstractSet[str] = frozenset(),
    ) -> Iterator[Entry]:
        """The entries `low` to `high` of a pack, but for those with sources in some directories, by
        their paths below the directory of the job's tasks. `tasks` is where that directory is now; if
        it is not given, sources have the paths that manifests name. `PackChangedError` if the pack is
        gone, or is another."""
        end, tasks = pack.files if high is None else high, self._job.tasks if tasks is None else tasks
        return chain.from_iterable(self._parts(pack, low, end, tasks, without))

    def _parts(
        self, pack: Pack, low: int, high: int, tasks: str, without: AbstractSet[str]
    ) -> Iterator[list[Entry]]:
        read = self._data(pack)
        for place in read.places:
            if place.first < high and place.first + place.files > low:
                section = self._section(pack, read, place)
                yield section.entries(tasks, max(0, low - place.first), high - place.first, without)

    def sections(self, pack: Pack) -> Iterator[Section]:
        """All sections of a pack; errors as `entries`."""
        read = self._data(pack)
        return (self._section(pack, read, place) for place in read.places)

    def _section(self, pack: Pack, read: _Read, place: Place) -> Section:
        key = f"{pack.ref.digest}/{place.start}"
        section = self._decoded.get(key)
        if section is None:
            section = decode_section(read.data, place)
            self._decoded.put(key, section, max(1, place.files))
        return section

    def _data(self, pack: Pack) -> _Read:
        digest = pack.ref.digest
        # One lock a pack: all threads begin at the same pack, which one of them reads.
        with self._locks.setdefault(digest, threading.Lock()):
            read = self._read.get(digest)
            if read is None:
                data = self._load(pack.ref) if pack.data is None else pack.data
                read = _Read(data, tuple(sections_of(data)))
                self._read.put(digest, read, len(data))
        return read

    def _load(self, ref: PackRef) -> bytes:
        path = join(self._job.packs, ref.name)
        try:
            data = self._store.read(path) if is_name(ref.name) else b""
        except (FileNotFoundError, NotADirectoryError) as e:
            raise PackChangedError(
                f"{mark(path)}: names files of this job but is gone, perhaps because another job's "
                "clean-up deleted it",
                "put it back and run the same command, since the files that it names cannot be moved "
                "without it",
            ) from e
        # Only the content decides: others can also write below `_temporary` (R2).
        if digest_of(data) != ref.digest:
            raise PackChangedError(
                f"{mark(path)}: names files of this job but was replaced",
                f"put back the file with SHA-256 {ref.digest}, and run the same command",
            )
        return data


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
