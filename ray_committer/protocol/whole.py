"""Which directories of the output are put in place whole, by one rename, and why the others are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from ray_committer.protocol.paths import parent
from ray_committer.protocol.staging import is_shared

BY_SIZE, BY_TIME, BY_ETAG = 1, 2, 4
"""What identifies a file in a `Tally`, beside its name and its size."""
ODD = b"odd"
"""The goal of files that go to several directories, or under other names."""


class ByFile(StrEnum):
    """Why the files of a directory are moved one by one; of several reasons the first counts. Of a
    directory that holds others of the output, that is the reason, and it is not counted."""

    NOT_HERE = "not here"
    """The store or file system moves no directories whole, or Hadoop's committer has set the job up."""
    NO_FILES = "no files"
    THERE = "it is there"
    """The directory was in place before."""
    OWN_NAMES = "names of their own"
    """Its files lie in directories of task attempts, as formats or programs have named them."""
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
    `goal` stands for the one directory to which all go under their own names, or is `ODD`."""

    files: int = 0
    size: int = 0
    total: int = 0
    proof: int = 0
    others: int = 0
    goal: bytes = b""

    def plus(self, other: Tally) -> Tally:
        return Tally(
            self.files + other.files,
            self.size + other.size,
            self.total + other.total,
            self.proof | other.proof,
            self.others + other.others,
            one_goal(self.goal, other.goal),
        )

    def shows(self, listed: Tally) -> bool:
        """Whether a listing shows exactly the files of this one, but for `others`."""
        return (self.files, self.total) == (listed.files, listed.total)

    def differs(self, listed: Tally) -> bool:
        """Whether a listing shows anything else."""
        return not self.shows(listed) or listed.others > 0


def one_goal(goal: bytes, other: bytes) -> bytes:
    """The goal of files of which some have this `goal`, and some the `other`."""
    return goal or other if goal == other or not (goal and other) else ODD


def goal_of(directory: str) -> bytes:
    """What stands for a directory of the output, in 16 bytes."""
    return blake2b(directory.encode(errors="surrogatepass"), digest_size=16).digest()


class Verdict(NamedTuple):
    """What a listing of a source shows that is not as the packs name it: `leftovers` are the names of
    files that no pack names. It `is_missing` if it is not there, and `is_partial` without some files,
    which an earlier run has moved. It `is_odd` if it holds something that is no regular file."""

    leftovers: tuple[str, ...] = ()
    is_missing: bool = False
    is_partial: bool = False
    is_odd: bool = False


AS_NAMED = Verdict()


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
class WholePlan:
    """What a look has found: which sources go whole, each for one directory alone, and why how many of
    the other directories do not. Only a hint: each rename finds what has changed since."""

    moves: tuple[Move, ...] = ()
    by_file: Counter[ByFile] = field(default_factory=Counter)


def plan_whole(
    sources: Mapping[str, Tally],
    verdicts: Mapping[str, Verdict],
    directories: Collection[str],
    there: Container[str] = (),
    unlike: Container[str] = (),
) -> WholePlan:
    """Decide for each leaf of the `directories` of the output, of which some are `there`, whether its
    source goes whole. `sources` are as packs name them, `verdicts` are of those that a listing shows
    otherwise. A directory that is made in the place of one `unlike` its source has other rights."""
    leaves = sorted(set(directories) - _above(directories))
    shared, apart = dict[bytes, list[str]](), set[bytes]()
    for source, tally in sources.items():
        if is_shared(source):
            shared.setdefault(tally.goal, []).append(source)
        else:
            apart.add(tally.goal)
    may_be_filled = ODD in apart or ODD in shared
    moves, by_file = list[Move](), Counter[ByFile]()
    for dest in leaves:
        goal = goal_of(dest)
        named = shared.get(goal, [])
        if not (named or may_be_filled or goal in apart):
            why: ByFile | None = ByFile.NO_FILES
        elif dest in there:
            why = ByFile.THERE
        elif len(named) != 1:
            why = ByFile.TWO_SOURCES if named else ByFile.OWN_NAMES
        else:
            why = _why_by_file(sources[named[0]], verdicts.get(named[0], AS_NAMED))
            why = why or (ByFile.RIGHTS if dest in unlike else None)
        if why is None:
            moves.append(_move(named[0], dest, sources[named[0]], verdicts))
        else:
            by_file[why] += 1
    return WholePlan(tuple(moves), by_file)


def _why_by_file(tally: Tally, verdict: Verdict) -> ByFile | None:
    if verdict.is_partial:
        return ByFile.THERE
    if verdict.is_odd or len(verdict.leftovers) >= tally.files:
        return ByFile.ODD
    return None if tally.proof in (BY_TIME, BY_ETAG) else ByFile.NO_PROOF


def _move(source: str, dest: str, tally: Tally, verdicts: Mapping[str, Verdict]) -> Move:
    leftovers = verdicts.get(source, AS_NAMED).leftovers
    return Move(source, dest, tally.files, tally.size, tally.total, tally.proof, leftovers)


def _above(directories: Iterable[str]) -> set[str]:
    """All directories that are above some."""
    inner = set[str]()
    for path in directories:
        path = parent(path)
        while path not in inner and path != "/":
            inner.add(path)
            path = parent(path)
    return inner
