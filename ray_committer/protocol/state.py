"""The states of a job attempt, and how one becomes another: the decision that nobody can take twice.

Each change consumes the very state it was read in, a compare-and-swap, and brings a nonce that never was
before. So a process that slept through a decision finds its state gone, and learns by looking again what
has become of the job. Nothing here knows a store.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ray_committer.errors import ManifestError

SUFFIX = ".state"
UNSTAMPED = "unstamped"
"""The stamp of a job that Hadoop's own committer set up: its tasks know none."""

_NONCE_BYTES = 8


class Phase(StrEnum):
    """What has been decided of a job attempt; `TRANSITIONS` says what may follow."""

    OPEN = "open"
    """Nothing; tasks commit."""
    DECLARED = "declared"
    """A committer has said what the job wants to write, and looks whether another is in its way."""
    RECORDED = "recorded"
    """The commit record says what the job is. Files may be moved; none may be replaced or removed."""
    SEALED = "sealed"
    """Every new file is in place and validated. Old files may go."""
    COMMITTED = "committed"
    """Only ``_SUCCESS`` and the clean-up are left."""
    UNDOING = "undoing"
    """A recorded commit was given up: what it has moved goes back."""
    ABORTED = "aborted"
    """Nothing of the job is visible, or ever will be."""


TRANSITIONS: Mapping[Phase, frozenset[Phase]] = {
    Phase.OPEN: frozenset({Phase.DECLARED, Phase.ABORTED}),
    Phase.DECLARED: frozenset({Phase.OPEN, Phase.RECORDED, Phase.ABORTED}),
    Phase.RECORDED: frozenset({Phase.SEALED, Phase.COMMITTED, Phase.UNDOING}),
    Phase.SEALED: frozenset({Phase.COMMITTED}),
    Phase.COMMITTED: frozenset(),
    Phase.UNDOING: frozenset({Phase.ABORTED}),
    Phase.ABORTED: frozenset(),
}

WITH_RECORD = frozenset({Phase.RECORDED, Phase.SEALED, Phase.COMMITTED, Phase.UNDOING})
UNDECIDED = frozenset({Phase.OPEN, Phase.DECLARED})
IN_THE_WAY = frozenset({Phase.DECLARED, Phase.RECORDED, Phase.SEALED, Phase.UNDOING})
"""What a job that replaces data must not meet, nor be met in by one that does."""


@dataclass(frozen=True, slots=True)
class JobState:
    """One state of one job attempt; its `token` is all that is stored of it.

    stamp: what set-up gave the job; a manifest of ours bears it.
    nonce: this change's own; no other state of any job has it.
    replaces: whether the job was set up to replace data.
    record: the nonce under which its commit record was written, once there is one.
    """

    phase: Phase
    stamp: str
    nonce: str
    replaces: bool = False
    record: str | None = None

    @property
    def token(self) -> str:
        """The state as a file name."""
        intent = "replaces" if self.replaces else "appends"
        parts = (
            self.phase.value,
            intent,
            self.stamp,
            self.nonce,
            *((self.record,) if self.record else ()),
        )
        return ".".join(parts) + SUFFIX

    @property
    def is_decided(self) -> bool:
        """The job can no longer be aborted, or was."""
        return self.phase not in UNDECIDED

    def to(self, phase: Phase, nonce: str) -> JobState:
        """The state that follows; ``ValueError`` if `phase` cannot follow this one."""
        if phase not in TRANSITIONS[self.phase]:
            raise ValueError(f"a job that is {self.phase} cannot become {phase}")
        record = nonce if phase is Phase.RECORDED else self.record
        kept = record if phase in WITH_RECORD else None
        return JobState(phase, self.stamp, nonce, self.replaces, kept)


def new_nonce() -> str:
    """A name that nothing had before: 64 random bits."""
    return secrets.token_hex(_NONCE_BYTES)


def new_state(*, replaces: bool, stamp: str | None = None) -> JobState:
    """The state of a job that is set up now, with a stamp of its own unless one is given."""
    return JobState(Phase.OPEN, stamp or new_nonce(), new_nonce(), replaces)


def parse_token(token: str, path: str) -> JobState:
    """The state that a token stands for; `ManifestError` if this version cannot have written it."""
    phase, *rest = token.removesuffix(SUFFIX).split(".")
    try:
        found = Phase(phase)
        intent, stamp, nonce = rest[:3]
        (record,) = rest[3:] or (None,)
        if intent not in ("appends", "replaces") or (record is None) is (found in WITH_RECORD):
            raise ValueError(token)
    except ValueError:
        raise ManifestError(
            f"{path}/{token}: is no state of a job that this version reads; nothing was changed"
        ) from None
    return JobState(found, stamp, nonce, intent == "replaces", record)
