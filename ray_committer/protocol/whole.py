"""Which directories of the output are put in place whole, by one rename, and why the others are not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec


class ByFile(StrEnum):
    """Why the files of a directory are moved one by one; of several reasons the first counts."""

    NOT_HERE = "not here"
    """The store or file system moves no directories whole, or Hadoop's committer has set the job up."""
    NO_FILES = "no files"
    THERE = "it is there"
    """The directory was in place before."""
    INNER = "it holds others"
    """It is above another directory of the output."""
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
