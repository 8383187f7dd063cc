"""Sum up the files of tasks by directory: as packs name them, and as listings show them.

Of each file there is one number of 16 bytes, from its name, its size and what identifies it. The number
of files in a directory and the sum of these numbers are equal if the files are: the driver compares
these and holds nothing per file. Where they differ, the files themselves are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from typing import NamedTuple

from ray_committer.protocol.hidden_names import is_passed_over
from ray_committer.protocol.pack import Entry, Pack, Section
from ray_committer.protocol.paths import STAGED, join
from ray_committer.protocol.staging import is_shared, is_staged_source
from ray_committer.protocol.whole import (
    BY_ETAG,
    BY_SIZE,
    BY_TIME,
    SEVERAL,
    TOTALS,
    Rights,
    Tally,
    goal_of,
)
from ray_committer.stores.base import FileStatus, Versions
from ray_committer.work.sources import list_directory
from ray_committer.work.worker import Worker


def packed_tallies(worker: Worker, pack: Pack) -> dict[str, Tally]:
    """Work: the files that a pack names, by the directory of their sources below the job's tasks."""
    has_etags = worker.store.capabilities.versions is not Versions.NONE
    sums = defaultdict[str, _Sum](_Sum)
    goal = lru_cache(None)(partial(goal_of, root=worker.job.destination))
    for section in worker.packs.sections(pack):
        if section.sources:  # an upload has none
            in_section = [sums[source] for source in section.sources]
            _add_files(in_section, section, has_etags)
            _add_goals(in_section, section, goal)
    return {source: each.tally() for source, each in sums.items()}


@dataclass(slots=True)
class _Sum:
    """A `Tally` that is summed up in place: one file of each source in each section costs little."""

    files: int = 0
    size: int = 0
    total: int = 0
    proof: int = 0
    goal: bytes = b""
    more: set[bytes] | None = None  # few have several goals

    def add_goal(self, goal: bytes) -> None:
        if self.goal in (b"", goal):
            self.goal = goal
        else:
            self.more = self.more or {self.goal}
            self.more.add(goal)

    def tally(self) -> Tally:
        goals = b"".join(sorted(self.more)) if self.more else self.goal
        return Tally(self.files, self.size, self.total % TOTALS, self.proof, goals=goals)


def _add_files(sums: Sequence[_Sum], section: Section, has_etags: bool) -> None:
    """Add the files of a section to the sums of its sources."""
    source_names, absent = section.source_names or section.names, [None] * len(section.source_of)
    etags = (section.etags if has_etags else ()) or absent
    times = (() if has_etags else section.modified) or absent
    columns = zip(section.source_of, source_names, section.sizes, etags, times, strict=True)
    for source, name, size, etag, time in columns:
        each = sums[source]
        each.files += 1
        each.size += size
        identity = etag or ("" if time is None else time)
        each.total += int.from_bytes(_digest(name, size, identity))
        each.proof |= BY_ETAG if etag else BY_SIZE if time is None else BY_TIME


def _add_goals(sums: Sequence[_Sum], section: Section, goal: Callable[[str], bytes]) -> None:
    """Add where the files of a section go."""
    goals = list(map(goal, section.dests))
    for source, dest in set(zip(section.source_of, section.dest_of, strict=False)):
        sums[source].add_goal(goals[dest])
    if section.source_names:
        renamed = zip(section.source_of, section.names, section.source_names, strict=True)
        for source in {source for source, new, old in renamed if new != old}:
            sums[source].add_goal(SEVERAL)


class Listed(NamedTuple):
    """How many directories were listed, and which show something else than is `wanted` of them: None
    for one that is not there."""

    directories: int
    differing: list[tuple[str, Tally | None]]


def compare_listings(worker: Worker, wanted: tuple[tuple[str, Tally], ...], *, tasks: str) -> Listed:
    """Work: list some directories below `tasks`, and compare them with what packs name in them."""

    def compare(item: tuple[str, Tally]) -> tuple[str, Tally | None] | None:
        directory, tally = item
        try:  # past each cache: a task on this machine may have listed it before others wrote there
            listed = tally_of(worker.store.list_anew(join(tasks, directory)), tally.proof)
        except (FileNotFoundError, NotADirectoryError):
            return directory, None
        return (directory, listed) if tally.differs(listed) else None

    compared = [*worker.map(compare, wanted)]
    return Listed(len(compared), [each for each in compared if each is not None])


class Shared(NamedTuple):
    """The directories that tasks share: the `keys` of those for directories of the output, 16 bytes
    each, by their rights, and those for the destination."""

    keys: dict[str | None, bytes]
    roots: list[str]

    def names(self) -> Iterator[str]:
        """All of them."""
        yield from self.roots
        for keys in self.keys.values():
            yield from _sources(keys)

    def rights(self) -> Rights:
        """The rights of those for directories of the output."""
        usual = max(self.keys, key=lambda rights: len(self.keys[rights]), default=None)
        unusual = ((rights, _sources(keys)) for rights, keys in self.keys.items() if rights != usual)
        return Rights(usual, {source: rights for rights, names in unusual for source in names})


def list_shared(worker: Worker, directories: tuple[str, ...], *, tasks: str) -> Shared:
    """Work: the directories that tasks share, in some places below `tasks`."""
    keys, roots = defaultdict[str | None, list[bytes]](list), list[str]()

    def list_one(place: str) -> tuple[str, list[FileStatus]]:
        return place, list_directory(worker.store, join(tasks, place), anew=True)

    for place, listed in worker.map(list_one, directories):
        for status in listed:
            source = join(place, status.name)
            if status.is_directory and is_shared(source):
                keys[status.rights].append(bytes.fromhex(status.name))
            elif status.is_directory and is_staged_source(source):
                roots.append(source)
    return Shared({rights: b"".join(parts) for rights, parts in keys.items()}, roots)


def _sources(keys: bytes) -> Iterator[str]:
    return (join(STAGED, keys[at : at + 16].hex()) for at in range(0, len(keys), 16))


def tally_of(listed: Iterable[FileStatus], proof: int) -> Tally:
    """Sum up the regular files of a listing, but for names that no task commits."""
    size = unlike = 0
    digests = list[bytes]()
    for status in listed:
        if not is_file(status):
            unlike += 1
            continue
        unlike += status.is_link
        size += status.size
        identity: object = status.etag or "" if proof == BY_ETAG else ""
        if proof == BY_TIME:
            identity = status.modified_milliseconds
        digests.append(_digest(status.name, status.size, identity))
    return Tally(len(digests), size, sum(map(int.from_bytes, digests)) % TOTALS, proof, unlike)


def is_file(status: FileStatus) -> bool:
    """Whether a status is of a regular file whose name is one of output."""
    return not (status.is_directory or status.is_special or is_passed_over(status.name))


def entries_in(worker: Worker, pack: Pack, *, directories: frozenset[str], tasks: str) -> list[Entry]:
    """Work: the entries of a pack with sources in some directories below `tasks`."""
    selected: list[Entry] = []
    for section in worker.packs.sections(pack):
        if not directories.isdisjoint(section.sources):
            entries = section.entries(tasks)
            pairs = zip(entries, section.source_of, strict=True)
            selected += (entry for entry, index in pairs if section.sources[index] in directories)
    return selected


def _digest(name: str, size: int, identity: object) -> bytes:
    text = f"{name}\0{size}\0{identity}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=16).digest()
