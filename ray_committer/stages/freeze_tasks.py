"""Freeze the files of tasks: their directory gets a name that only one run of a commit knows.

From then on no late process changes a source, or adds a file beside one, by its path: such a process
makes `tasks` again, without the mark of the job, and what has no mark never counts. A run that continues
the commit gives the directory another name, so all later requests of the run before miss.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import replace
from functools import partial

from ray_committer.errors import CommitterBusyError, StoreUnavailableError, mark
from ray_committer.job_files.job_state import Seen, StateChangedError, read_state
from ray_committer.limits import waiting
from ray_committer.limits.settle import ATTEMPTS
from ray_committer.places.base import tasks_of
from ray_committer.places.choose import places_of
from ray_committer.protocol.paths import MARK, STAGED, JobAttempt
from ray_committer.protocol.state import UNSTAMPED, JobState, new_nonce
from ray_committer.stages.context import JobContext
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.links import refuse_links

TRIES = 8


def can_freeze(store: StoreOperations, state: JobState) -> bool:
    """Whether files of tasks can be frozen: not on each store, nor if Hadoop has set the job up."""
    return state.stamp != UNSTAMPED and places_of(store).moves_whole


def freeze_tasks(context: JobContext, state: JobState) -> JobContext | None:
    """Give the directory with the files of tasks a name that was never used; return the context that
    knows it. None if it is gone: then it must be looked for. The same context where it stays."""
    place = _renamed(context, state, context.job, context.job)
    if place is None or place is context.job:
        return context if place is not None else None
    refuse_links(context.store, (place.tasks,))
    return replace(context, job=place)


def _renamed(
    context: JobContext, state: JobState, source: JobAttempt, into: JobAttempt
) -> JobAttempt | None:
    """Rename the directory with the files of tasks, as `source` knows it, into the directory of `into`;
    the attempt that knows it then. None if it is gone. The `source` where it stays."""
    store = context.store
    if not can_freeze(store, state):
        return source
    for number in range(1, ATTEMPTS + 1):
        # Never again under this name: the request may still come, and get what a late task makes.
        place = into.with_frozen_tasks(new_nonce())
        try:
            store.move_whole(source.tasks, place.tasks)
        except FileNotFoundError:  # another run has done it
            return None
        except StoreUnavailableError:
            if has_mark(replace(context, job=place), state):
                return place
            if number == ATTEMPTS:
                raise
            context.sleep(waiting.REQUEST.after(number))
        except OSError as e:
            return _refused(context, source, e)
        else:
            return place
    return None


def _refused(context: JobContext, source: JobAttempt, error: OSError) -> JobAttempt:
    """The `source`, whose rename was refused, if its files can be moved from there."""
    if error.errno != errno.ENOTSUP:
        # What another run has frozen must get another name: that run knows the one before.
        if error.errno is None or source.is_frozen:
            raise error
        context.notice_once(
            f"{mark(source.tasks)}: cannot be renamed ({error.strerror}), so its files are moved one by "
            "one from there; make sure that no task of the job still runs"
        )
    return source


def find_staging(store: StoreOperations, job: JobAttempt, state: JobState) -> JobAttempt | None:
    """The attempt with the directory where the files of its tasks are: the one with the job's mark, or,
    where nothing can be frozen, the usual one. None if it is not there, or is just renamed."""
    usual = job.with_tasks_in()
    if not can_freeze(store, state):
        return usual
    for _ in range(2):  # a listing can miss what is renamed meanwhile (D1)
        places = tasks_of(store, job)
        for place in places:
            if store.get_status(place.mark(state.stamp)) is not None:
                return place
    # A program may have removed the mark, an empty directory; and nobody here can rename the files.
    is_usual = [place.tasks for place in places] == [usual.tasks]
    return usual if is_usual and why_not_whole(store, job) == errno.ENOTSUP else None


def why_not_whole(store: StoreOperations, job: JobAttempt) -> int | None:
    """The error number with which the store refuses to move a directory beside the files of tasks; None
    if it does not. It is asked to move one that is not there, which changes nothing."""
    missing = f"{job.tasks}-{new_nonce()}"
    try:
        store.move_whole(missing, f"{missing}-moved")
    except (FileNotFoundError, StoreUnavailableError):  # of the latter, the real request shows more
        return None
    except OSError as e:
        return e.errno or errno.EIO
    return None


def take(context: JobContext, known: Seen, into: JobAttempt) -> JobAttempt | None:
    """Rename the directory with the files of tasks, wherever it is in the job's, into the directory of
    `into`; the attempt that knows it. None if it is not found, or if other processes rename it again
    and again. `StateChangedError` if the job is not as `known`: then it is another run's."""
    store, job, state = context.store, context.job, known.state
    for _ in range(TRIES):
        source, latest = context.do_at_once(
            partial(find_staging, store, job, state), partial(read_state, store, job)
        )
        if latest != known:
            raise StateChangedError(latest, known)
        if source is None:
            return None
        place = _renamed(context, state, source, into)
        # What a late task has made again can be there by the old name once the job's own is renamed.
        if place is source or (place and is_own(context, state, place, source)):
            return place
    return None


def is_own(context: JobContext, state: JobState, place: JobAttempt, source: JobAttempt) -> bool:
    """Whether what was renamed from `source` to `place` is the job's. What a late task has made again,
    or what a later job of the id has, is not: it is put back, where that job's tasks write."""
    if has_mark(replace(context, job=place), state):
        return True
    with suppress(OSError):  # its tasks have made the directory again, or its committer has found it
        context.store.move_whole(place.tasks, source.tasks)
    return False


def take_over(context: JobContext, known: Seen) -> JobContext:
    """Freeze the files of tasks wherever they are, under a new name: who knew the one before reaches
    none of them. For a recorded job, or one that this run has declared. `CommitterBusyError` if other
    runs do the same, or if the files are not found. `StateChangedError` as `take`."""
    place = take(context, known, context.job)
    if place is None:
        raise CommitterBusyError(
            f"{mark(context.job.directory)}: its directory with the files of tasks is not found, or gets"
            " new names: other processes are at work on this job",
            "nothing was deleted: wait for them, and run the same command; if there are none, "
            f"{how_to_mark(context.store, known.state, context.job)}",
        )
    refuse_links(context.store, (place.tasks,))
    return replace(context, job=place)


def how_to_mark(store: StoreOperations, state: JobState, *attempts: JobAttempt) -> str:
    """What to do if no directory shows that its files are the job's: an empty one must never do so."""
    there = [mark(place.tasks) for attempt in attempts for place in tasks_of(store, attempt)]
    name = f"{STAGED}/{MARK}{state.stamp}"
    if there:
        return f"make {name} in the directory that holds the job's files, of: {', '.join(there)}"
    tasks = mark(attempts[-1].with_tasks_in().tasks)
    return f"put the directory with the job's files back as {tasks}, and make {name} in it"


def holds_tasks(context: JobContext, state: JobState) -> bool:
    """Whether the files of tasks are where this run knows them: an error about them counts only then."""
    place = find_staging(context.store, context.job, state)
    return place is not None and place.tasks == context.job.tasks


def has_mark(context: JobContext, state: JobState) -> bool:
    """Whether what was frozen is the job's, and not what a late task has made again."""
    job = context.job
    return not job.is_frozen or context.store.get_status(job.mark(state.stamp)) is not None
