"""Judge a failed rename by the files at both ends: never guess.

Three renames look alike to the client: one without an answer, one that an earlier run of the same commit
made, and one that must not happen. Only evidence that a rename keeps (a file's identity, etag,
modification time) distinguishes them. A size alone proves little and is counted separately.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """The result for one entry."""

    DONE = "done"
    NOT_DONE = "not done"
    CONFLICT = "conflict"
    LOST = "lost"


class Proof(StrEnum):
    """The evidence that the file at the destination is the one that the task wrote."""

    SAME_FILE = "same file"
    ETAG = "etag"
    MODIFICATION_TIME = "modification time and size"
    STAMP = "stamp of the job"
    """On S3: the metadata of the file, which only its upload can set."""
    SIZE_ONLY = "size only"


class Expectation(msgspec.Struct, frozen=True, gc=False):  # one per file, so it must be cheap to create
    """A file as its manifest describes it: bytes, etag, modification time in milliseconds."""

    size: int
    etag: str | None = None
    modified_milliseconds: int | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """A file as the store shows it; `file_id` is an identity that a rename keeps (an inode)."""

    size: int
    etag: str | None = None
    modified_milliseconds: int | None = None
    file_id: str | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and, if DONE, its proof; SAME_FILE: the source is still a name of the file."""

    verdict: Verdict
    proof: Proof | None = None


def judge_rename(
    expected: Expectation, source: Observation | None, dest: Observation | None
) -> Judgement:
    """Decide whether a rename has happened; None means that nothing is there. Both ends are a conflict
    even at equal size, unless they are one file under two names; without either, the data is lost."""
    if source is not None and dest is not None:
        # A link and no unlink yet. Equal sizes and times prove nothing here: two tasks may have written
        # equal files.
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
    # The strongest evidence that both sides have decides alone: an etag that differs is not saved by a
    # time that is equal.
    if expected.etag and dest.etag:
        return Proof.ETAG if expected.etag == dest.etag else None
    if expected.modified_milliseconds is not None and dest.modified_milliseconds is not None:
        is_same_time = expected.modified_milliseconds == dest.modified_milliseconds
        return Proof.MODIFICATION_TIME if is_same_time else None
    return Proof.SIZE_ONLY
