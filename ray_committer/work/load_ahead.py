"""Load what tasks have committed, by their results, while other tasks of the job still run.

The result of a task has the digest of its manifest and, if that is small, the manifest itself. So the
commit reads no manifest that its driver knows already. Nothing is decided here, and what cannot be
loaded is left to the commit: a driver that dies has lost nothing, since the manifests are on the store.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from ray_committer.options import CommittedTask
from ray_committer.protocol.iostatistics import Totals
from ray_committer.protocol.manifest import ManifestRef
from ray_committer.protocol.pack import MOST_ENTRIES, NO_SECTIONS, Pack, Sections
from ray_committer.protocol.passed_over import PassedOver
from ray_committer.protocol.paths import is_name, is_within, join
from ray_committer.stores.at_once import streamed
from ray_committer.work.load_manifest import LoadedManifest, Where, load_manifest
from ray_committer.work.packs import PackWriter, save_pack

_log = logging.getLogger(__name__)

EVERYWHERE = ("/",)
"""The roots while tasks run: only the commit knows where its job can write."""

Key = tuple[str, str]
"""The name and the digest of a manifest."""


@dataclass(slots=True)
class Chunk:
    """Manifests that count together or not at all: with at most as many entries as a pack, or only one.
    `marks` are the fingerprints of the destinations. When it ends, the entries are in `packs`, or in
    the `rest`, which is in memory."""

    writer: PackWriter
    refs: list[ManifestRef] = field(default_factory=list)
    files: int = 0
    packs: tuple[Pack, ...] = ()
    rest: Sections = NO_SECTIONS
    directories: dict[str, None] = field(default_factory=dict)
    marks: bytearray = field(default_factory=bytearray)
    statistics: Totals = field(default_factory=Totals)
    passed_over: PassedOver = field(default_factory=PassedOver)

    def add(self, loaded: LoadedManifest) -> None:
        self.refs.append(loaded.ref)
        self.files += loaded.ref.files
        self.writer.add(loaded.entries, loaded.directories)
        self.directories.update(dict.fromkeys(loaded.directories))
        self.marks += loaded.marks
        self.statistics.add(loaded.statistics)
        if loaded.passed_over.number:
            self.passed_over = self.passed_over.plus(loaded.passed_over)

    def end(self) -> None:
        self.rest = self.writer.rest()  # which can fill a pack
        self.packs = tuple(self.writer.packs)

    def keys(self) -> set[Key]:
        return {(ref.name, ref.digest) for ref in self.refs}


class LoadAhead:
    """The committed tasks of one job with this `stamp`, loaded as their results come; thread-safe.
    `open_job` opens its store when the first tasks come."""

    def __init__(self, open_job: Callable[[], Where], stamp: str) -> None:
        self.stamp = stamp
        self._open_job = open_job
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._where: Where | None = None
        self._ended: list[Chunk] = []
        self._open: Chunk | None = None
        self._known: set[Key] = set()

    def add(self, tasks: Sequence[CommittedTask]) -> None:
        """Load the manifests of `tasks`, and save each full pack; never fails. A manifest that cannot be
        loaded, or is not what its task has saved, is left to the commit, which reports it."""
        with self._lock:
            if self._is_over.is_set():
                return
            try:
                where = self._where = self._where or self._open_job()
                for task, text in self._texts(where, self._new(tasks)):
                    if self._is_over.is_set():
                        return
                    self._load(where, task, text, EVERYWHERE)
                where.store.take_statistics()  # of another process than the commit, perhaps for days
            except Exception:  # noqa: BLE001 - the commit meets the same error, and raises it
                _log.info("tasks that have committed are left to the commit", exc_info=True)

    def stop(self) -> None:
        """Load nothing more."""
        self._is_over.set()

    def of(
        self, where: Where, tasks: Sequence[CommittedTask], roots: tuple[str, ...]
    ) -> tuple[list[Chunk], list[CommittedTask]]:
        """What is loaded of exactly these tasks, and the tasks that are not loaded; repeatable. The job
        can write to `roots`. Manifests that came with their tasks are loaded now. A chunk with another
        manifest, such as an earlier attempt of a task that ran again, is left out as a whole."""
        self.stop()
        with self._lock:
            self._end(where, saves=False)
            wanted, allowed = {(task.manifest, task.digest) for task in tasks}, frozenset(roots)
            self._ended = [
                chunk for chunk in self._ended if chunk.keys() <= wanted and _is_in(chunk, allowed)
            ]
            self._known = set[Key]().union(*map(Chunk.keys, self._ended))
            for task in self._new(tasks):
                if task.text is not None:
                    self._load(where, task, task.text, roots)
            self._end(where, saves=False)
            return list(self._ended), self._new(tasks)

    def _new(self, tasks: Iterable[CommittedTask]) -> list[CommittedTask]:
        unique = {(task.manifest, task.digest): task for task in tasks}
        return [task for key, task in unique.items() if key not in self._known]

    def _texts(
        self, where: Where, tasks: Iterable[CommittedTask]
    ) -> Iterator[tuple[CommittedTask, bytes]]:
        """The tasks with the bytes of their manifests: first those whose result has them."""
        unsent = []
        for task in tasks:
            if task.text is not None:
                yield task, task.text
            elif is_name(task.manifest):
                unsent.append(task)

        def read(task: CommittedTask) -> tuple[CommittedTask, bytes | None]:
            path = join(where.job.manifests, task.manifest)
            try:
                return task, None if self._is_over.is_set() else where.store.read(path)
            except Exception:  # noqa: BLE001 - the commit reads it, and raises what is wrong
                _log.debug("%s: is left to the commit", path, exc_info=True)
                return task, None

        for task, text in streamed(where.store, read, unsent):
            if text is not None:
                yield task, text

    def _load(self, where: Where, task: CommittedTask, text: bytes, roots: tuple[str, ...]) -> None:
        path = join(where.job.manifests, task.manifest)
        try:
            loaded = load_manifest(where, path, text, roots=roots, stamp=self.stamp)
        except Exception:  # noqa: BLE001 - the commit loads it, and raises what is wrong
            _log.debug("%s: is left to the commit", path, exc_info=True)
            return
        ref = loaded.ref
        meant = task.manifest, task.digest, task.task_attempt_id
        if (ref.name, ref.digest, ref.task_attempt_id) != meant:
            return
        if self._open is not None and self._open.files + ref.files > MOST_ENTRIES:
            self._end(where, saves=True)
        if self._open is None:
            self._open = Chunk(PackWriter(where.store, where.job, saves=False))
        self._open.add(loaded)
        self._known.add((ref.name, ref.digest))

    def _end(self, where: Where, *, saves: bool) -> None:
        """End the open chunk. A pack that cannot be saved stays in memory, for the commit."""
        chunk, self._open = self._open, None
        if chunk is None:
            return
        chunk.end()
        self._ended.append(chunk)
        if saves:
            packs = [*chunk.packs, *([chunk.rest.pack()] if chunk.rest.data else [])]
            try:
                chunk.packs = tuple(save_pack(where.store, where.job, pack) for pack in packs)
                chunk.rest = NO_SECTIONS
            except Exception:  # noqa: BLE001 - the commit saves it, and raises what is wrong
                _log.info("a pack is left to the commit", exc_info=True)


def _is_in(chunk: Chunk, roots: AbstractSet[str]) -> bool:
    return all(is_within(path, roots) for path in chunk.directories)
