"""What is known of one job attempt at a destination, as a `FileStatus` says it of a file.

There is one value for this job and for others. It comes from a listing, and holds more after its state,
and its commit, were read. The questions are properties; who acts upon the answers is a stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ray_committer.errors import LinkedPathError, RayCommitterError
from ray_committer.job_files.job_state import Seen, StateChangedError
from ray_committer.job_files.owners import Life, has_ended, is_nobody
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.record import Claim, Declaration, Heartbeat, Owner
from ray_committer.protocol.state import UNFINISHED, UNSTAMPED, Phase
from ray_committer.stores.base import FileStatus


class Committer(StrEnum):
    """Whose job it is."""

    MANIFEST = "manifest"
    """A job of this protocol: ours or, if it has no stamp, one of Hadoop's manifest committer."""
    S3A = "s3a"
    """A job of Hadoop's S3A committer, below ``__magic``."""
    UNKNOWN = "unknown"
    """A directory in the place of a job in which no attempt was seen."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job attempt, and what is known of it.

    job: the attempt, with the directory where it stands now. A directory in which no attempt was seen
        counts as attempt 0.
    closed: the error if it was not read: there is no permission, or it is a symbolic link, say.
    inside: what is in a directory without an attempt.
    exists: whether anything of the attempt is there.
    seen: its state; None if it has none, or was not read.
    manifests, task_attempts: a listing that was made while the state was read, and the names of the task
        attempts with files; None if there was none, or it failed. Of a job of S3A, its pendingsets.
    is_husk: it holds only what a process wrote that slept until the job was removed.
    is_remembered: its state is the one in which this process has set it up, and was not read again.
    prepared: what its commit can declare: this process has written that when it set the job up.
    declared: what its commit declares or has recorded; None before that, or if it was not read.
    life: whether a process is at work on its commit, by one look or by the looks of a `Watch`.
    worker: that process, or the one of the last heartbeat; None if only the declaration names one.
    beat: the last heartbeat; None if there is none, or if it was not needed to find a live process.
    """

    job: JobAttempt
    committer: Committer = Committer.MANIFEST
    closed: PermissionError | RayCommitterError | None = None
    inside: tuple[FileStatus, ...] = ()
    exists: bool = True
    seen: Seen | None = None
    has_manifests: bool = False
    manifests: tuple[FileStatus, ...] | None = None
    task_attempts: tuple[str, ...] | None = None
    is_husk: bool = False
    is_remembered: bool = False
    prepared: Declaration | None = None
    declared: Declaration | None = None
    life: Life = Life.DEAD
    worker: Owner | None = None
    beat: Heartbeat | None = None

    @property
    def is_attempt(self) -> bool:
        """Whether it is an attempt, and not a directory of which that is not known."""
        return self.committer is not Committer.UNKNOWN

    @property
    def directory(self) -> str:
        """The directory below ``_temporary`` that it was found in."""
        return self.job.job_directory if self.is_attempt and not self.job.is_gone else self.job.directory

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link, which was not followed."""
        return isinstance(self.closed, LinkedPathError)

    @property
    def is_open(self) -> bool:
        """Whether it is an attempt that can be read."""
        return self.is_attempt and self.closed is None

    @property
    def may_hold_an_attempt(self) -> bool:
        """Whether it is an attempt that can be read, or a directory of which that is not known."""
        return self.is_open or (self.closed is not None and not self.is_attempt)

    def opened(self) -> JobStatus:
        """Return this job; raise the error if it was not read."""
        if self.closed is not None:
            raise self.closed
        return self

    @property
    def phase(self) -> Phase | None:
        """The phase; None without a state."""
        return self.seen.phase if self.seen else None

    @property
    def known(self) -> Seen:
        """The state of a job that is known to have one; otherwise it is gone: `StateChangedError`."""
        if self.seen is None:
            raise StateChangedError(None)
        return self.seen

    @property
    def is_set_up(self) -> bool:
        """Whether it has the state that set-up gave it, and not one that a commit gave it."""
        return self.seen is not None and self.seen.state.stamp != UNSTAMPED

    @property
    def is_remnant(self) -> bool:
        """Whether nothing is left that could be committed."""
        return self.seen is None and not self.has_manifests

    @property
    def is_decided(self) -> bool:
        """Whether it can no longer be aborted, or was aborted."""
        return self.seen is not None and self.seen.state.is_decided

    @property
    def has_begun(self) -> bool:
        """Whether its commit has begun, and was read."""
        return self.declared is not None

    @property
    def declaration(self) -> Declaration:
        """What a job declares whose commit has begun."""
        if self.declared is None:
            raise ValueError(f"{self.job.directory}: has declared nothing")
        return self.declared

    @property
    def claim(self) -> Claim:
        """What it writes, and where it excludes others."""
        return self.declaration.claim

    @property
    def owner(self) -> Owner:
        """The process at work on its commit; if there is none, the process that began it."""
        return self.worker or self.declaration.owner

    @property
    def is_alive(self) -> bool:
        """Whether a process is, or may be, at work on its commit."""
        return self.life is not Life.DEAD

    @property
    def is_doubtful(self) -> bool:
        """Whether only a `Watch` can show that a process whose clock is ahead is at work on it."""
        return self.life is Life.DOUBTFUL

    @property
    def has_ended(self) -> bool:
        """Whether it is certain that no process is at work on it; the last word of a run counts."""
        last = [self.declaration.owner, *([self.beat.owner] if self.beat else [])]
        return all(map(has_ended, {owner.run: owner for owner in last}.values()))

    @property
    def is_deferred(self) -> bool:
        """Whether it was recorded on purpose for a later commit, so that nobody runs it again."""
        return is_nobody(self.declaration.owner)

    @property
    def is_undoable(self) -> bool:
        """Whether its commit can be given up, unless a process is at work on it."""
        is_sealed = self.phase is Phase.SEALED and self.declaration.is_undoable
        return self.phase is Phase.RECORDED or is_sealed

    @property
    def is_passed_by_appends(self) -> bool:
        """Whether it replaces data, and only old files are left to remove."""
        return self.phase is Phase.SEALED and bool(self.claim.excludes)

    @property
    def is_unfinished(self) -> bool:
        """Whether a process was to end it and has died: its application may be run again."""
        return self.phase in UNFINISHED and not self.is_alive and not self.is_deferred
