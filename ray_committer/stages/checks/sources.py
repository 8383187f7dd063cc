"""Check, before the record, the files of all tasks at once: none can be missing or changed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ray_committer.errors import CommitStateUnknownError, ManifestError, mark, some_of
from ray_committer.protocol.pack import Pack
from ray_committer.protocol.paths import JobAttempt
from ray_committer.stages.context import JobContext
from ray_committer.stages.load_manifests import LoadedManifests
from ray_committer.stores.base import FileStatus
from ray_committer.work.batches import batches
from ray_committer.work.sources import WrongSources, compare, directories_to_list, list_directory
from ray_committer.work.worker import Worker


def sources_error(job: JobAttempt, wrong: Sequence[WrongSources]) -> ManifestError:
    """The error that names wrong sources of some tasks."""
    files = sum(each.files for each in wrong)
    named = some_of(sorted(name for each in wrong for name in each.named), files)
    return ManifestError(
        f"{mark(job.manifests)}: names {files} files that are missing or changed",
        f"abort the job and run it again: {named}",
    )


def check_sources_at_once(context: JobContext, loaded: LoadedManifests) -> tuple[WrongSources, ...]:
    """`check_sources` for a few manifests that were loaded before, each directory listed once."""
    executor = context.executor
    directories = {path for paths in executor.run(_directories, loaded.packs) for path in paths}
    if not directories:
        return ()
    listed: dict[str, list[FileStatus]] = {}
    for listings in executor.run(_list, batches(executor, sorted(directories))):
        listed |= listings
    if len(listed) < len(directories):
        raise CommitStateUnknownError(
            f"{mark(context.job.tasks)}: {len(listed)} of {len(directories)} directories were listed",
            "nothing was changed: run the same command again",
        )
    compared = executor.run(partial(_compare, listed=list(listed.values())), loaded.packs)
    return tuple(wrong for wrong in compared if wrong is not None)


def _directories(worker: Worker, pack: Pack) -> set[str]:
    return directories_to_list(worker.store, worker.packs.entries(pack))


def _list(worker: Worker, directories: tuple[str, ...]) -> dict[str, list[FileStatus]]:
    return dict(
        worker.map(lambda path: (path, list_directory(worker.store, path, anew=True)), directories)
    )


def _compare(worker: Worker, pack: Pack, *, listed: Sequence[list[FileStatus]]) -> WrongSources | None:
    return compare(list(worker.packs.entries(pack)), listed)
