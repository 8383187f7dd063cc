"""Freeze the manifests before anything is decided, so that no task adds or replaces one afterwards.

Their directory is renamed: a task that wakes up finds nowhere to save. Where directories cannot be
renamed, loading has made copies, and a listing after the declaration, which tasks look for, tells
whether they are still what counts.
"""

from __future__ import annotations

from ray_committer.errors import MissingManifestsError
from ray_committer.stages.context import JobContext
from ray_committer.stages.load_manifests import LoadedManifests, counted_manifests, listing_of
from ray_committer.stages.settle import settle
from ray_committer.stores.base import list_anew, move_directory


def freeze_manifests(context: JobContext, loaded: LoadedManifests) -> bool:
    """Freeze what was loaded; idempotent. False if something else is frozen now, to be loaded."""
    job, store = context.job, context.store
    if not store.capabilities.moves_directories:
        return True
    if loaded.listing.is_frozen:
        return True
    try:
        settle(lambda: move_directory(store, job.manifests, job.frozen))
    except FileNotFoundError:
        pass  # another committer, or a request without an answer, has done it
    except FileExistsError:
        context.notice(
            f"{job.manifests}: appeared after the job's manifests were frozen, so it does not count; a "
            f"task that should be dead may have made it"
        )
    return _are_same(context, loaded, job.frozen)


def copies_are_current(context: JobContext, loaded: LoadedManifests) -> bool:
    """Whether no task has saved a manifest since they were copied, where they were."""
    if context.store.capabilities.moves_directories:
        return True
    return _are_same(context, loaded, context.job.manifests)


def _are_same(context: JobContext, loaded: LoadedManifests, directory: str) -> bool:
    try:
        found = list_anew(context.store, directory)
    except FileNotFoundError as e:
        raise MissingManifestsError(
            f"{directory}: is gone; another job's clean-up may have deleted all of "
            f"{context.job.temporary}"
        ) from e
    return listing_of(context, counted_manifests(context, found)).digest == loaded.listing.digest
