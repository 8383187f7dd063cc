"""Freeze the manifests before anything is decided, so that no task adds or replaces one afterwards.

Their directory is renamed. Where directories cannot be renamed, only the packs count, and a listing
after the declaration, which tasks look for, shows whether these are still current.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ray_committer.errors import MissingManifestsError, PreflightError, mark, some_of
from ray_committer.job_files.job_tree import JobTree
from ray_committer.protocol.paths import join
from ray_committer.stages.context import JobContext
from ray_committer.stages.list_manifests import (
    MANY_MANIFESTS,
    Listing,
    counted_manifests,
    counted_names,
    listing_of,
    replaced_manifest,
)
from ray_committer.stages.load_manifests import LoadedManifests
from ray_committer.stores.base import FileStatus
from ray_committer.work.worker import Worker


def freeze_manifests(context: JobContext, loaded: LoadedManifests) -> None:
    """Freeze the loaded manifests; idempotent. `are_current` then says whether these are frozen."""
    job = context.job
    if context.places.frozen(job) is None or loaded.listing.is_frozen:
        return
    if not context.places.freeze(job):
        context.notice(
            f"{mark(job.manifests)}: appeared after the job's manifests were frozen, so it does not "
            "count; a task that was taken for dead may have made it"
        )


def are_current(context: JobContext, loaded: LoadedManifests, tree: JobTree | None = None) -> bool:
    """Whether the loaded manifests are what counts, now that they are frozen; or, where they are not,
    whether no task has saved one since packs were made: the `tree` of the job's files shows that, if it
    was listed already, or else the driver, because other steps use the workers meanwhile."""
    frozen = context.places.frozen(context.job)
    if frozen is not None:
        # Listed after the rename: what a task saved since the load is frozen, and counts (D4).
        return loaded.listing.is_frozen or _are_same(context, loaded, frozen)
    statuses = tree.manifests(context.job) if tree is not None else ()
    look = partial(_listing, names=counted_names(context), is_named=loaded.listing.is_named)
    listed = look(context, context.job.manifests, statuses)
    return _is_as_loaded(context, loaded, context.job.manifests, listed)


def are_as_loaded(context: JobContext, loaded: LoadedManifests) -> bool:
    """Whether no manifest has changed since the load, which compares those that the driver has named."""
    job = context.job
    if loaded.listing.is_named:
        return True
    try:
        return _are_same(context, loaded, job.frozen if loaded.listing.is_frozen else job.manifests)
    except MissingManifestsError:
        return False


def _are_same(context: JobContext, loaded: LoadedManifests, directory: str) -> bool:
    """Whether the manifests that are listed now are those that were loaded. A worker makes a long
    listing, if it sees the same as the driver, which has the loaded ones and so need not hold it."""
    look = partial(_listing, names=counted_names(context), is_named=loaded.listing.is_named)
    is_long = len(loaded.manifests) >= MANY_MANIFESTS
    if is_long and context.executor.starts_workers and context.places.are_listed_alike:
        (listing,) = context.executor.run(look, [directory])
    else:
        listing = look(context, directory)
    return _is_as_loaded(context, loaded, directory, listing)


def _is_as_loaded(
    context: JobContext, loaded: LoadedManifests, directory: str, listing: Listing | None
) -> bool:
    if listing is None:
        raise MissingManifestsError(
            f"{mark(directory)}: is gone, perhaps because another job's clean-up deleted all of "
            f"{mark(context.job.temporary)}"
        )
    is_same = listing.digest == loaded.listing.digest
    if not is_same and loaded.listing.is_named:
        _refuse_others(context, loaded, directory)
    return is_same


def _refuse_others(context: JobContext, loaded: LoadedManifests, directory: str) -> None:
    """Name manifests that are missing, too many or replaced, by those that the driver has named."""
    counted = counted_manifests(context.store.list_anew(directory), counted_names(context))
    listed = {status.name: status.size for status in counted}
    named = {ref.name: ref.size for ref in loaded.manifests}
    if missing := sorted(named.keys() - listed.keys()):
        raise MissingManifestsError(
            f"{mark(directory)}: {len(named)} tasks committed but {len(missing)} of their manifests are "
            f"gone ({some_of(missing)})"
        )
    if more := sorted(listed.keys() - named.keys()):
        raise PreflightError(
            f"{mark(join(directory, more[0]))}: belongs to none of the {len(named)} tasks that "
            "committed, as the driver knows them",
            "run the job again",
        )
    if changed := sorted(name for name, size in named.items() if listed[name] != size):
        raise replaced_manifest(join(directory, changed[0]))


def _listing(
    where: JobContext | Worker,
    directory: str,
    statuses: Sequence[FileStatus] = (),
    *,
    names: frozenset[str] | None,
    is_named: bool,
) -> Listing | None:
    """What is in `directory` now, here or as work, unless the `statuses` show it; None if it is gone."""
    try:
        statuses = statuses or where.store.list_anew(directory)
    except FileNotFoundError:
        return None
    return listing_of(where.job, counted_manifests(statuses, names), is_named=is_named)
