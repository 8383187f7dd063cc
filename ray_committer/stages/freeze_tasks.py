"""Freeze the files of tasks: their directory gets a name that only one run of a commit knows.

From then on no late process changes a source, or adds a file beside one, by its path: such a process
makes `tasks` again, without the mark of the job, and what has no mark never counts. A run that continues
the commit gives the directory another name, so all later requests of the run before miss.
"""

from __future__ import annotations

import errno
from dataclasses import replace

from ray_committer.errors import CommitterBusyError, StoreUnavailableError, mark
from ray_committer.places.base import tasks_of
from ray_committer.places.choose import places_of
from ray_committer.protocol.paths import TASKS, JobAttempt
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
    knows it. None if it is gone, or if there was no answer: then it must be looked for. The same context
    where nothing can be frozen."""
    store, job = context.store, context.job.with_frozen_tasks(new_nonce())
    if not can_freeze(store, state):
        return context
    try:
        store.move_whole(context.job.tasks, job.tasks)
    except FileNotFoundError:  # another run has done it
        return None
    except StoreUnavailableError:
        # Not again under this name: the request may still come, and must not get what a late task makes.
        if not has_mark(replace(context, job=job), state):
            return None
    except OSError as e:
        if e.errno != errno.ENOTSUP:
            raise
        return context
    refuse_links(store, (job.tasks,))
    return replace(context, job=job)


def find_staging(store: StoreOperations, job: JobAttempt, state: JobState) -> JobAttempt | None:
    """The attempt with the directory where the files of its tasks are: the one with the job's mark, or,
    where nothing can be frozen, the usual one. None if it is not there, or is just renamed."""
    if not can_freeze(store, state):
        return job.with_tasks_in(TASKS)
    for _ in range(2):  # a listing can miss what is renamed meanwhile (D1)
        for place in tasks_of(store, job):
            if store.get_status(place.mark(state.stamp)) is not None:
                return place
    return None


def take_over(context: JobContext, state: JobState) -> JobContext:
    """Freeze the files of tasks wherever they are, under a new name: who knew the one before reaches
    none of them. For a recorded job, or one that this run has declared. `CommitterBusyError` if other
    runs do the same, or if the files are not found."""
    for _ in range(TRIES):
        place = find_staging(context.store, context.job, state)
        if place is None:
            break
        taken = freeze_tasks(replace(context, job=place), state)
        if taken is not None:
            return taken
    path = context.job.with_tasks_in(TASKS).mark(state.stamp)
    raise CommitterBusyError(
        f"{mark(context.job.directory)}: its directory with the files of tasks is not found, or gets "
        "new names: other processes are at work on this job",
        "nothing was deleted: wait for them, and run the same command; if there are none, and the files "
        f"are there, make the directory {mark(path)}, which shows that they are the job's",
    )


def holds_tasks(context: JobContext, state: JobState) -> bool:
    """Whether the files of tasks are where this run knows them: an error about them counts only then."""
    place = find_staging(context.store, context.job, state)
    return place is not None and place.tasks == context.job.tasks


def has_mark(context: JobContext, state: JobState) -> bool:
    """Whether what this run has frozen is the job's, and not what a late task has made again."""
    job = context.job
    return job.staging == TASKS or context.store.get_status(job.mark(state.stamp)) is not None
