"""A copy of a manifest that no task can replace, with what tells its files from any others.

Where only the store knows the version of a file, and a rename is bound to it, versions and checksums are
listed and saved before the first rename. Where a directory cannot be renamed, copies freeze the
manifests. One file does both: a line of identities, then the manifest byte for byte. The commit record
names it by its digest.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ray_committer.errors import ManifestError

SUFFIX = ".sidecar"


class FileIdentity(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Of one entry: the `version` that may be renamed, and the `etag` that a rename keeps."""

    version: str | None
    etag: str | None


def sidecar_name(manifest: str, digest: str) -> str:
    """The file name of a sidecar: never that of a manifest."""
    return f"{manifest}.{digest[:16]}{SUFFIX}"


def encode_sidecar(identities: Sequence[FileIdentity] | None, manifest: bytes) -> bytes:
    """The identities of a manifest's entries, in their order, and the manifest."""
    return msgspec.json.encode(identities) + b"\n" + manifest


def decode_sidecar(data: bytes, path: str) -> tuple[list[FileIdentity] | None, bytes]:
    """Parse a sidecar: the identities, if there are any, and the manifest's bytes."""
    line, end, manifest = data.partition(b"\n")
    try:
        identities = msgspec.json.decode(line, type=list[FileIdentity] | None)
    except (msgspec.MsgspecError, UnicodeDecodeError) as e:
        raise ManifestError(f"{path}: is no list of file identities: {e}") from e
    if not end:
        raise ManifestError(f"{path}: holds no manifest")
    return identities, manifest
