"""Read what is known of one job attempt: its state, what is in its directory, and its commit.

A job whose commit has begun has declared what it writes. Its process gives signs of life: the
declaration itself and, in a long commit, heartbeats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from msgspec import structs

from ray_committer.errors import CommitStateUnknownError, RayCommitterError, mark
from ray_committer.job_files.commands import abort_command
from ray_committer.job_files.commit_record import record_gone
from ray_committer.job_files.job_state import Seen, read_state
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.job_tree import JobTree
from ray_committer.job_files.manifests import list_manifest_files, manifests_in, read_listed
from ray_committer.job_files.owners import Life, is_nobody, life_of
from ray_committer.job_files.set_up_here import SetUpHere
from ray_committer.places.choose import places_of
from ray_committer.protocol.manifest import decode_manifest, stamp_of
from ray_committer.protocol.paths import (
    FROZEN,
    FROZEN_TASKS,
    MANIFESTS,
    PACKS,
    STATE,
    TASKS,
    UNDONE,
    JobAttempt,
    join,
)
from ray_committer.protocol.record import Declaration, Heartbeat, Owner, decode_claim, decode_heartbeat
from ray_committer.protocol.state import IN_THE_WAY, Phase
from ray_committer.stores.base import FileStatus, StoreOperations, is_there, only_there
from ray_committer.stores.links import refuse_links

_OWN_NAMES = (MANIFESTS, FROZEN, PACKS, TASKS, STATE)
_BEGUN = frozenset({Phase.DECLARED, Phase.RECORDED, Phase.SEALED, Phase.COMMITTED, Phase.UNDOING})
_TRIES = 5


def read_job(store: StoreOperations, job: JobAttempt) -> JobStatus:
    """Read an attempt's state, or list its directory without one; `LinkedPathError` behind a link. A
    state counts as none if it says nothing about the job."""
    _refuse_linked_attempt(store, job)
    return _status(store, job, read_state(store, job))


def state_of_job(store: StoreOperations, job: JobAttempt) -> Seen | None:
    """`read_state`, but None if the state says nothing about the job."""
    current = read_state(store, job)
    return current and _status(store, job, current).seen


def as_set_up(store: StoreOperations, job: JobAttempt, known: SetUpHere) -> JobStatus:
    """A job as this process has set it up, without a request; `LinkedPathError` behind a link."""
    _refuse_linked_attempt(store, job)
    return replace(_with_state(job, known.first), is_remembered=True, prepared=known.prepared)


def read_job_and_manifests(
    store: StoreOperations, job: JobAttempt, tree: JobTree | None = None
) -> JobStatus:
    """`read_job` and, in parallel where requests have to be waited for, list the manifests, unless the
    `tree` of the job's files is known. The listing counts only for a job that has a state: it is
    compared again after the manifests are frozen. Otherwise, manifests of late tasks do not."""
    if tree is not None and (current := state_of_job(store, job)) is not None:
        manifests, attempts = tree.manifests(job), tree.task_attempts(job)
        return replace(_with_state(job, current), manifests=manifests, task_attempts=attempts)
    if store.capabilities.renames_are_local:
        return without_late(store, read_job(store, job))
    _refuse_linked_attempt(store, job)
    with ThreadPoolExecutor(max_workers=1) as pool:
        listing = pool.submit(_manifests_if_any, store, job)
        current = read_state(store, job)
    status = _status(store, job, current)
    if status.seen is None:
        return without_late(store, status, listing.result())
    return replace(status, manifests=listing.result())


def without_late(
    store: StoreOperations, status: JobStatus, listed: Sequence[FileStatus] | None = None
) -> JobStatus:
    """`status` but, for a job that has no state, without manifests that late tasks left: they were all
    written for a job that had a state, so that job has ended. `listed` is a listing of the manifests."""
    # A late task of a job that was removed makes `manifests/` again and nothing else: the stamp in its
    # manifest tells it from a task of Hadoop's committer, which stamps nothing.
    if status.seen is not None or not status.has_manifests:
        return status
    try:
        stamps = _stamps(store, status.job, listed)
        is_late = bool(next(stamps, None)) and all(stamps)
    except (FileNotFoundError, NotADirectoryError):
        return status
    return replace(status, has_manifests=not is_late)


def _stamps(
    store: StoreOperations, job: JobAttempt, listed: Sequence[FileStatus] | None = None
) -> Iterator[str | None]:
    """The stamps in the manifests of a job, read one by one; None in manifests of Hadoop's committer."""
    for file in list_manifest_files(store, job) if listed is None else manifests_in(listed):
        yield stamp_of(decode_manifest(read_listed(store, file), file.path))


def _manifests_if_any(store: StoreOperations, job: JobAttempt) -> tuple[FileStatus, ...] | None:
    try:
        return tuple(store.list_status(job.manifests))
    except (OSError, RayCommitterError):
        return None


def _refuse_linked_attempt(store: StoreOperations, job: JobAttempt) -> None:
    parts = (join(job.directory, name) for name in _OWN_NAMES)
    refuse_links(store, (job.temporary, job.job_directory, job.directory, *parts))


