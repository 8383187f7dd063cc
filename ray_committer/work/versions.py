"""Add to the entries of a task what only the store knows of its files: versions and checksums.

A rename that is bound to a version refuses a file that was written again. Such a version is not in the
manifest, so it is listed before the record, and the packs keep it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from ray_committer.protocol.actions import CompleteUpload, Rename
from ray_committer.protocol.pack import Entry
from ray_committer.protocol.paths import is_inside
from ray_committer.protocol.recovery import Expectation
from ray_committer.stores.base import FileStatus, StoreOperations, Versions
from ray_committer.work.load_manifest import LoadedManifest
from ray_committer.work.sources import WrongSources, has_another_size, wrong_sources
from ray_committer.work.worker import Worker


def add_versions(worker: Worker, loaded: LoadedManifest) -> LoadedManifest | WrongSources:
    """The manifest with the versions of its files, where renames are bound to them. Its files
    are listed if it does not say them: `WrongSources` if one is missing or has another size."""
    if has_versions(worker.store, loaded.entries):
        return loaded
    # One listing of the attempt, which also has the versions: a request for each file would cost as much
    # as the renames. Staged files have those of all other tasks beside them.
    listed = {status.path: status for status in worker.store.list_files(loaded.attempt)}
    staged = partial(_staged, worker, loaded.attempt)
    pairs = [(entry, listed.get(entry.source) or staged(entry)) for entry in loaded.entries]
    wrong = wrong_sources([(entry, has_another_size(entry, status)) for entry, status in pairs])
    return wrong or replace(loaded, entries=[_bound(entry, status) for entry, status in pairs])


def has_versions(store: StoreOperations, entries: Iterable[Entry]) -> bool:
    """Whether entries say all that the store must know to rename their files."""
    return store.capabilities.versions is Versions.NONE or all(map(_is_bound, entries))


def _staged(worker: Worker, attempt: str, entry: Entry) -> FileStatus | None:
    return None if is_inside(entry.source, attempt) else worker.store.get_status(entry.source)


def _is_bound(entry: Entry) -> bool:
    return isinstance(entry, CompleteUpload) or bool(entry.version)


def _bound(entry: Entry, status: FileStatus | None) -> Entry:
    if isinstance(entry, CompleteUpload) or status is None:
        return entry
    expected = Expectation(entry.expected.size, status.etag)
    return Rename(entry.source, entry.dest, expected, status.version)
