"""Judge a job's claim against the claims of other jobs: it goes on, waits, or is refused.

A claim that waits holds nothing, and one that is refused has changed nothing. A job that does not say
what it has read is never refused: it appends, or overwrites when it is its turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ray_committer.protocol.table_entry import Isolation, TableClaim, WriteMode
from ray_committer.protocol.table_state import ClaimInFlight

MOST_PARTITIONS = 10_000
"""A claim with more partitions names directories above them."""
WHOLE_TABLE = ""


class Verdict(StrEnum):
    """What becomes of a claim that another one is in the way of."""

    WAITS = "waits"
    """Another job that is in flight must end first."""
    REFUSED = "refused"
    """Another job has changed what this one has read or replaces; the job must be run again."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The `other` claim in the way, and the partitions in which it is, or the run id that both have."""

    verdict: Verdict
    other: ClaimInFlight
    partitions: tuple[str, ...]
    run_id: str | None = None


def judge(
    claim: TableClaim,
    ended: Iterable[ClaimInFlight],
    in_flight: Iterable[ClaimInFlight],
    isolation: Isolation,
) -> Obstacle | None:
    """Judge a claim by those that have `ended` since its base, and those `in_flight`; None: go on."""
    # First: two runs of one work must not both be committed, whatever partitions they write.
    if (repeated := same_run(claim, in_flight := list(in_flight))) is not None:
        return repeated
    # Ended claims before those in flight: a claim that is refused must not wait first.
    for rival in ended:
        if contested := tuple(_changed(claim, rival.claim, isolation)):
            return Obstacle(Verdict.REFUSED, rival, contested)
    for rival in in_flight:
        if contested := tuple(_crossed(claim, rival.claim, isolation)):
            return Obstacle(Verdict.WAITS, rival, contested)
    return None


def same_run(claim: TableClaim, in_flight: Iterable[ClaimInFlight]) -> Obstacle | None:
    """The claim in flight with the run id of a claim, whatever they write: both would be committed."""
    for rival in in_flight if claim.run_id is not None else ():
        if rival.claim.run_id == claim.run_id:
            return Obstacle(Verdict.WAITS, rival, tuple(rival.claim.partitions), claim.run_id)
    return None


def common_partitions(some: Iterable[str], rest: Iterable[str]) -> set[str]:
    """The directories that are in both of two sets of directories, each with all that is below it."""
    left, right = set(some), set(rest)
    return {path for path in left if is_in(path, right)} | {path for path in right if is_in(path, left)}


def fold_partitions(partitions: Iterable[str], most: int = MOST_PARTITIONS) -> list[str]:
    """The same partitions, sorted, each once; if there are more than `most`, directories above them."""
    folded = _outermost(set(partitions))
    depth = max((path.count("/") for path in folded), default=0)
    # Level by level from below, so that a claim names no more of the table than it must. Directories
    # above only make it wait for more jobs, never for fewer.
    while len(folded) > most:
        folded = _outermost({"/".join(path.split("/")[:depth]) for path in folded})
        depth -= 1
    return sorted(folded)


def is_in(path: str, directories: set[str]) -> bool:
    """Whether `path` is one of some directories, or below one."""
    return path in directories or any(above in directories for above in _above(path))


def _changed(claim: TableClaim, other: TableClaim, isolation: Isolation) -> Iterator[str]:
    """The partitions in which a job that ended since the base has changed what the claim is based on."""
    # Its rows come from the partitions that it replaces, so what changed there would be lost. A blind
    # overwrite loses nothing that it has not meant to.
    if claim.mode is WriteMode.REPLACE and isolation is not Isolation.NONE:
        yield from sorted(common_partitions(claim.partitions, other.partitions))
    if isolation is Isolation.SERIALIZABLE:
        yield from sorted(_read(claim, other))


def _crossed(claim: TableClaim, other: TableClaim, isolation: Isolation) -> Iterator[str]:
    """The partitions in which two jobs must not be in flight at once, whichever would conflict."""
    # Two appends remove nothing, so neither can lose rows of the other.
    if {claim.mode, other.mode} != {WriteMode.APPEND}:
        yield from sorted(common_partitions(claim.partitions, other.partitions))
    if isolation is Isolation.SERIALIZABLE:
        # Both ways: whichever of the two is committed first, the other one has read too early.
        yield from sorted(_read(claim, other) | _read(other, claim))


def _read(reader: TableClaim, writer: TableClaim) -> set[str]:
    """The partitions that one job has read and the other changes."""
    return common_partitions(reader.reads, writer.partitions)


def _above(path: str) -> Sequence[str]:
    """The directories above `path`, up to the whole table."""
    directories = []
    while path:
        path = path.rpartition("/")[0]
        directories.append(path)
    return directories


def _outermost(paths: set[str]) -> set[str]:
    return {path for path in paths if not any(above in paths for above in _above(path))}
