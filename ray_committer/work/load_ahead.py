"""Load what tasks have committed, by their results, while other tasks of the job still run.

The result of a task has the digest of its manifest and, if that is small, the manifest itself. So the
commit reads no manifest that its driver knows already. Nothing is decided here, and what cannot be
loaded is left to the commit: a driver that dies has lost nothing, since the manifests are on the store.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ray_committer.options import CommittedTask
from ray_committer.protocol.iostatistics import Totals
from ray_committer.protocol.manifest import ManifestRef
from ray_committer.protocol.pack import Entry
from ray_committer.protocol.passed_over import PassedOver
from ray_committer.protocol.paths import is_name, join
from ray_committer.stores.at_once import streamed
from ray_committer.work.load_manifest import LoadedManifest, Where, load_manifest

_log = logging.getLogger(__name__)

CHUNK_ENTRIES = 10_000
EVERYWHERE = ("/",)
"""The roots while tasks run: only the commit knows where its job can write."""


@dataclass(slots=True)
class Chunk:
    """Manifests that count together or not at all: with at most `CHUNK_ENTRIES` entries, or only one.
    `marks` are the fingerprints of the destinations."""

    refs: list[ManifestRef] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    directories: dict[str, None] = field(default_factory=dict)
    marks: bytearray = field(default_factory=bytearray)
    statistics: Totals = field(default_factory=Totals)
    passed_over: PassedOver = field(default_factory=PassedOver)

    def add(self, loaded: LoadedManifest) -> None:
        self.refs.append(loaded.ref)
        self.entries += loaded.entries
        self.directories.update(dict.fromkeys(loaded.directories))
        self.marks += loaded.marks
        self.statistics.add(loaded.statistics)
        if loaded.passed_over.number:
            self.passed_over = self.passed_over.plus(loaded.passed_over)

    def keys(self) -> set[tuple[str, str]]:
        """The names and digests of the manifests."""
        return {(ref.name, ref.digest) for ref in self.refs}

    def has_room(self, files: int) -> bool:
        return not self.refs or len(self.entries) + files <= CHUNK_ENTRIES


class LoadAhead:
    """The committed tasks of one job with this `stamp`, loaded as their results come; thread-safe.
    `open_job` opens its store when the first tasks come."""

    def __init__(self, open_job: Callable[[], Where], stamp: str) -> None:
        self.stamp = stamp
        self._open_job = open_job
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._where: Where | None = None
        self._chunks: list[Chunk] = []
        self._known: set[tuple[str, str]] = set()

    def add(self, tasks: Sequence[CommittedTask]) -> None:
        """Load the manifests of `tasks`; never fails. One that cannot be loaded, or is not what its task
        has saved, is left to the commit, which reports it."""
        with self._lock:
            if self._is_over.is_set():
                return
            try:
                self._where = self._where or self._open_job()
                self._add(self._where, tasks)
            except Exception:  # noqa: BLE001 - the commit meets the same error, and raises it
                _log.info("tasks that have committed are left to the commit", exc_info=True)

    def stop(self) -> None:
        """Load nothing more."""
        self._is_over.set()

    def of(self, tasks: Sequence[CommittedTask]) -> tuple[list[Chunk], list[CommittedTask]]:
        """What is loaded of exactly these tasks, and the tasks that are not loaded. A chunk with another
        manifest, such as an earlier attempt of a task that ran again, is left out as a whole."""
        self.stop()
        with self._lock:
            wanted = {(task.manifest, task.digest) for task in tasks}
            chunks = [chunk for chunk in self._chunks if chunk.keys() <= wanted]
            known = set[tuple[str, str]]().union(*map(Chunk.keys, chunks))
            return chunks, [task for task in tasks if (task.manifest, task.digest) not in known]

    def _add(self, where: Where, tasks: Sequence[CommittedTask]) -> None:
        new = {(task.manifest, task.digest): task for task in tasks if is_name(task.manifest)}
        for key in new.keys() & self._known:
            del new[key]
        for task, text in self._texts(where, new.values()):
            if self._is_over.is_set():
                return
            self._load(where, task, text)

    def _texts(
        self, where: Where, tasks: Iterable[CommittedTask]
    ) -> Iterator[tuple[CommittedTask, bytes]]:
        """The tasks with the bytes of their manifests: first those whose result has them."""
        unsent = []
        for task in tasks:
            if task.text is not None:
                yield task, task.text
            else:
                unsent.append(task)

        def read(task: CommittedTask) -> tuple[CommittedTask, bytes | None]:
            return task, None if self._is_over.is_set() else _read(where, task.manifest)

        for task, text in streamed(where.store, read, unsent):
            if text is not None:
                yield task, text

    def _load(self, where: Where, task: CommittedTask, text: bytes) -> None:
        path = join(where.job.manifests, task.manifest)
        try:
            loaded = load_manifest(where, path, text, roots=EVERYWHERE, stamp=self.stamp)
        except Exception:  # noqa: BLE001 - the commit loads it, and raises what is wrong
            _log.debug("%s: is left to the commit", path, exc_info=True)
            return
        ref = loaded.ref
        if (ref.digest, ref.task_attempt_id) != (task.digest, task.task_attempt_id):
            return
        if not self._chunks or not self._chunks[-1].has_room(ref.files):
            self._chunks.append(Chunk())
        self._chunks[-1].add(loaded)
        self._known.add((ref.name, ref.digest))


def _read(where: Where, name: str) -> bytes | None:
    try:
        return where.store.read(join(where.job.manifests, name))
    except Exception:  # noqa: BLE001 - the commit reads it, and raises what is wrong
        _log.debug("%s: is left to the commit", name, exc_info=True)
        return None
