"""Find the other jobs at a destination, above it and below it, that conflict with a job.

A commit looks for other jobs only after it has declared its own job. So if two jobs are in each other's
way, at least one of them sees the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ray_committer.errors import CommitStateUnknownError, LinkedPathError, RayCommitterError
from ray_committer.job_files.commands import abort_command, commit_command
from ray_committer.job_files.commit_record import record_gone
from ray_committer.job_files.find_job import Temporary, jobs_in, list_temporary, refuse_links
from ray_committer.job_files.gone_jobs import gone_in, state_inside
from ray_committer.job_files.job_state import Seen, read_state
from ray_committer.job_files.owners import Life, has_ended, is_nobody, life_of
from ray_committer.protocol.paths import JobAttempt, ancestors, new_job_attempt
from ray_committer.protocol.record import Declaration, Heartbeat, Owner, decode_claim, decode_heartbeat
from ray_committer.protocol.state import IN_THE_WAY, UNFINISHED, Phase
from ray_committer.stores.at_once import MANY, at_once
from ray_committer.stores.base import StoreOperations

_TRIES = 5
_LOOKS = 3  # a job that is taken away by mistake and put back is missed at most twice
Choose = Callable[[Sequence[str]], Sequence[str]]
"""Of the directories below ``_temporary`` of other jobs, those to look into."""
Unread = Callable[[PermissionError | LinkedPathError], None]
"""Called with the error of a closed or linked directory; if it does not raise it, the search goes on."""

_BEGUN = frozenset({Phase.DECLARED, Phase.RECORDED, Phase.SEALED, Phase.COMMITTED, Phase.UNDOING})


def stop_if_unread(error: PermissionError | LinkedPathError) -> None:
    """Raise the error."""
    raise error


@dataclass(frozen=True, slots=True)
class OtherJob:
    """A job attempt whose commit has begun, its declaration, and whether its committer is alive.

    `owner` is the process at work on the commit; if there is none, the process that began it. `beat` is
    the last heartbeat. It is None if there is no heartbeat, or if it was not read because the process
    that began the commit looks alive. It `is_doubtful` whether a committer whose clock is ahead lives:
    see `watch`.
    """

    job: JobAttempt
    seen: Seen
    declaration: Declaration
    is_alive: bool
    owner: Owner
    beat: Heartbeat | None = None
    is_doubtful: bool = False

    @property
    def has_ended(self) -> bool:
        """Whether it is certain that no process is at work on it; the last word of a run counts."""
        last = [self.declaration.owner, *([self.beat.owner] if self.beat else [])]
        return all(map(has_ended, {one.run: one for one in last}.values()))

    @property
    def phase(self) -> Phase:
        return self.seen.phase

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
        return self.phase is Phase.SEALED and bool(self.declaration.claim.excludes)

    @property
    def is_unfinished(self) -> bool:
        """Whether a process was to end it and has died: its application may be run again."""
        return self.phase in UNFINISHED and not self.is_alive and not self.is_deferred


@dataclass(frozen=True, slots=True)
class Others:
    """The `jobs` whose commit has begun, and the symbolic `links` in the place of a job or an attempt,
    which were not followed."""

    jobs: tuple[OtherJob, ...]
    links: tuple[str, ...] = ()


def other_jobs(
    store: StoreOperations,
    destination: str,
    now_milliseconds: int,
    *,
    own: JobAttempt | None = None,
    unread: Unread = stop_if_unread,
    choose: Choose = tuple,
) -> Others:
    """Find attempts of other jobs than `own`, below the ``_temporary`` of `destination`, that have begun
    their commit. `choose` names the directories to look into.

    This includes an attempt that a process which slept has taken away by mistake, also if it is put back
    during the search.
    """
    found: dict[tuple[str, int], OtherJob] = {}
    links: set[str] = set()
    for _ in range(_LOOKS):
        seen, is_whole = _look(store, destination, now_milliseconds, own, unread, choose)
        found |= {(other.job.job_id, other.job.number): other for other in seen.jobs}
        links.update(seen.links)
        if is_whole:
            break
    return Others(tuple(found.values()), tuple(sorted(links)))


def _look(
    store: StoreOperations,
    destination: str,
    now_milliseconds: int,
    own: JobAttempt | None,
    unread: Unread,
    choose: Choose,
) -> tuple[Others, bool]:
    """Look once: the jobs found, and whether all of them stayed in place until they were read."""

    def read_attempt(job: JobAttempt) -> _Read:
        try:
            if job.is_gone:
                return _read_gone(store, job, own, now_milliseconds)
            return _read(store, job, now_milliseconds)
        except (PermissionError, LinkedPathError) as e:
            unread(e)
            return _Read()

    def others() -> Temporary:
        try:
            found = list_temporary(store, destination)
        except (PermissionError, LinkedPathError) as e:
            unread(e)
            return Temporary()
        directories = (one for one in found.directories if own is None or one != own.job_directory)
        return Temporary(tuple(directories), found.links)

    listed = others()
    chosen = choose(listed.directories)
    gone = gone_in(destination, chosen)
    jobs = jobs_in(store, destination, chosen)
    for found in jobs:
        if found.closed is not None:
            unread(found.closed)
    attempts = (*gone, *(one for found in jobs for one in found.attempts))
    read = at_once(store, read_attempt, attempts, least=MANY)
    is_whole = len(gone) + len(jobs) == len(chosen) and all(one.is_there for one in read)
    empty = [found.directory for found in jobs if not found.attempts and not found.closed]
    if empty and is_whole:
        later = others()
        again = jobs_in(store, destination, empty)
        is_whole = later == listed and not any(found.attempts or found.closed for found in again)
    links = (*listed.links, *(one.directory for found in jobs for one in found.linked))
    return Others(tuple(one.other for one in read if one.other is not None), links), is_whole


def read_other(
    store: StoreOperations, job: JobAttempt, now_milliseconds: int, *, wants_beat: bool = False
) -> OtherJob | None:
    """Read a job attempt and its declaration; None if its commit has not begun, or was aborted.

    With `wants_beat` the heartbeat is always read, not only when it is needed to find a live committer.
    `RecordGoneError` or `CommitStateUnknownError` if the record or the declaration is gone.
    """
    return _read(store, job, now_milliseconds, wants_beat=wants_beat).other


def read_others(store: StoreOperations, *jobs: JobAttempt, now_milliseconds: int) -> list[OtherJob]:
    """`read_other`, with the heartbeat, for those of some jobs whose commit has begun."""
    found = (read_other(store, job, now_milliseconds, wants_beat=True) for job in jobs)
    return [one for one in found if one is not None]


@dataclass(frozen=True, slots=True)
class _Read:
    other: OtherJob | None = None
    is_there: bool = True


def _read(
    store: StoreOperations, job: JobAttempt, now_milliseconds: int, *, wants_beat: bool = False
) -> _Read:
    refuse_links(store, (job.directory, job.state))
    seen: Seen | None = None
    is_there = False
    for _ in range(_TRIES):
        seen = read_state(store, job)
        if seen is None and not is_there and store.get_status(job.directory) is not None:
            is_there = True
            continue  # it has no state, or it was just put back with its state
        if seen is None:
            return _Read(is_there=is_there)
        if seen.phase not in _BEGUN:
            return _Read()
        path = job.content(seen.state.record or seen.state.nonce)
        try:
            declaration = decode_claim(seen.content.encode() or store.read(path), path)
        except FileNotFoundError:
            continue  # its state has changed, or it is being removed
        owner, beat, life = _at_work(store, job, declaration, now_milliseconds, wants_beat=wants_beat)
        if owner is None and read_state(store, job) != seen:
            continue  # the job has moved on, and its committer may have ended normally
        is_alive, owner = owner is not None, owner or declaration.owner
        doubt = life is Life.DOUBTFUL
        return _Read(OtherJob(job, seen, declaration, is_alive, owner, beat, is_doubtful=doubt))
    if seen is not None and seen.phase in IN_THE_WAY and read_state(store, job) == seen:
        raise _content_gone(store, job, seen)
    return _Read(is_there=False)


def _content_gone(store: StoreOperations, job: JobAttempt, seen: Seen) -> RayCommitterError:
    if seen.phase is not Phase.DECLARED:
        return record_gone(job, seen.state)
    return CommitStateUnknownError(
        f"{job.content(seen.state.nonce)}: the declaration of job {job.job_id} is gone, so it is not "
        f"known what the job writes",
        f"abort the job with: {abort_command(store, job)}",
    )


def _read_gone(
    store: StoreOperations, gone: JobAttempt, own: JobAttempt | None, now_milliseconds: int
) -> _Read:
    """Read a job other than `own` that was taken away although it has not ended.

    A job that is only declared, by a dead process, does not count: it cannot be recorded in that place.
    """
    state = state_inside(store, gone)
    if state is None:
        return _Read(is_there=store.get_status(gone.directory) is not None)
    read = _read(store, gone, now_milliseconds) if state.phase in IN_THE_WAY else _Read()
    if read.other is None or (read.other.phase is Phase.DECLARED and not read.other.is_alive):
        return replace(read, other=None)
    said = read.other.declaration
    if own is not None and said.job_id == own.job_id:
        return _Read()
    job = replace(gone, job_id=said.job_id, number=said.job_attempt)
    return replace(read, other=replace(read.other, job=job))


def _at_work(
    store: StoreOperations,
    job: JobAttempt,
    declaration: Declaration,
    now_milliseconds: int,
    *,
    wants_beat: bool,
) -> tuple[Owner | None, Heartbeat | None, Life]:
    """The process at work on the job, the last heartbeat if it was read, and whether that process is
    alive.

    The process is the one that declared or recorded the job, or another one that continues its commit.
    If the one that began it has failed, its last heartbeat shows that.
    """
    began = declaration.owner
    life = life_of(began, declaration.created_milliseconds, now_milliseconds)
    beat = _last_beat(store, job) if wants_beat or life is not Life.ALIVE else None
    if beat is None:
        return began if life else None, None, life
    last = life_of(beat.owner, beat.at_milliseconds, now_milliseconds)
    if last >= life or (is_nobody(beat.owner) and beat.owner.run == began.run):
        return beat.owner if last else None, beat, last
    return began, beat, life


def last_sign(store: StoreOperations, job: JobAttempt) -> tuple[Seen | None, Heartbeat | None]:
    """The state and the last heartbeat of a job, which change while a process is at work on its commit;
    never from this machine's cache of a network file system."""
    if store.network_file_system(job.state) is not None:
        store.revalidate(job.state)
    return read_state(store, job), _last_beat(store, job)


