"""Random histories of a table: every version and every consumer of changes sees what happened, once.

The histories have appends, overwrites, undos and aborts, jobs that are in flight for long, and
checkpoints that are saved, deleted or damaged at any time.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

import ray_committer.tables.save_checkpoint as save_module
from ray_committer.protocol import file_list, table_checkpoint
from ray_committer.protocol.file_list import FileSet, ListedFile, partition_of
from ray_committer.protocol.table_entry import TableClaim, TableCommit, WriteMode
from ray_committer.stores import at_once
from ray_committer.tables.changes import committed_since
from ray_committer.tables.file_sets import read_file_set, save_file_set
from ray_committer.tables.put import put_entry
from ray_committer.tables.save_checkpoint import save_checkpoint
from ray_committer.tables.snapshot import TableSnapshot
from ray_committer.testing import MemoryStore
from tests.stages.support import KINDS
from tests.tables.support import TABLE, abort_of, claim_of, done_of, table_on
from tests.tiers import seeds

pytestmark = pytest.mark.usefixtures("no_pauses")

PARTITIONS = ("", "day=1", "day=1/hour=1", "day=10", "day=2")
STEPS = 40


@pytest.fixture(autouse=True)
def small_parts_and_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few files in an entry, in a list and in a part, so that there are several of each."""
    monkeypatch.setattr(file_list, "MOST_INLINE", 2)
    monkeypatch.setattr(file_list, "MOST_FILES", 4)
    monkeypatch.setattr(table_checkpoint, "MOST_FILES", 4)
    monkeypatch.setattr(table_checkpoint, "FEWEST_FILES", 2)
    monkeypatch.setattr(save_module, "MOST_CHANGES", 8)
    monkeypatch.setattr(save_module, "SAMPLED", 1)
    monkeypatch.setattr(at_once, "THREADS", 1)


