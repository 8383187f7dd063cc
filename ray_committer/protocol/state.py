"""The states of a job attempt and the changes between them: a decision that cannot be made twice.

Each change is a compare-and-swap: it consumes the state that was read, and brings a nonce that was never
used before. So a process that slept through a decision finds its state gone, and reads the new state of
the job. This module makes no request to a store.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from ray_committer.errors import ManifestError, mark

SUFFIX = ".state"
UNSTAMPED = "unstamped"
"""The stamp of a job that Hadoop's own committer set up, whose tasks know no stamp."""

LONGEST_SHOWN = 200
"""The most characters of an object that is no state that an error shows."""
_NONCE_BYTES = 8
_LATE = "late"
_RUN = "run"


class Phase(StrEnum):
    """The decisions about a job attempt; `TRANSITIONS` lists the phases that can follow each."""

    OPEN = "open"
    """Nothing is decided; tasks commit."""
    DECLARED = "declared"
    """A committer has declared what the job writes, and checks whether another job is in its way."""
    RECORDED = "recorded"
    """The commit record defines the job. New files are moved; no old file is replaced or removed."""
    SEALED = "sealed"
    """Every new file is in place and validated. Old files are removed; only if each of them is put aside
    can the commit still be given up."""
    COMMITTED = "committed"
    """Only ``_SUCCESS`` and the clean-up are left."""
    UNDOING = "undoing"
    """A recorded commit was given up: old files are put back, and moved files are taken back."""
    ABORTED = "aborted"
    """Nothing of the job is visible or ever will be."""


class Intent(StrEnum):
    """What a job was set up to do about existing data."""

    APPENDS = "appends"
    REPLACES = "replaces"
    REFUSED = "refused"
    """It is refused where there is data."""
    FROM_LOG = "from_log"
    """It is made from the log of its table, and replaces what it has read there."""


TRANSITIONS: Mapping[Phase, frozenset[Phase]] = {
    Phase.OPEN: frozenset({Phase.DECLARED, Phase.ABORTED}),
    Phase.DECLARED: frozenset({Phase.OPEN, Phase.RECORDED, Phase.ABORTED}),
    Phase.RECORDED: frozenset({Phase.SEALED, Phase.COMMITTED, Phase.UNDOING}),
    Phase.SEALED: frozenset({Phase.COMMITTED, Phase.UNDOING}),
    Phase.COMMITTED: frozenset(),
    Phase.UNDOING: frozenset({Phase.UNDOING, Phase.ABORTED}),
    Phase.ABORTED: frozenset(),
}

WITH_RECORD = frozenset({Phase.RECORDED, Phase.SEALED, Phase.COMMITTED, Phase.UNDOING})
UNDECIDED = frozenset({Phase.OPEN, Phase.DECLARED})
UNFINISHED = frozenset({Phase.RECORDED, Phase.SEALED, Phase.UNDOING})
"""The phases in which files may be visible, and a commit or the undo of one must be finished."""
IN_THE_WAY = frozenset({Phase.DECLARED, *UNFINISHED})
"""The phases of another job that conflict if either of the two jobs replaces data."""


@dataclass(frozen=True, slots=True)
class TableBase:
    """The table with a log that a job belongs to, and a version in the last file of the log when that
    was noted. `is_late`: that was after the set-up, so nothing can be said of the data that the job has
    read. `has_run`: the job was set up with a run id, which is in its directory."""

    table_id: str
    version: int
    is_late: bool = False
    has_run: bool = False

    @property
    def read(self) -> int | None:
        """A version in the file of the log whose end the job has read, or a later one; None: unknown."""
        return None if self.is_late else self.version

    def __str__(self) -> str:
        run = _RUN if self.has_run else ""
        return f"{self.table_id}-{_LATE if self.is_late else ''}{self.version}{run}"