def _last_beat(store: StoreOperations, job: JobAttempt) -> Heartbeat | None:
    try:
        return decode_heartbeat(store.read(job.heartbeat), job.heartbeat)
    except (FileNotFoundError, PermissionError):  # not a sign of life
        return None


def destinations_above(paths: Iterable[str]) -> set[str]:
    """The directories above `paths`: jobs that were set up there can write to `paths`."""
    return {above for path in paths for above in (*ancestors(path, "/"), "/")}


def finish_first(store: StoreOperations, other: OtherJob) -> tuple[str, str]:
    """What is not finished, a commit, its undo or an abort, and the command for each way to end it."""
    job = other.job
    if job.is_gone:
        place = new_job_attempt(job.destination, job.job_id, job.number)
        return (
            f"{job.directory}: the commit of job {job.job_id} has begun, but a process that was paused "
            f"moved it here by mistake",
            f"move it back to {place.directory}, then finish it with: {commit_command(store, place)}",
        )
    if other.phase is Phase.UNDOING:
        what, command = "the commit is being undone", abort_command(store, job, undo=True)
    elif other.phase is Phase.ABORTED:
        what, command = "the job is aborted, but still there", abort_command(store, job)
    else:
        what, command = "the commit has begun but not ended", commit_command(store, job)
    if other.is_undoable:
        command += f", or give it up with: {abort_command(store, job, undo=True)}"
    return f"{job.directory}: {what} (job {job.job_id}, {other.phase})", f"finish it with: {command}"
