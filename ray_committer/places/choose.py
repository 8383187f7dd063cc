"""Choose the policies of a store: the one module that asks which kind a store is."""

from __future__ import annotations

from collections.abc import Iterable

from ray_committer.places.base import Places, Uploads
from ray_committer.places.directories import MovedDirectories
from ray_committer.places.old_files import (
    FilesAside,
    OldFiles,
    PlainFiles,
    UnmovableFiles,
    VersionedFiles,
)
from ray_committer.places.output import Output, UploadedOutput
from ray_committer.places.own_files import OwnFiles, WrittenFiles
from ray_committer.stores.base import StoreOperations, Versions


def places_of(store: StoreOperations) -> Places:
    """The places of jobs on a store."""
    if store.has(StoreOperations.move_directory):
        return MovedDirectories(store)
    return Uploads(store) if store.has(StoreOperations.publish) else Places(store)


def output_of(store: StoreOperations) -> Output:
    """The output of tasks on a store."""
    return (UploadedOutput if store.has(StoreOperations.publish) else Output)(store)


def needed(store: StoreOperations, directories: Iterable[str]) -> tuple[str, ...]:
    """The directories that must be there before a file: all, or none if paths are only names."""
    return tuple(directories) if store.capabilities.has_directories else ()


def old_files_of(store: StoreOperations) -> OldFiles:
    """How old files go on a store."""
    if store.has(StoreOperations.publish):
        return UnmovableFiles(store)
    if store.capabilities.versions is not Versions.NONE:
        return VersionedFiles(store)
    return FilesAside(store) if store.has(StoreOperations.set_aside) else PlainFiles(store)


def own_files_of(store: StoreOperations) -> OwnFiles:
    """How a job's own files come to their names on a store."""
    return (WrittenFiles if store.has(StoreOperations.publish) else OwnFiles)(store)
