"""Versions and checksums of a task attempt's files, listed once and saved before the first rename.

On a file system the modification time in the manifest is enough; a store with versions refuses to
rename a source that was rewritten, if it is told which version is meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from ray_committer.errors import ManifestError
from ray_committer.protocol.identities import (
    FileIdentity,
    decode_identities,
    encode_identities,
    identities_name,
)
from ray_committer.protocol.manifest import TaskManifest, digest
from ray_committer.protocol.paths import join
from ray_committer.protocol.record import ManifestRef
from ray_committer.stages.entries import Entry, entries
from ray_committer.stages.worker import Worker
from ray_committer.stores.base import Versions

_NOTHING: Mapping[str, bytes] = MappingProxyType({})


def save_identities(
    worker: Worker,
    name: str,
    manifest: TaskManifest,
    loaded: Sequence[Entry],
    directory: str,
    *,
    changes_nothing: bool = False,
) -> str | None:
    """List the files of a manifest in `directory` and save what they are; returns the digest.

    None if the manifest says enough, or if this is only a look that `changes_nothing`. `ManifestError`
    if a file is not there or has another size.
    """
    versions = worker.store.capabilities.versions
    is_said = versions is Versions.ETAG and all(file.e for file in manifest.files)
    if versions is Versions.NONE or is_said or not loaded:
        return None
    found = {status.path: status for status in worker.store.list_files(directory)}
    identities = []
    for entry in loaded:
        status = found.get(entry.source)
        if status is None or status.size != entry.expected.size:
            what = "is not there" if status is None else f"has {status.size} bytes"
            raise ManifestError(
                f"{join(worker.job.manifests, name)}: {entry.source} {what}, the manifest says "
                f"{entry.expected.size} bytes; run the task again"
            )
        identities.append(FileIdentity(status.version, status.etag))
    if changes_nothing:
        return None
    data = encode_identities(identities)
    worker.store.write(join(worker.job.manifests, identities_name(name, digest(data))), data)
    return worker.keep(data)


def recorded_entries(
    worker: Worker,
    ref: ManifestRef,
    low: int = 0,
    high: int | None = None,
    packed: Mapping[str, bytes] = _NOTHING,
) -> Iterator[Entry]:
    """The entries `low` to `high` of a manifest that the record names, with their identities.

    `packed` may hold the manifest by its digest. `ManifestChangedError` if it, or what was saved of its
    files, is another now.
    """
    manifest = worker.recorded_manifest(ref, packed)
    spec = worker.store.spec
    if ref.identities is None:
        etag_is_version = worker.store.capabilities.versions is Versions.ETAG
        return entries(manifest, spec, low, high, etag_is_version=etag_is_version)
    path = join(worker.job.manifests, identities_name(ref.name, ref.identities))
    data = worker.recorded_file(path, ref.identities)
    identities = decode_identities(data, path, files=len(manifest.files))
    return entries(manifest, spec, low, high, identities=identities)