@dataclass(frozen=True, slots=True)
class JobState:
    """One state of one job attempt; only its `token` is stored.

    stamp: the random number that set-up gave the job; each manifest of ours contains it.
    nonce: the random number of this change; no other state of any job has it.
    intent: what the job was set up to do about existing data.
    record: the nonce under which its commit record was written, if there is one.
    table: the table with a log that its destination is, if it is one.
    since: when the job was declared, in milliseconds, if its declaration was written before that.
    """

    phase: Phase
    stamp: str
    nonce: str
    intent: Intent = Intent.APPENDS
    record: str | None = None
    table: TableBase | None = None
    since: int | None = None

    @property
    def token(self) -> str:
        """The state as a file name."""
        parts = (
            self.phase.value,
            self.intent.value if self.table is None else f"{self.intent}-{self.table}",
            self.stamp,
            self.nonce if self.since is None else f"{self.nonce}-{self.since}",
            *((self.record,) if self.record else ()),
        )
        return ".".join(parts) + SUFFIX

    @property
    def is_decided(self) -> bool:
        """Whether the job can no longer be aborted, or was aborted."""
        return self.phase not in UNDECIDED

    @property
    def may_be_nobodys(self) -> bool:
        """Whether an abort can have given it to what late processes left of a job that had ended."""
        return self.phase is Phase.ABORTED and self.stamp == UNSTAMPED

    @property
    def is_bound(self) -> bool:
        """Whether only the process that made the job can record it: no file holds what it replaces."""
        return self.intent is Intent.FROM_LOG and self.phase in UNDECIDED

    def to(self, phase: Phase, nonce: str, since: int | None = None) -> JobState:
        """The next state, in `phase`; ``ValueError`` if `phase` cannot follow this one."""
        if phase not in TRANSITIONS[self.phase]:
            raise ValueError(f"a job that is {self.phase} cannot become {phase}")
        record = nonce if phase is Phase.RECORDED else self.record
        # An aborted job names no record: no later process can take it up again.
        kept = record if phase in WITH_RECORD else None
        return replace(self, phase=phase, nonce=nonce, record=kept, since=since)

    def at(self, table: TableBase, nonce: str) -> JobState:
        """The same state, of a job that belongs to a table; ``ValueError`` if the job is not open."""
        if self.phase is not Phase.OPEN:
            raise ValueError(f"a job that is {self.phase} cannot be given a table")
        return replace(self, nonce=nonce, table=table)


def new_nonce() -> str:
    """A name that was never used before: 64 random bits."""
    return secrets.token_hex(_NONCE_BYTES)


def new_state(intent: Intent = Intent.APPENDS, *, stamp: str | None = None) -> JobState:
    """The state of a job that is set up now, with a new stamp unless one is given."""
    return JobState(Phase.OPEN, stamp or new_nonce(), new_nonce(), intent)


def parse_token(token: str, path: str) -> JobState:
    """Parse the token of a state; `ManifestError` if this version cannot have written it."""
    # Everything is in the name: one listing reads the state, and one rename changes it, content
    # included.
    phase, *rest = token.removesuffix(SUFFIX).split(".")
    try:
        kind = Phase(phase)
        intent, _, table = rest[0].partition("-")
        (stamp, nonce), (record,) = rest[1:3], rest[3:] or (None,)
        base = _parse_base(table) if table else None
        since = None
        if kind is Phase.DECLARED and "-" in nonce:
            nonce, _, milliseconds = nonce.partition("-")
            since = int(milliseconds)
        # A state that promises a record must name it, and no other state may: a name that a person has
        # edited is refused here.
        if (record is None) is (kind in WITH_RECORD):
            raise ValueError(token)
        return JobState(kind, stamp, nonce, Intent(intent), record, base, since)
    except (IndexError, ValueError):
        raise ManifestError(
            f"{mark(path)}/{token[:LONGEST_SHOWN]}: is not a job state that this version can read",
            "nothing was changed",
        ) from None


def _parse_base(text: str) -> TableBase:
    table_id, _, version = text.rpartition("-")
    if not table_id:
        raise ValueError(text)
    is_late = version.startswith(_LATE)
    number = version.removeprefix(_LATE).removesuffix(_RUN)
    return TableBase(table_id, int(number), is_late, version.endswith(_RUN))