def _status(store: StoreOperations, job: JobAttempt, current: Seen | None) -> JobStatus:
    """The status of an attempt in the state `current`; without one, by a listing of its directory."""
    if current is not None and not current.state.may_be_nobodys:
        return _with_state(job, current)
    status = _listed(store, job)
    if current is None:
        return status
    # An abort of what a late task left was killed: how the job ended, this state does not say (D8).
    # With manifests that have no stamp, it is of a job that Hadoop's committer set up.
    try:
        is_of_job = status.has_manifests and not all(_stamps(store, job))
    except (FileNotFoundError, NotADirectoryError):  # another process ends that abort
        is_of_job = False
    return (
        _with_state(job, current) if is_of_job else replace(status, is_husk=False, has_manifests=False)
    )


def _with_state(job: JobAttempt, current: Seen) -> JobStatus:
    return JobStatus(job, seen=current, has_manifests=True)


def _listed(store: StoreOperations, job: JobAttempt) -> JobStatus:
    try:
        names = {entry.name for entry in only_there(store, store.list_exact(job.directory))}
    except (FileNotFoundError, NotADirectoryError):
        return JobStatus(job, exists=False)
    if not names and not is_there(store, FileStatus(job.directory, is_directory=True)):
        return JobStatus(job, exists=False)
    manifests = {path.rpartition("/")[2] for path in places_of(store).manifests(job)}
    frozen = {name for name in names if name.startswith(FROZEN_TASKS)}
    is_husk = bool(names) and names <= {STATE, UNDONE, PACKS, *frozen}
    return JobStatus(job, has_manifests=not names.isdisjoint(manifests), is_husk=is_husk)


def read_other(
    store: StoreOperations, job: JobAttempt, now_milliseconds: int, *, wants_beat: bool = False
) -> JobStatus | None:
    """Read a job attempt and its declaration; None if its commit has not begun, or was aborted. With
    `wants_beat` the heartbeat is always read, not only when it is needed to find a live committer.
    `RecordGoneError` or `CommitStateUnknownError` if the record or the declaration is gone."""
    status = read_commit(store, job, now_milliseconds, wants_beat=wants_beat)
    return status if status.has_begun else None


def read_others(store: StoreOperations, *jobs: JobAttempt, now_milliseconds: int) -> list[JobStatus]:
    """`read_other`, with the heartbeat, for the jobs whose commit has begun."""
    statuses = (read_other(store, job, now_milliseconds, wants_beat=True) for job in jobs)
    return [status for status in statuses if status is not None]


def read_commit(
    store: StoreOperations, job: JobAttempt, now_milliseconds: int, *, wants_beat: bool = False
) -> JobStatus:
    """`read_other`, but a job whose commit has not begun is returned, too, and one that is not there."""
    refuse_links(store, (job.directory, job.state))
    current: Seen | None = None
    exists = False
    for _ in range(_TRIES):
        current = read_state(store, job)
        if current is None and not exists and store.get_status(job.directory) is not None:
            exists = True
            continue  # it has no state, or it was just put back with its state
        if current is None:
            return JobStatus(job, exists=exists)
        if current.phase not in _BEGUN:
            return JobStatus(job, seen=current)
        path = job.content(current.state.record or current.state.nonce)
        try:
            declared = decode_claim(current.content.encode() or store.read(path), path)
            if current.state.since is not None:  # it was written while the job's tasks ran
                declared = structs.replace(declared, created_milliseconds=current.state.since)
        except FileNotFoundError:
            continue  # its state has changed, or it is being removed
        worker, beat, life = _at_work(store, job, declared, now_milliseconds, wants_beat=wants_beat)
        # Death is believed only of a job that has not changed since its state was read: a commit that
        # ended normally also leaves no sign (D10).
        if worker is None and read_state(store, job) != current:
            continue  # the job has moved on, and its committer may have ended normally
        return JobStatus(job, seen=current, declared=declared, life=life, worker=worker, beat=beat)
    if current is not None and current.phase in IN_THE_WAY and read_state(store, job) == current:
        raise _content_gone(store, job, current)
    return JobStatus(job, exists=False)


def _content_gone(store: StoreOperations, job: JobAttempt, current: Seen) -> RayCommitterError:
    if current.phase is not Phase.DECLARED:
        return record_gone(job, current.state)
    return CommitStateUnknownError(
        f"{mark(job.content(current.state.nonce))}: the declaration of job {job.job_id} is gone, so it "
        "is not known what the job writes",
        f"abort the job with: {abort_command(store, job)}",
    )


def _at_work(
    store: StoreOperations,
    job: JobAttempt,
    declaration: Declaration,
    now_milliseconds: int,
    *,
    wants_beat: bool,
) -> tuple[Owner | None, Heartbeat | None, Life]:
    """The process at work on the job, the last heartbeat if it was read, and whether that process is
    alive. The process is the one that declared or recorded the job, or another one that continues its
    commit. If the one that began it has failed, its last heartbeat shows that."""
    began = declaration.owner
    life = life_of(began, declaration.created_milliseconds, now_milliseconds)
    beat = _last_beat(store, job) if wants_beat or life is not Life.ALIVE else None
    if beat is None:
        return began if life else None, None, life
    last = life_of(beat.owner, beat.at_milliseconds, now_milliseconds)
    # The beat of nobody that a failed run leaves (D10) counts, although the declaration looks alive.
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
