"""What tells the files of a manifest from any others, where only the store knows: a sidecar a manifest.

A rename on such a store is bound to a version that no writer can foresee, and after it nothing at the
old place tells what was there. So versions and checksums are listed and saved before the first rename;
the commit record names what was saved by its digest.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ray_committer.errors import ManifestError

SUFFIX = ".identities"


class FileIdentity(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Of one entry: the `version` that may be renamed, and the `etag` that a rename keeps."""

    version: str | None
    etag: str | None


def identities_name(manifest: str, digest: str) -> str:
    """The file name of a sidecar, beside its manifest: never that of a manifest."""
    return f"{manifest}.{digest[:16]}{SUFFIX}"


def encode_identities(identities: Sequence[FileIdentity]) -> bytes:
    """The identities of a manifest's entries, in their order."""
    return msgspec.json.encode(identities)


def decode_identities(data: bytes, path: str, *, files: int) -> list[FileIdentity]:
    """Parse a sidecar; `ManifestError` if it is not one of `files` entries."""
    try:
        identities = msgspec.json.decode(data, type=list[FileIdentity])
    except (msgspec.MsgspecError, UnicodeDecodeError) as e:
        raise ManifestError(f"{path}: is no list of file identities: {e}") from e
    if len(identities) != files:
        raise ManifestError(f"{path}: tells of {len(identities)} files, its manifest names {files}")
    return identities
