"""Judge a rename that failed, from what is at both ends: never guess.

A rename whose answer was lost, one that an earlier run of the same commit did, and one that must
not happen look alike to the client. Only evidence that the rename itself keeps (a file's identity,
etag, modification time) tells them apart; a size alone proves little and is counted apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """What is true of one entry."""

    DONE = "done"
    NOT_DONE = "not done"
    CONFLICT = "conflict"
    LOST = "lost"


class Proof(StrEnum):
    """What shows that the file at the destination is the one that the task wrote."""

    SAME_FILE = "same file"
    ETAG = "etag"
    MODIFICATION_TIME = "modification time and size"
    SIZE_ONLY = "size only"


class Expectation(msgspec.Struct, frozen=True, gc=False):  # one a file, so cheap to make
    """What the manifest says of a file: bytes, etag, modification time in milliseconds."""

    size: int
    etag: str | None = None
    modified_milliseconds: int | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """What the store says of a file; `file_id` is an identity that a rename keeps (an inode)."""

    size: int
    etag: str | None = None
    modified_milliseconds: int | None = None
    file_id: str | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and, when DONE, its proof; SAME_FILE means that the source is still to unlink."""

    verdict: Verdict
    proof: Proof | None = None


def judge_rename(
    expected: Expectation, source: Observation | None, dest: Observation | None
) -> Judgement:
    """Decide whether an entry's rename has happened; None means that nothing is there.

    Both ends present is a conflict even at equal size, unless they are one file under two names: a
    link-and-unlink that was interrupted. With neither end present the data is lost.
    """
    if source is not None and dest is not None:
        if source.file_id is not None and source.file_id == dest.file_id:
            return Judgement(Verdict.DONE, Proof.SAME_FILE)
        return Judgement(Verdict.CONFLICT)
    if source is not None:
        return Judgement(Verdict.NOT_DONE)
    if dest is None:
        return Judgement(Verdict.LOST)
    proof = prove(expected, dest)
    return Judgement(Verdict.DONE, proof) if proof else Judgement(Verdict.CONFLICT)


def prove(expected: Expectation, dest: Observation) -> Proof | None:
    """The strongest proof that `dest` is the expected file, or None if something contradicts it."""
    if expected.size != dest.size:
        return None
    if expected.etag and dest.etag:
        return Proof.ETAG if expected.etag == dest.etag else None
    if expected.modified_milliseconds is not None and dest.modified_milliseconds is not None:
        same = expected.modified_milliseconds == dest.modified_milliseconds
        return Proof.MODIFICATION_TIME if same else None
    return Proof.SIZE_ONLY
