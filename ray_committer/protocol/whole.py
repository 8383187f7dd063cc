"""Which directories of the output are put in place whole, by one rename, and why the others are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from struct import Struct
from types import MappingProxyType
from typing import NamedTuple, cast

import msgspec

from ray_committer.protocol.paths import STAGED, parent
from ray_committer.protocol.staging import is_shared, key_of
from ray_committer.protocol.uri import Location

BY_SIZE, BY_TIME, BY_ETAG = 1, 2, 4
"""What identifies a file in a `Tally`, beside its name and its size."""
TOTALS = 1 << 128
"""Sums of numbers of files have 16 bytes, too."""
SEVERAL = b"several".ljust(16, b"\0")
"""The goal of a source whose files have several; beside goals: some files get other names."""


class ByFile(StrEnum):
    """Why the files of a directory are moved one by one; of several reasons the first counts. Of a
    directory that holds others of the output, that is the reason, and it is not counted."""

    NOT_HERE = "not here"
    """The store or file system moves no directories whole, or Hadoop's committer has set the job up."""
    NO_FILES = "no files"
    THERE = "it is there"
    """The directory was in place before."""
    OWN_NAMES = "names of their own"
    """Some of its files can lie in directories of task attempts, as formats or programs have named them.
    They would follow when readers see the others."""
    TWO_SOURCES = "two sources"
    ODD = "odd files"
    """Its source holds something that is no file, or as many leftovers of attempts as files."""
    NO_PROOF = "no proof"
    """Of some files neither time nor etag is known."""
    RIGHTS = "other rights"
    """A new directory in its place would have another owner, group, mode or access list."""
    REFUSED = "refused"
    """The store has refused the request."""


class Tally(NamedTuple):
    """How many files a source has and their size, the sum of their numbers of 16 bytes, and by what the
    packs identify them. `others` are names in a listing that no task commits, or that are no files.
    `goals` stand for the directories to which some go, with 16 bytes each, or are only `SEVERAL`."""

    files: int = 0
    size: int = 0
    total: int = 0
    proof: int = 0
    others: int = 0
    goals: bytes = b""

    def plus(self, other: Tally) -> Tally:
        return Tally(
            self.files + other.files,
            self.size + other.size,
            (self.total + other.total) % TOTALS,
            self.proof | other.proof,
            self.others + other.others,
            self.goals if self.goals == other.goals else self.goals + other.goals,
        )

    def shows(self, listed: Tally) -> bool:
        """Whether a listing shows exactly the files of this one, but for `others`."""
        return (self.files, self.total) == (listed.files, listed.total)

    def differs(self, listed: Tally) -> bool:
        """Whether a listing shows anything else."""
        return not self.shows(listed) or listed.others > 0


NOTHING = Tally()


def goal_of(directory: str, root: str) -> bytes:
    """What stands for a directory of the output in `root`, in 16 bytes: the name of its own source."""
    return bytes.fromhex(key_of(Location("", "", directory), Location("", "", root)))


_ROW = Struct("<QQB16s")


class Sources:
    """The tallies of all sources as packs name them; 100,000 of them take 17 MB. `spread` are the
    goals of those with several: each can get a file from such a source."""

    def __init__(self) -> None:
        self.spread = set[bytes]()
        self._rows: dict[bytes | str, bytes] = {}  # without the goal, if that is the key

    def add(self, source: str, tally: Tally) -> None:
        """Add some files of a source."""
        key = _key(source)
        if row := self._rows.get(key):
            tally = _tally(key, row).plus(tally)
        goals = tally.goals
        if len(goals) > len(SEVERAL):
            self.spread.update(goals[at : at + 16] for at in range(0, len(goals), 16))
            goals = SEVERAL
        sums = _ROW.pack(tally.files, tally.size, tally.proof, tally.total.to_bytes(16))
        self._rows[key] = sums if goals == key else sums + goals.ljust(16, b"\0")

    def get(self, source: str) -> Tally:
        """The files of a source, perhaps none."""
        key = _key(source)
        row = self._rows.get(key)
        return NOTHING if row is None else _tally(key, row)

    def __contains__(self, source: str) -> bool:
        return _key(source) in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return map(_source, self._rows)

    def items(self) -> Iterator[tuple[str, Tally]]:
        """Each source, with its files."""
        return ((_source(key), _tally(key, row)) for key, row in self._rows.items())

    def has_own(self, goal: bytes) -> bool:
        """Whether a goal has its own source, and all files of that go there."""
        return len(self._rows.get(goal, b"")) == _ROW.size

    def strays(self) -> Iterator[tuple[bytes | str, bytes]]:
        """All other sources, each with its goal; a shared one is given in 16 bytes."""
        for key, row in self._rows.items():
            if len(row) > _ROW.size:
                yield key, row[_ROW.size :]


def _key(source: str) -> bytes | str:
    return bytes.fromhex(source[3:]) if is_shared(source) else source


def _source(key: bytes | str) -> str:
    return key if isinstance(key, str) else f"{STAGED}/{key.hex()}"


def _tally(key: bytes | str, row: bytes) -> Tally:
    files, size, proof, total = _ROW.unpack_from(row)
    goal = row[_ROW.size :] or cast("bytes", key)
    return Tally(files, size, int.from_bytes(total), proof, 0, goal)


