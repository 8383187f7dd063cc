"""Mistakes in where the files of tasks are while a job is committed."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace

from ray_committer.errors import CommitStateUnknownError
from ray_committer.places.base import tasks_of
from ray_committer.protocol.paths import MARK, STAGED, TASKS, join
from ray_committer.stages.freeze_manifests import freeze_manifests
from ray_committer.stages.freeze_tasks import (
    find_staging,
    freeze_tasks,
    has_mark,
    holds_tasks,
    is_own,
    take_over,
    why_not_whole,
)
from ray_committer.stages.take_back import take_tasks
from ray_committer.stores.local import LocalStore
from ray_committer.work.sources import list_directory
from tests.mutants.swap import Swaps


def tasks_are_not_frozen() -> Swaps:
    """A task that was taken for dead changes a file that is being moved."""
    yield freeze_tasks, lambda context, state: context


def tasks_are_frozen_before_the_manifests() -> Swaps:
    """A task that runs again writes its files elsewhere, and saves a manifest that counts."""

    def broken(context, loaded):
        with suppress(FileNotFoundError):
            context.store.move_whole(context.job.tasks, context.job.with_frozen_tasks("first").tasks)
        freeze_manifests(context, loaded)

    yield freeze_manifests, broken


def a_mark_is_not_asked_for() -> Swaps:
    """What a late task has made again is taken for the files of the job."""
    yield find_staging, lambda store, job, state: next(reversed(tasks_of(store, job)), None)
    yield has_mark, lambda context, state: True


def what_was_frozen_of_another_job_is_kept() -> Swaps:
    """Tasks of a later job of the id go on without what they have written."""
    yield is_own, lambda context, state, place, source: has_mark(replace(context, job=place), state)


def a_mark_of_any_job_counts() -> Swaps:
    """So is what an earlier set-up of the id has made."""

    def broken(store, job, state):
        for place in reversed(tasks_of(store, job)):
            listed = list_directory(store, join(place.tasks, STAGED))
            if any(status.name.startswith(MARK) for status in listed):
                return place
        return None

    yield find_staging, broken


def a_missed_source_is_lost() -> Swaps:
    """A run that was overtaken says that files are lost, and another one commits them."""
    yield holds_tasks, lambda context, state: True


def a_mark_is_asked_for_where_nothing_is_frozen() -> Swaps:
    """On a network file system a commit is never finished once a program has removed the mark."""
    yield why_not_whole, lambda store, job: None


def a_staging_keeps_its_name() -> Swaps:
    """The run before goes on moving the same files."""

    def broken(context, known):
        found = find_staging(context.store, context.job, known.state)
        return context if found is None else replace(context, job=found)

    yield take_over, broken


def an_undo_takes_one_listing() -> Swaps:
    """A committer gives the files another name meanwhile, and moves them after the undo."""

    def broken(context, current, place):
        found = find_staging(context.store, context.job.with_tasks_in(TASKS), current.state)
        if found is None or found.staging == TASKS:
            return context.job
        taken = replace(found, directory=place)
        with suppress(FileNotFoundError):
            context.store.move_whole(found.tasks, taken.tasks)
        return taken

    yield take_tasks, broken


def an_undo_leaves_files_that_it_cannot_take() -> Swaps:
    """A committer that can take them moves them after the undo."""

    def broken(context, current, place):
        try:
            return take_tasks(context, current, place)
        except CommitStateUnknownError:
            return context.job.with_tasks_in()

    yield take_tasks, broken


def a_handle_is_frozen() -> Swaps:
    """A rename by a link and an unlink goes on in a directory that an undo has taken away."""
    yield LocalStore.move_whole, lambda self, source, dest: os.rename(source, dest)
