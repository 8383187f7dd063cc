"""Find the other jobs at a destination that matter to a job, and watch whether they are alive.

A commit looks for other jobs only after it has declared its own job. So if two jobs are in each other's
way, at least one of them sees the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ray_committer.errors import LinkedPathError
from ray_committer.job_files import owners
from ray_committer.job_files.job_state import read_state
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.listing import gone_in, jobs_in, list_attempts, list_temporary, may_hold
from ray_committer.job_files.owners import Life
from ray_committer.job_files.read_job import read_commit
from ray_committer.limits import waiting
from ray_committer.limits.waiting import Sleep
from ray_committer.protocol.paths import JobAttempt, ancestors
from ray_committer.protocol.record import Heartbeat, decode_claim
from ray_committer.protocol.state import IN_THE_WAY, SUFFIX, JobState, Phase, parse_token
from ray_committer.stores.at_once import MANY, at_once
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.stores.links import refuse_links

_LOOKS = 3  # a job that is taken away by mistake and put back is missed at most twice
Choose = Callable[[int], Collection[str] | None]
"""Gets the number of directories of other jobs; returns the ids of the jobs to look for, None for all.
What was taken away is always looked at."""
Unread = Callable[[PermissionError | LinkedPathError], None]
"""Called with the error of a closed or linked directory; if it does not raise it, the search goes on."""
Sign = tuple[str, Heartbeat | None]


def stop_if_unread(error: PermissionError | LinkedPathError) -> None:
    """Raise the error."""
    raise error


def look_for_all(count: int) -> None:
    """Choose all directories."""


def other_jobs(
    store: StoreOperations,
    destination: str,
    now_milliseconds: int,
    *,
    asking: JobAttempt | None = None,
    unread: Unread = stop_if_unread,
    choose: Choose = look_for_all,
) -> list[JobStatus]:
    """Find attempts of other jobs than `asking`, below the ``_temporary`` of `destination`, that have
    begun their commit, and symbolic links in the place of a job or an attempt. This includes an attempt
    that a process which slept has taken away by mistake, also if it is put back during the search."""
    jobs_begun: dict[tuple[str, int], JobStatus] = {}
    links: dict[str, JobStatus] = {}
    for _ in range(_LOOKS):
        jobs, is_whole = _look(store, destination, now_milliseconds, asking, unread, choose)
        for status in jobs:
            if status.is_link:
                links[status.job.directory] = status
            else:
                jobs_begun[status.job.job_id, status.job.number] = status
        # A directory that was there in the listing and not when it was read may just be renamed by a
        # process that slept, and be put back (D7): only a look in which nothing moved shows all jobs.
        if is_whole:
            break
    return [*jobs_begun.values(), *(links[path] for path in sorted(links))]


def _look(
    store: StoreOperations,
    destination: str,
    now_milliseconds: int,
    asking: JobAttempt | None,
    unread: Unread,
    choose: Choose,
) -> tuple[list[JobStatus], bool]:
    """Look once: the jobs and links found, and whether all jobs stayed in place until they were read."""

    def read_attempt(job: JobAttempt) -> JobStatus:
        try:
            if job.is_gone:
                return _read_gone(store, job, asking, now_milliseconds)
            return read_commit(store, job, now_milliseconds)
        except (PermissionError, LinkedPathError) as e:
            unread(e)
            return JobStatus(job)

    def list_others() -> list[FileStatus]:
        try:
            listed = list_temporary(store, destination)
        except (PermissionError, LinkedPathError) as e:
            unread(e)
            return []
        return [entry for entry in listed if asking is None or entry.path != asking.job_directory]

    listed = list_others()
    links = [entry for entry in listed if entry.is_link]
    directories = [entry for entry in listed if not entry.is_link]
    job_ids = choose(len(directories))
    chosen = directories if job_ids is None else may_hold(directories, job_ids)
    gone, jobs = gone_in(destination, chosen), jobs_in(store, destination, (*chosen, *links))
    for status in jobs:
        if isinstance(status.closed, PermissionError):
            unread(status.closed)
    attempts = [*gone, *(status.job for status in jobs if status.is_open)]
    read = at_once(store, read_attempt, attempts, least=MANY)
    there = {status.directory for status in jobs}
    is_whole = len(gone) + len(there) == len(chosen) + len(links) and all(
        status.exists for status in read
    )
    # An empty directory may be one that is being set up, or one whose attempt was taken away and is put
    # back: whether it stays so shows only a second listing.
    empty = [entry for entry in chosen if entry.path in there.difference(_filled(jobs))]
    if empty and is_whole:
        is_same = [entry.path for entry in list_others()] == [entry.path for entry in listed]
        is_whole = is_same and not _filled(jobs_in(store, destination, empty))
    return [
        *(status for status in read if status.has_begun),
        *(status for status in jobs if status.is_link),
    ], is_whole


def _filled(jobs: Iterable[JobStatus]) -> set[str]:
    """The directories that have an attempt, or perhaps have one, because they were not read."""
    return {status.directory for status in jobs if status.may_hold_an_attempt}


def _read_gone(
    store: StoreOperations, gone: JobAttempt, asking: JobAttempt | None, now_milliseconds: int
) -> JobStatus:
    """Read a job other than `asking` that was taken away although it has not ended. A job that is only
    declared, by a dead process, does not count: it cannot be recorded in that place."""
    state = state_inside(store, gone)
    if state is None:
        return JobStatus(gone, exists=store.get_status(gone.directory) is not None)
    status = read_commit(store, gone, now_milliseconds) if state.phase in IN_THE_WAY else JobStatus(gone)
    if not status.has_begun or (status.phase is Phase.DECLARED and not status.is_alive):
        return replace(status, declared=None)
    declaration = status.declaration
    if asking is not None and declaration.job_id == asking.job_id:
        return JobStatus(gone)
    return replace(status, job=replace(gone, job_id=declaration.job_id, number=declaration.job_attempt))


def destinations_above(paths: Iterable[str]) -> set[str]:
    """The directories above `paths`: jobs that were set up there can write to `paths`."""
    return {above for path in paths for above in (*ancestors(path, "/"), "/")}


def list_gone(store: StoreOperations, destination: str) -> list[JobAttempt]:
    """The directories that were taken away and are not deleted yet."""
    return gone_in(destination, list_temporary(store, destination))


def find_gone(store: StoreOperations, job: JobAttempt, stamp: str) -> JobState | None:
    """The state in which the job with this `stamp` was taken away, if it is not deleted yet."""
    states = (state for _, state in _gone_states(store, job.destination))
    return next((state for state in states if state.stamp == stamp), None)


def is_gone_committed(store: StoreOperations, job: JobAttempt) -> bool:
    """Whether a committed job of this id and attempt was taken away and is not deleted yet."""
    for gone, state in _gone_states(store, job.destination):
        path = gone.content(state.record or "")
        with suppress(FileNotFoundError, PermissionError):
            claim = decode_claim(store.read(path), path) if state.phase is Phase.COMMITTED else None
            if claim and (claim.job_id, claim.job_attempt) == (job.job_id, job.number):
                return True
    return False


def has_content(store: StoreOperations, job: JobAttempt, nonce: str) -> bool:
    """Whether the file of a state of the job exists, also where the job was taken away to."""
    if store.get_status(job.content(nonce)) is not None:
        return True
    for gone in list_gone(store, job.destination):
        with suppress(PermissionError):
            if store.get_status(gone.content(nonce)) is not None:
                return True
    return False


def state_inside(store: StoreOperations, gone: JobAttempt) -> JobState | None:
    """The state of what was taken away, which no longer changes; None if it is partly deleted."""
    refuse_links(store, (gone.directory, gone.state))
    try:
        listed = store.list_anew(gone.state)
    except FileNotFoundError:
        return None
    tokens = [entry.name for entry in listed if entry.name.endswith(SUFFIX)]
    return parse_token(tokens[0], gone.state) if tokens else None


def _gone_states(store: StoreOperations, destination: str) -> Iterator[tuple[JobAttempt, JobState]]:
    """What was taken away, with its state; not what may not be read, or is behind a link."""
    for gone in list_gone(store, destination):
        with suppress(PermissionError, LinkedPathError):
            if (state := state_inside(store, gone)) is not None:
                yield gone, state


def goes_on(store: StoreOperations, job: JobAttempt) -> bool:
    """Whether another attempt of this job has not been aborted."""
    attempts = (attempt for attempt in list_attempts(store, job) if attempt.number != job.number)
    states = (read_state(store, attempt) for attempt in attempts)
    return any(state is None or state.phase is not Phase.ABORTED for state in states)


@dataclass(slots=True)
class Watch:
    """The last sign of each job, when it was first seen, and whether it has changed since the first."""

    clock: Callable[[], float] = time.monotonic
    _seen: dict[JobAttempt, tuple[Sign, float, bool]] = field(default_factory=dict)

    def judge(self, status: JobStatus) -> JobStatus:
        """Return the job as it is known now that it was seen once more: its committer is alive if its
        sign has changed, and dead if it has not for `owners.DEAD_SECONDS`."""
        if status.seen is None:
            return status
        sign, now = (status.seen.state.nonce, status.beat), self.clock()
        last, since, has_changed = self._seen.get(status.job, (sign, now, False))
        # The other machine's clock does not count: only a change that is seen here does (D10).
        if last != sign:
            since, has_changed = now, True
        self._seen[status.job] = sign, since, has_changed
        if now - since >= owners.DEAD_SECONDS:
            return replace(status, life=Life.DEAD)
        is_alive = has_changed and (status.is_alive or not status.has_ended)
        return replace(status, life=Life.ALIVE) if is_alive else status


def until_certain(
    look: Callable[[], Iterable[JobStatus]],
    *,
    pause: Sleep = waiting.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> list[JobStatus]:
    """Look at jobs, again while it is doubtful whether the committer of one is alive: for at most
    `owners.DEAD_SECONDS`, and hardly ever more than once."""
    watch = Watch(clock)
    while True:
        judged = [watch.judge(status) for status in look()]
        if not any(status.is_doubtful for status in judged):
            return judged
        pause(waiting.LOOK_SECONDS)