class Verdict(NamedTuple):
    """What a listing of a source shows that is not as the packs name it: `leftovers` are the names of
    files that no pack names. It `is_missing` if it is not there, and `is_partial` without some files,
    which an earlier run has moved. It `is_odd` if it holds something that is no regular file."""

    leftovers: tuple[str, ...] = ()
    is_missing: bool = False
    is_partial: bool = False
    is_odd: bool = False


AS_NAMED = Verdict()


class Rights(NamedTuple):
    """The rights of sources: the `usual` ones, and of those with `unusual` ones theirs. None if they are
    not known."""

    usual: str | None = None
    unusual: Mapping[str, str | None] = MappingProxyType({})

    def of(self, source: str) -> str | None:
        """The rights of a source."""
        return self.unusual.get(source, self.usual)


class Move(msgspec.Struct, frozen=True, gc=False):
    """One directory to put in place: from `source`, relative to the directory of the tasks' files, to
    `dest`. It holds `files` with `size` bytes, whose numbers sum up to `total`, by which a listing of
    `dest` proves that it is in place. Of the files in it, `leftovers` are to be deleted before."""

    source: str
    dest: str
    files: int
    size: int
    total: int
    proof: int
    leftovers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Moves:
    """The moves of a plan to the directories `dests` in `root`, each made when it is asked for: there
    can be 100,000. `strays` are the sources of goals that have not their own ones."""

    sources: Sources
    verdicts: Mapping[str, Verdict]
    root: str
    strays: Mapping[bytes, bytes | None]
    dests: Sequence[str]

    def __len__(self) -> int:
        return len(self.dests)

    def __iter__(self) -> Iterator[Move]:
        return map(self._move, self.dests)

    def __getitem__(self, place: slice) -> tuple[Move, ...]:
        return tuple(map(self._move, self.dests[place]))

    def without(self, dests: Container[str]) -> Moves:
        """These but for some, unless another run seems to have moved them, which has compared them."""
        gone = {source for source, verdict in self.verdicts.items() if verdict.is_missing}
        kept = (dest for dest in self.dests if dest not in dests or self._source(dest) in gone)
        return replace(self, dests=[*kept])

    def _source(self, dest: str) -> str:
        goal = goal_of(dest, self.root)
        return _source(self.strays.get(goal) or goal)

    def _move(self, dest: str) -> Move:
        source = self._source(dest)
        tally, verdict = self.sources.get(source), self.verdicts.get(source, AS_NAMED)
        sums = tally.files, tally.size, tally.total, tally.proof
        return Move(source, dest, *sums, verdict.leftovers)


NO_MOVES = Moves(Sources(), {}, "/", {}, ())


@dataclass(frozen=True, slots=True)
class WholePlan:
    """What a look has found: which sources go whole, each for one directory alone, and why how many of
    the other directories do not. Only a hint: each rename finds what has changed since."""

    moves: Moves = NO_MOVES
    by_file: Counter[ByFile] = field(default_factory=Counter)
    rights: Rights = Rights()  # noqa: RUF009 - frozen

    def without(self, unlike: Container[str]) -> WholePlan:
        """This plan, but for directories `unlike` those that would be made in their places."""
        moves = self.moves.without(unlike)
        by_file = self.by_file + Counter({ByFile.RIGHTS: len(self.moves) - len(moves)})
        return replace(self, moves=moves, by_file=by_file)

    @property
    def files(self) -> int:
        """The files in directories that go whole."""
        return sum(move.files for move in self.moves)


def plan_whole(
    sources: Sources,
    verdicts: Mapping[str, Verdict],
    root: str,
    directories: Collection[str],
    there: Container[str] = (),
) -> WholePlan:
    """Decide for each leaf of the `directories` of the output in `root`, of which some are `there`,
    whether its source goes whole. `sources` are as packs name them, and `verdicts` are of those that a
    listing shows otherwise."""
    shared, apart = dict[bytes, bytes | None](), {*sources.spread}
    for source, goal in sources.strays():
        if isinstance(source, str):
            apart.add(goal)
        else:
            shared[goal] = None if goal in shared or sources.has_own(goal) else source
    dests, by_file = list[str](), Counter[ByFile]()
    inner = _above(directories)
    for dest in sorted(path for path in directories if path not in inner):
        goal = goal_of(dest, root)
        key, has_one = shared.get(goal, goal), goal in shared or sources.has_own(goal)
        if not (has_one or goal in apart):
            by_file[ByFile.NO_FILES] += 1
        elif dest in there:
            by_file[ByFile.THERE] += 1
        elif goal in apart:
            by_file[ByFile.OWN_NAMES] += 1
        elif key is None:
            by_file[ByFile.TWO_SOURCES] += 1
        elif why := _why_by_file(sources, verdicts, _source(key)):
            by_file[why] += 1
        else:
            dests.append(dest)
    return WholePlan(Moves(sources, verdicts, root, shared, dests), by_file)


def _why_by_file(sources: Sources, verdicts: Mapping[str, Verdict], source: str) -> ByFile | None:
    tally, verdict = sources.get(source), verdicts.get(source, AS_NAMED)
    if verdict.is_partial:
        return ByFile.THERE
    if verdict.is_odd or len(verdict.leftovers) >= tally.files:
        return ByFile.ODD
    return None if tally.proof in (BY_TIME, BY_ETAG) else ByFile.NO_PROOF


def _above(directories: Iterable[str]) -> set[str]:
    """All directories that are above some."""
    inner = set[str]()
    for path in directories:
        path = parent(path)
        while path not in inner and path != "/":
            inner.add(path)
            path = parent(path)
    return inner
