"""Copies of manifests with the versions and checksums of their files, saved before the first rename.

A store with versions then refuses to rename a source that was written again. A store without directories
needs copies to freeze manifests, and so does a network file system: a machine that has cached the
directory can save a manifest there after it was renamed. Elsewhere neither is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from ray_committer.protocol.manifest import TaskManifest, stamp_of
from ray_committer.protocol.paths import is_inside, join
from ray_committer.protocol.record import ManifestRef
from ray_committer.protocol.sidecar import FileIdentity, encode_sidecar, sidecar_name
from ray_committer.stores.base import FileStatus, StoreOperations, Versions
from ray_committer.work.entries import Entry, entries
from ray_committer.work.sources import WrongSources, has_another_size, wrong_sources
from ray_committer.work.worker import Worker

_NOTHING: Mapping[str, bytes] = MappingProxyType({})


def new_sidecar(
    worker: Worker, path: str, data: bytes, manifest: TaskManifest, loaded: Sequence[Entry], attempt: str
) -> bytes | WrongSources | None:
    """The sidecar of the manifest at `path`; None if it needs none. The files in `attempt` are listed if
    it lacks versions or checksums: `WrongSources` if one is missing or has another size."""
    capabilities = worker.store.capabilities
    is_said = capabilities.versions is Versions.ETAG and all(file.e or file.u for file in manifest.files)
    identities = None
    if capabilities.versions is not Versions.NONE and loaded and not is_said:
        looked_up = _identities(worker, path, loaded, attempt)
        if isinstance(looked_up, WrongSources):
            return looked_up
        identities = looked_up
    if identities is None and (
        _has_copy(worker.store, manifest) or not freezes_copies(worker.store, path)
    ):
        return None
    return encode_sidecar(identities, data)


def _has_copy(store: StoreOperations, manifest: TaskManifest) -> bool:
    """Whether the task has saved a copy that no other attempt replaces, before it saved `manifest`: on a
    store that completes uploads, each task of a job that was set up here does."""
    return store.has(StoreOperations.publish) and stamp_of(manifest) is not None


def freezes_copies(store: StoreOperations, path: str) -> bool:
    """Whether only a copy of the manifest at `path` is safe from replacement by a task."""
    return not store.has(StoreOperations.move_directory) or store.network_file_system(path) is not None


def save_sidecar(worker: Worker, directory: str, name: str, sidecar: bytes) -> str:
    """Save the sidecar of the manifest `name` in `directory`; returns its digest."""
    sidecar_digest = worker.keep(sidecar)
    worker.store.write(join(directory, sidecar_name(name, sidecar_digest)), sidecar)
    return sidecar_digest


def recorded_entries(
    worker: Worker,
    ref: ManifestRef,
    low: int = 0,
    high: int | None = None,
    packed: Mapping[str, bytes] = _NOTHING,
) -> Iterator[Entry]:
    """The entries `low` to `high` of a manifest that the record names, with their identities. `packed`
    as `Worker.recorded`, and errors."""
    recorded = worker.recorded(ref, packed)
    etag_is_version = worker.store.capabilities.versions is Versions.ETAG
    return entries(
        recorded.manifest,
        worker.store.spec,
        low,
        high,
        identities=recorded.identities,
        etag_is_version=etag_is_version,
    )


def _identities(
    worker: Worker, path: str, loaded: Sequence[Entry], attempt: str
) -> list[FileIdentity] | WrongSources:
    # One listing of the attempt, which also has the versions: a request for each file would cost as much
    # as the renames. Staged files have those of all other tasks beside them.
    listed = {status.path: status for status in worker.store.list_files(attempt)}
    pairs = [(entry, listed.get(entry.source) or _staged(worker, entry, attempt)) for entry in loaded]
    wrong = wrong_sources(path, [(entry, has_another_size(entry, status)) for entry, status in pairs])
    return wrong or [
        FileIdentity(status.version, status.etag) for _, status in pairs if status is not None
    ]


def _staged(worker: Worker, entry: Entry, attempt: str) -> FileStatus | None:
    return None if is_inside(entry.source, attempt) else worker.store.get_status(entry.source)