class History:
    """A table whose log is written at random, and what it must say."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.store: MemoryStore = table_on(self.random.choice(list(KINDS.values()))())
        self.versions: list[dict[str, ListedFile]] = [{}]
        self.commits: list[tuple[int, str]] = []
        self.added = Counter[ListedFile]()
        self._open: dict[int, tuple[TableClaim, list[ListedFile]]] = {}
        self._undone: list[int] = []
        self._numbers = iter(range(1, 10_000))
        self.seen, self.folded = 0, dict[str, ListedFile]()
        self.changed: list[tuple[int, str]] = []
        self.taken = Counter[ListedFile]()

    def step(self) -> None:
        steps = {
            self.claim: 4,
            self.commit: 4,
            self.undo: 1,
            self.abort: 1,
            self.end: 1,
            self.consume: 1,
            self.save: 1,
            self.damage: 1,
        }
        self.random.choices(list(steps), list(steps.values()))[0]()

    def claim(self) -> None:
        mode = self.random.choice([WriteMode.APPEND, WriteMode.OVERWRITE, WriteMode.REPLACE])
        self._claim(mode, self.random.choice(PARTITIONS))

    def commit(self) -> None:
        """Commit any job in flight: an append removes nothing, an overwrite all that is there by now."""
        if not self._open:
            return
        version = self.random.choice(list(self._open))
        claim, added = self._open.pop(version)
        (partition,) = claim.partitions
        removed = [] if claim.mode is WriteMode.APPEND else self._below(partition)
        if claim.mode is WriteMode.REPLACE:
            removed = self.random.sample(removed, self.random.randint(0, len(removed)))
        self._commit(version, claim, added, removed)

    def undo(self) -> None:
        """Go back to an older version of a partition: files with the names of those days."""
        partition = self.random.choice(PARTITIONS)
        older = self.random.choice(self.versions)
        again = [ListedFile(file.path, next(self._numbers)) for file in _below(older, partition)]
        removed = self._below(partition)
        version, claim = self._claim(WriteMode.OVERWRITE, partition, again)
        self._commit(version, claim, self._open.pop(version)[1], removed)

    def abort(self) -> None:
        if self._open:
            version = self.random.choice(list(self._open))
            del self._open[version]
            self._put(abort_of(version))

    def end(self) -> None:
        """Say that the old files of a job are gone."""
        if self._undone:
            self._put(done_of(self._undone.pop(self.random.randrange(len(self._undone)))))

    def consume(self) -> None:
        """A consumer asks for the changes since it has asked last, and may stop in the middle."""
        found = committed_since(self.store, TABLE, "id", self.seen)
        for one in found[: self.random.randint(0, len(found) + 1)]:
            job_id = one.claim.job_id
            removed = read_file_set(self.store, TABLE, one.removed, job_id=job_id, job_attempt=0)
            added = read_file_set(self.store, TABLE, one.claim.files, job_id=job_id, job_attempt=0)
            for file in removed:
                del self.folded[file.path]
            self.folded.update((file.path, file) for file in added)
            self.taken.update(added)
            self.changed.append((one.version, one.claim.mode.value))
            self.seen = one.version

    def save(self) -> None:
        version = self.random.choice([len(self.versions) - 1, self.random.randrange(len(self.versions))])
        assert save_checkpoint(self.store, TABLE, "id", version) is None

    def damage(self) -> None:
        """Delete a checkpoint or a part of one, or change its content."""
        there = sorted(self.store.files(TABLE.checkpoints))
        if there:
            path = self.random.choice(there)
            if self.random.random() < 0.5:
                self.store.delete_file(path)
            else:
                data = bytearray(self.store.read(path))
                data[self.random.randrange(len(data))] ^= 1
                self.store.write(path, bytes(data))

    def _below(self, partition: str) -> list[ListedFile]:
        return _below(self.versions[-1], partition)

    def _claim(
        self, mode: WriteMode, partition: str, files: list[ListedFile] | None = None
    ) -> tuple[int, TableClaim]:
        if files is None:
            names = (next(self._numbers) for _ in range(self.random.randint(0, 6)))
            files = [ListedFile(f"{partition}/{name}".lstrip("/"), name) for name in names]
        job_id = f"job_{next(self._numbers)}"
        claim = claim_of(job_id, self._listed(job_id, files), mode=mode, partitions=[partition], base=0)
        version = self._put(claim)
        self._open[version] = claim, files
        return version, claim

    def _commit(
        self, version: int, claim: TableClaim, added: list[ListedFile], removed: list[ListedFile]
    ) -> None:
        entry = TableCommit(
            job_id=claim.job_id,
            job_attempt=0,
            claim=version,
            at_milliseconds=2,
            removed=self._listed(claim.job_id, removed),
        )
        gone = {file.path for file in removed}
        after = {path: file for path, file in self.versions[-1].items() if path not in gone}
        after.update((file.path, file) for file in added)
        number = self._put(entry, after)
        self.commits.append((number, claim.mode.value))
        self.added.update(added)
        if removed:
            self._undone.append(version)

    def _listed(self, job_id: str, files: list[ListedFile]) -> FileSet:
        return save_file_set(self.store, TABLE, files, job_id=job_id, job_attempt=0)

    def _put(self, entry: object, after: dict[str, ListedFile] | None = None) -> int:
        version = len(self.versions)
        put_entry(self.store, TABLE, version, entry)  # type: ignore[arg-type]
        self.versions.append(self.versions[-1] if after is None else after)
        return version


def _below(files: dict[str, ListedFile], partition: str) -> list[ListedFile]:
    prefix = f"{partition}/" if partition else ""
    return [files[path] for path in sorted(files) if path.startswith(prefix)]


@pytest.mark.slow
@pytest.mark.parametrize("numbers", seeds(narrow=50, wide=1_000))
def test_every_version_and_every_consumer_sees_what_happened(numbers: range):
    modes = Counter[str]()
    for seed in numbers:
        history = History(seed)
        for _ in range(STEPS):
            history.step()
        while history.seen < (history.commits[-1][0] if history.commits else 0):
            history.consume()
        check(history)
        modes.update(mode for _, mode in history.commits)
    assert min(modes[mode] for mode in ("append", "overwrite", "replace")) > len(numbers)


def check(history: History) -> None:
    assert history.folded == history.versions[-1]
    assert history.changed == history.commits
    assert history.taken == history.added
    for version in history.random.sample(range(len(history.versions)), min(5, len(history.versions))):
        found = TableSnapshot(history.store, TABLE, "id", version)
        wanted = history.versions[version]
        for partition in PARTITIONS:
            assert found.files(partition) == _below(wanted, partition), (version, partition)
    head = TableSnapshot(history.store, TABLE, "id")
    assert head.files() == _below(history.versions[-1], "")
    assert {partition_of(file.path) for file in head.files()} <= set(PARTITIONS)
