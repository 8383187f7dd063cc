"""Declare what a job writes, and look for other jobs in its way, before it is recorded.

Every job that looks later sees the declaration. So if two jobs must not be committed at the same time,
one waits for the other: the job that replaces data stays declared or, of two such jobs, the one with the
lower nonce. The other one withdraws, waits, and declares again. A recorded job whose process has died
can be ended first, as `CommitOptions.unfinished` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from ray_committer.errors import CommitConflictError, CommitterBusyError, LinkedPathError, mark
from ray_committer.job_files.job_state import (
    Seen,
    StateChangedError,
    advance,
    advance_if_unchanged,
    read_state,
)
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.listing import not_read
from ray_committer.job_files.others import Choose, Watch, destinations_above, look_for_all, other_jobs
from ray_committer.job_files.read_job import read_other, read_others
from ray_committer.job_files.set_up_here import new_declaration
from ray_committer.limits.waiting import Waiting
from ray_committer.protocol.paths import is_inside, is_within
from ray_committer.protocol.record import Claim, Declaration, encode
from ray_committer.protocol.state import IN_THE_WAY, Phase
from ray_committer.stages.context import JobContext
from ray_committer.stages.other_jobs.end_others import (
    ROUNDS,
    Choice,
    end_jobs,
    end_of,
    finish_first,
    none_refused,
    refusal,
    would_repeat,
)


@dataclass(slots=True)
class Patience(Waiting):
    """How long a commit waits for others, until it is cancelled. The limit does not end the `watch` of a
    committer of which it is doubtful whether it is alive. `rounds` counts how often unfinished jobs were
    ended, and `gone` is a claim whose job was not there."""

    rounds: int = 0
    gone: int | None = None
    watch: Watch = field(default_factory=Watch)

    @classmethod
    def of(cls, context: JobContext) -> Patience:
        return cls(context.options.conflict_wait_seconds, context.sleep)


def declare_job(
    context: JobContext,
    last: Seen,
    claim: Claim,
    run: str,
    run_id: str | None = None,
    *,
    prepared: Declaration | None = None,
) -> Seen:
    """Declare an open job; `StateChangedError` if it is not open any more. A declaration that was
    `prepared` while its tasks ran may say more than the job writes: then others look once more."""
    store, job, now = context.store, context.job, context.now_milliseconds()
    if prepared is not None and _covers(prepared, claim, run_id):
        # Its text is old: that this committer lives is judged by the time in the state (D10).
        return advance(store, job, last, Phase.DECLARED, prepared.nonce, since=now)
    declaration = new_declaration(job, claim, run, run_id, now)
    content = context.places.add_content(job, declaration.nonce, encode(declaration))
    return advance(store, job, last, Phase.DECLARED, declaration.nonce, content=content)


def _covers(prepared: Declaration, claim: Claim, run_id: str | None) -> bool:
    """Whether a declaration says all that the job with this `claim` must say."""
    is_within = claim.is_within(prepared.claim.writes)
    return is_within and not claim.excludes and prepared.run_id == run_id


def withdraw(context: JobContext, declared: Seen) -> Seen:
    """Withdraw a declaration; `StateChangedError` if the state has changed since."""
    return advance(context.store, context.job, declared, Phase.OPEN)


def wait_for_declaration(context: JobContext, expected: Seen, patience: Patience) -> Seen:
    """Wait for another committer of this job that has declared it; if it is dead, withdraw for it."""
    wait_for_committer(context, expected, patience)
    return withdraw(context, expected)


def wait_for_committer(
    context: JobContext, expected: Seen, patience: Patience, run: str | None = None
) -> None:
    """Wait until no live process, except the one of this `run`, is at work on this job.
    `StateChangedError` if one has gone on with it. `CommitterBusyError` if patience is over first."""
    wants_beat = expected.phase is not Phase.DECLARED
    while True:
        status = read_other(
            context.store, context.job, context.now_milliseconds(), wants_beat=wants_beat
        )
        if status is None or status.seen != expected:
            current = status.seen if status else read_state(context.store, context.job)
            raise StateChangedError(current, expected)
        status = patience.watch.judge(status)
        if not status.is_alive or status.owner.run == run:
            return
        if patience.is_over and not status.is_doubtful:
            raise busy(status)
        patience.wait()


def look_around(
    context: JobContext, claim: Claim, below: Sequence[str] = (), choose: Choose = look_for_all
) -> list[JobStatus]:
    """The jobs that must not be committed at the same time as a job with this `claim`: at its own
    destination, above all that it writes elsewhere, and at `below`, where it writes and jobs were set
    up, as the look at the data shows. A notice names what was not checked, being closed or behind a
    link. `choose` names the jobs to look at in its destination, if it writes nowhere else."""
    destination = context.job.destination
    real = context.store.real_path(destination)
    outside = [path for path in claim.writes if not is_within(path, {real})]
    # A job that was set up above may write anywhere below, so every directory above is looked into (D3).
    above = destinations_above((destination, real, *outside))
    required = {destination, *below}
    directories = sorted({*required, *above} - {real} | {destination})

    def look(directory: str) -> list[JobStatus]:
        must_see = directory in required or is_inside(directory, real)
        of_own = choose if directory == destination and not outside else look_for_all
        return _hindrances(context, claim, directory, must_see=must_see, choose=of_own)

    groups = context.at_once(look, directories)
    return [rival for rivals in groups for rival in rivals]


def give_way(
    context: JobContext,
    declared: Seen,
    claim: Claim,
    rivals: Sequence[JobStatus],
    patience: Patience,
    *,
    roots: Sequence[str] = (),
    run_id: str | None = None,
) -> Seen:
    """Wait a little for the jobs in the way, with or without the declaration; the state after that.
    Those that have stopped are ended, without the declaration, if the job's options say so; `roots` are
    the directories whose files the job replaces. `CommitConflictError`, with the declaration withdrawn,
    if one must not be ended or there is no patience left."""
    rivals = [patience.watch.judge(rival) for rival in _last_signs(context, rivals)]
    if not rivals:  # each has ended and been removed since the look
        return declared
    for rival in rivals:
        is_dead = rival.phase is Phase.DECLARED and not rival.is_alive
        if is_dead and _withdraw_dead(context, rival):
            return declared
    stopped = [rival for rival in rivals if not rival.is_alive]
    if stopped:
        # Withdrawn first: to end a job takes long, and meanwhile this one must hold nobody up (D3).
        after = withdraw(context, declared)
        _end_stopped(context, claim, ends_of(context, stopped, roots, run_id), patience)
        return after
    if patience.is_over and not any(rival.is_doubtful for rival in rivals):
        withdraw(context, declared)
        raise _conflict(context, claim, rivals[0])
    # Both sides compute the same order from the two declarations, so exactly one of them stays (D3).
    mine = _rank(claim, declared.state.nonce)
    stays = all(
        rival.phase is not Phase.DECLARED or mine < _rank(rival.claim, rival.known.state.nonce)
        for rival in rivals
    )
    after = declared if stays else withdraw(context, declared)
    patience.wait()
    return after


def _last_signs(context: JobContext, rivals: Iterable[JobStatus]) -> Iterator[JobStatus]:
    """The jobs, those whose commit has begun with the heartbeat, which shows that a run has failed."""
    for rival in rivals:
        if rival.phase is Phase.DECLARED or rival.beat is not None or not rival.is_alive:
            yield rival
        else:
            now = context.now_milliseconds()
            yield from read_others(context.store, rival.job, now_milliseconds=now)


def busy(status: JobStatus) -> CommitterBusyError:
    """The error for a commit on which another process is at work."""
    owner = status.owner
    return CommitterBusyError(
        f"{mark(status.job.directory)}: process {owner.process} on {owner.host} is committing this job",
        "wait for it, then run the same command",
    )


def _hindrances(
    context: JobContext, claim: Claim, directory: str, *, must_see: bool, choose: Choose
) -> list[JobStatus]:
    def unread(error: PermissionError | LinkedPathError) -> None:
        is_link = isinstance(error, LinkedPathError)
        replaces = claim.hinders(Claim([directory]))  # perhaps files of a job behind the link
        if directory == context.job.destination or (must_see and (replaces or not is_link)):
            raise error
        notice(not_read(error, directory))

    def notice(what: str) -> None:
        context.notice_once(
            f"{what}; jobs that were set up there were not checked: make sure that none of them "
            f"writes to {mark(context.job.destination)} during this commit"
        )

    rivals = other_jobs(
        context.store,
        directory,
        context.now_milliseconds(),
        asking=context.job,
        unread=unread,
        choose=choose,
    )
    for rival in rivals:
        if rival.closed is not None:
            notice(not_read(rival.closed, rival.job.directory))
    is_own = directory == context.job.destination
    begun = [rival for rival in rivals if rival.phase in IN_THE_WAY]
    for rival in begun:
        if rival.is_passed_by_appends and not rival.is_alive and claim.hinders(rival.claim):
            what, advice = finish_first(context.store, rival)
            context.notice_once(
                f"{what}, and it has not removed all the data that it replaces; {advice}"
            )
    return [rival for rival in begun if _is_in_the_way(claim, rival, is_own)]


def _is_in_the_way(claim: Claim, rival: JobStatus, is_own: bool) -> bool:
    """Whether the two must not be committed at once, or may be one application, run again. An append
    passes a sealed job that replaces data: what that still removes is in its record."""
    theirs = rival.claim
    if rival.is_passed_by_appends and not claim.excludes:
        return False
    return claim.hinders(theirs) or (is_own and rival.is_unfinished and theirs.meets(claim.writes))


def _end_stopped(context: JobContext, claim: Claim, ends: Sequence[Choice], patience: Patience) -> None:
    """End the jobs in the way that have stopped; if others work on them after all, wait a little."""
    refuse = partial(_conflict, context, claim)
    chosen = none_refused(ends, refuse)
    if patience.rounds >= ROUNDS and patience.is_over:
        raise refuse(chosen[0][0])
    patience.rounds += 1
    texts = end_jobs(context.store, chosen, context.end_other, context.sleep)
    if not list(map(context.notice, texts)):
        patience.wait()


def ends_of(
    context: JobContext, stopped: Iterable[JobStatus], roots: Sequence[str], run_id: str | None = None
) -> list[Choice]:
    """How each of the jobs in the way that have stopped is ended before this one. None that was set up
    above this job is ended: its record could name any file there."""
    destination, options = context.job.destination, context.options
    named = {destination, context.store.real_path(destination), *roots}
    end = partial(
        end_of,
        unfinished=options.unfinished,
        roots=roots,
        finish_others=options.finish_others,
        run_id=run_id,
    )
    return [
        (rival, end(rival) if is_within(rival.job.destination, named) else None) for rival in stopped
    ]


def _withdraw_dead(context: JobContext, rival: JobStatus) -> bool:
    """Withdraw the declaration of a dead committer, which decides nothing; False if not permitted."""
    try:
        advance_if_unchanged(context.store, rival.job, rival.known, Phase.OPEN)
    except PermissionError:
        return False
    return True


def _rank(claim: Claim, nonce: str) -> tuple[bool, str]:
    """The order of two declared jobs: the lower one stays declared."""
    return not claim.excludes, nonce


def _conflict(context: JobContext, claim: Claim, rival: JobStatus) -> CommitConflictError:
    waited = "" if not rival.is_alive else f" (waited {context.options.conflict_wait_seconds:g} s)"
    why = f"and this job must not do that at the same time{waited}"
    if not claim.hinders(rival.claim):
        why = would_repeat(rival)
    return refusal(
        context.store, rival, context.options.unfinished, then="run the same command", why=why
    )
