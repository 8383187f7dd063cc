"""A copy of a manifest that no task can replace, with the identities of its files.

If only the store knows the version of a file, and a rename is bound to a version, then versions and
checksums are listed and saved before the first rename. If a directory cannot be renamed, copies freeze
the manifests. One file does both: a line of identities, then the manifest byte for byte. The commit
record names it by its digest.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ray_committer.errors import ManifestError, mark

SUFFIX = ".sidecar"
COPY_PREFIX = "manifest-"
"""The beginning of the name of a copy that a task saves in its own directory."""


class FileIdentity(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """For one entry: the only `version` to rename, and the `etag` that a rename keeps."""

    version: str | None
    etag: str | None


def sidecar_name(manifest: str, digest: str) -> str:
    """The file name of a sidecar, which is never the name of a manifest."""
    # With the digest in the name, a late task that saves another manifest makes another file and
    # replaces none.
    return f"{manifest}.{digest[:16]}{SUFFIX}"


def copy_name(digest: str) -> str:
    """The file name of a task's own copy of the manifest with this digest."""
    return f"{COPY_PREFIX}{digest[:16]}"


_IDENTITIES = msgspec.json.Decoder(list[FileIdentity] | None)


def encode_sidecar(identities: Sequence[FileIdentity] | None, manifest: bytes) -> bytes:
    """Return the identities of a manifest's entries, in their order, followed by the manifest."""
    return msgspec.json.encode(identities) + b"\n" + manifest


def decode_sidecar(data: bytes, path: str) -> tuple[list[FileIdentity] | None, bytes]:
    """Parse a sidecar: the identities, if there are any, and the manifest's bytes."""
    line, end, manifest = data.partition(b"\n")
    try:
        identities = _IDENTITIES.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as e:
        raise ManifestError(f"{mark(path)}: is not a list of file identities: {e}") from e
    if not end:
        raise ManifestError(f"{mark(path)}: contains no manifest")
    return identities, manifest
