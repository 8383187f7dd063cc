"""Declare what a job wants to write, and look whether another job is in its way, before it is recorded.

A declaration is seen by every job that looks later, and whoever has declared looks himself. So of two
jobs that must not be committed at once one waits for the other: the one that replaces data stays, of two
such the one with the lower nonce; the other withdraws, waits, and declares anew. Nothing is held
meanwhile by who could be in the way.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ray_committer.errors import CommitConflictError, CommitterBusyError, LinkedPathError
from ray_committer.protocol.paths import is_inside
from ray_committer.protocol.record import Claim, Declaration, encode
from ray_committer.protocol.state import IN_THE_WAY, Phase, new_nonce
from ray_committer.stages.context import JobContext
from ray_committer.stages.find_job import not_read, skipped_link
from ray_committer.stages.job_state import Seen, StateChangedError, advance, read_state
from ray_committer.stages.other_jobs import (
    OtherJob,
    destinations_above,
    finish_first,
    other_jobs,
    read_other,
)
from ray_committer.stages.owners import owner_of
from ray_committer.stores.base import real_path

SHORTEST_SECONDS = 0.01
LONGEST_SECONDS = 2.0


@dataclass(slots=True)
class Patience:
    """How long to wait for others: ever longer, at random, up to a limit in all."""

    deadline: float
    pause: float = SHORTEST_SECONDS

    @classmethod
    def of(cls, context: JobContext) -> Patience:
        return cls(time.monotonic() + context.options.conflict_wait_seconds)

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.deadline

    def wait(self, context: JobContext) -> None:
        """Sleep for a while; `CommitCancelledError` if the commit is cancelled."""
        context.check_cancelled()
        left = max(0.0, self.deadline - time.monotonic())
        time.sleep(min(self.pause * random.uniform(0.5, 1.5), left))  # noqa: S311 - chance, no secret
        self.pause = min(self.pause * 2, LONGEST_SECONDS)
        context.check_cancelled()


def declare_job(context: JobContext, seen: Seen, claim: Claim, run: str) -> Seen:
    """Declare an open job; `StateChangedError` if it is not open any more."""
    nonce = new_nonce()
    declaration = Declaration(
        nonce=nonce,
        job_id=context.job.job_id,
        job_attempt=context.job.number,
        created_milliseconds=context.now_milliseconds(),
        owner=owner_of(run),
        claim=claim,
    )
    context.store.write(context.job.content(nonce), encode(declaration))
    return advance(context.store, context.job, seen, Phase.DECLARED, nonce)


def withdraw(context: JobContext, declared: Seen) -> Seen:
    """Take a declaration back; `StateChangedError` if it has become something else."""
    return advance(context.store, context.job, declared, Phase.OPEN)


def wait_for_declaration(context: JobContext, seen: Seen, patience: Patience) -> Seen:
    """What becomes of a declaration that another committer of this job made: a dead one is withdrawn.

    `CommitterBusyError` if that one is at work for longer than there is patience.
    """
    while True:
        other = read_other(context.store, context.job, context.now_milliseconds())
        if other is None or other.seen != seen:
            now = other.seen if other else read_state(context.store, context.job)
            raise StateChangedError(now, seen)
        if not other.is_alive:
            return withdraw(context, seen)
        if patience.is_over:
            raise busy(other)
        patience.wait(context)


def look_around(context: JobContext, claim: Claim, below: Sequence[str] = ()) -> list[OtherJob]:
    """The jobs that must not be committed at once with one of this `claim`.

    Looks at the job's own destination and what it replaces, at the directories above all that it writes,
    and at `below`: directories that it writes to in which jobs were seen to be set up. Only what is
    above or elsewhere may be closed to the job's user, and only what it does not replace be behind a
    link: a notice then says that nobody looked there. So it does of a link in the place of a job.
    """
    destination = context.job.destination
    real = real_path(context.store, destination)
    roots = {destination, *claim.excludes}
    above = destinations_above((*roots, *claim.writes))
    directories = sorted({*roots, *above, *below} - {real} | {destination})

    def look(directory: str) -> list[OtherJob]:
        must_see = directory in {*roots, *below} or is_inside(directory, real)
        return _hindrances(context, claim, directory, must_see=must_see)

    found = context.at_once(look, directories)
    return [other for others in found for other in others]


def give_way(
    context: JobContext, declared: Seen, claim: Claim, others: Sequence[OtherJob], patience: Patience
) -> Seen:
    """Wait a little for the jobs in the way, with the declaration or without; the state after that.

    `CommitConflictError`, with the declaration withdrawn, if one of them has stopped or there is no
    patience left.
    """
    for other in others:
        is_dead = other.phase is Phase.DECLARED and not other.is_alive
        if is_dead and _withdraw_dead(context, other):
            return declared
    stopped = [other for other in others if not other.is_alive]
    if stopped or patience.is_over:
        withdraw(context, declared)
        raise _conflict(context, stopped[0] if stopped else others[0])
    mine = _rank(claim, declared.state.nonce)
    stays = all(
        other.phase is not Phase.DECLARED
        or mine < _rank(other.declaration.claim, other.seen.state.nonce)
        for other in others
    )
    after = declared if stays else withdraw(context, declared)
    patience.wait(context)
    return after


def busy(other: OtherJob) -> CommitterBusyError:
    """The error of a commit that another process is at work on."""
    owner = other.owner
    return CommitterBusyError(
        f"{other.job.directory}: process {owner.process} on {owner.host} is committing this job; wait "
        f"for it, then run the same command"
    )


def _hindrances(context: JobContext, claim: Claim, directory: str, *, must_see: bool) -> list[OtherJob]:
    def unread(error: PermissionError | LinkedPathError) -> None:
        is_link = isinstance(error, LinkedPathError)
        replaces = claim.hinders(Claim([directory]))  # perhaps files of a job behind the link
        if directory == context.job.destination or (must_see and (replaces or not is_link)):
            raise error
        notice(not_read(error, directory))

    def notice(what: str) -> None:
        context.notice_once(
            f"{what}; a job that was set up there was not looked at: let none of them write to "
            f"{context.job.destination} meanwhile"
        )

    found = other_jobs(
        context.store, directory, context.now_milliseconds(), own=context.job, unread=unread
    )
    for link in found.links:
        notice(skipped_link(link))
    return [
        one for one in found.jobs if one.phase in IN_THE_WAY and claim.hinders(one.declaration.claim)
    ]


def _withdraw_dead(context: JobContext, other: OtherJob) -> bool:
    """Withdraw the declaration of a job whose committer is dead, which decides nothing about it; False
    if it is another user's."""
    try:
        advance(context.store, other.job, other.seen, Phase.OPEN)
    except StateChangedError:
        return True
    except PermissionError:
        return False
    return True


def _rank(claim: Claim, nonce: str) -> tuple[bool, str]:
    """The lower stays."""
    return not claim.excludes, nonce


def _conflict(context: JobContext, other: OtherJob) -> CommitConflictError:
    writes = other.declaration.claim.writes
    shown = ", ".join(writes[:3]) + (f" and {len(writes) - 3} more" if len(writes) > 3 else "")
    waited = "" if not other.is_alive else f" (waited {context.options.conflict_wait_seconds:g} s)"
    return CommitConflictError(
        f"{finish_first(context.store, other)}; it writes to {shown}, which this job must not do "
        f"at the same time{waited}. Nothing was changed; then run the same command"
    )
