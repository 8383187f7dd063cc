"""The task manifest: the files of one task attempt, as JSON in the format of Hadoop 3.5.

Like Hadoop's reader, this one accepts unknown fields, missing statistics, numbers as text, a byte-order
mark, and anything after the object. It refuses input with which Hadoop loses data silently: a manifest
without ``files``, an entry without a size. The writer leaves out Hadoop's 18 KB of zero statistics.
Source: Hadoop ``TaskManifest``, ``FileEntry``, ``DirEntry``.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Annotated, Any

import msgspec

from ray_committer.errors import ManifestError, mark
from ray_committer.protocol.iostatistics import IOStatistics, PackedStatistics
from ray_committer.protocol.passed_over import PassedOver

MANIFEST_TYPE = "org.apache.hadoop.mapreduce.lib.output.committer.manifest.files.TaskManifest/1"
MANIFEST_VERSION = 1

Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A Java long: the sizes that Hadoop's reader accepts."""
COPY_PREFIX = "manifest-"
"""The beginning of the name of a copy that a task saves in its own directory, beside its uploads."""
MAX_PARTS = 10_000
"""The most parts that S3 accepts for one upload."""


class FileEntry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, kw_only=True):
    """One file to put in place: `d` destination URI, `z` size in bytes, `e` etag of the file there.

    A file to rename has a source URI `s`. On S3, where nothing is renamed, a file is an upload that
    waits for its completion: `u` is its id, and `p` has the etags of its parts in order. Etags have no
    quotes.

    `m` is the modification time in milliseconds since 1970. On file systems a rename keeps it, so after
    a crash it proves that the file at the destination is the one that the task wrote. Hadoop ignores it.
    """

    s: str = ""
    d: str
    z: Long
    e: str | None = None
    m: Long | None = None
    u: str | None = None
    p: tuple[str, ...] | None = None


class DirEntry(msgspec.Struct, frozen=True, gc=False):
    """One directory of the output: `d` destination URI, `t` status at task commit, `l` level."""

    d: str
    t: int = 0
    l: int = 0  # noqa: E741 - the name on the wire


class TaskManifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All files and directories that one committed task attempt wrote."""

    type: str = MANIFEST_TYPE
    version: int = MANIFEST_VERSION
    job_id: str | None = None
    job_attempt_number: int = 0
    task_id: str | None = msgspec.field(name="taskID", default=None)
    task_attempt_id: str | None = msgspec.field(name="taskAttemptID", default=None)
    task_attempt_dir: str | None = None
    files: list[FileEntry]
    directories: list[DirEntry] | None = None
    extra_data: dict[str, Any] | None = None
    iostatistics: IOStatistics | None = None


class ManifestRef(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """One manifest of a job: its file `name`, `size` in bytes and `digest`, and how many files it names.
    `task_attempt_directory` is None if it follows from the task attempt's id. `mark` stands for what a
    listing showed before it was read. `statistics` and `passed_over` are what it says of its task, if it
    may be replaced before it counts."""

    name: str
    size: int
    digest: str
    files: int
    task_attempt_id: str | None = None
    task_attempt_directory: str | None = None
    mark: int = 0
    statistics: PackedStatistics = PackedStatistics()
    passed_over: PassedOver = PassedOver()


STAMP = "ray_committer.stamp"
"""The key of the job's stamp, given by set-up, in `extra_data`; Hadoop keeps keys it does not know."""


def stamp_of(manifest: TaskManifest) -> str | None:
    """The stamp of the job that the manifest was written for; None if its writer knew none."""
    stamp = (manifest.extra_data or {}).get(STAMP)
    return stamp if isinstance(stamp, str) else None


_DECODER = msgspec.json.Decoder(TaskManifest, strict=False)


def encode_manifest(manifest: TaskManifest) -> bytes:
    """Return the manifest as UTF-8 JSON."""
    return msgspec.json.encode(manifest)


def digest(data: bytes) -> str:
    """The SHA-256 of a manifest's bytes, in hex."""
    return sha256(data).hexdigest()


def copy_name(digest: str) -> str:
    """The file name of a task's own copy of the manifest with this digest."""
    return f"{COPY_PREFIX}{digest[:16]}"


def decode_manifest(data: bytes, path: str) -> TaskManifest:
    """Parse and check one manifest; `ManifestError` names `path`."""
    if not data:
        raise ManifestError(f"{mark(path)}: is empty, not a task manifest", "run the task again")
    try:
        # Hadoop's reader accepts a byte-order mark, msgspec does not.
        manifest = _DECODER.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except msgspec.ValidationError as e:
        raise ManifestError(f"{mark(path)}: is not a task manifest that can be committed: {e}") from e
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        # Slow, so only after the fast parser has refused: Hadoop's parser stops at the end of the
        # object.
        manifest = _decode_leading_object(data, path, e)
    _check(manifest, path)
    return manifest


def _decode_leading_object(data: bytes, path: str, cause: Exception) -> TaskManifest:
    """Accept text after the object, as Hadoop's parser does; a truncated object is still an error."""
    try:
        text = data.decode("utf-8-sig").lstrip()
        _, end = json.JSONDecoder().raw_decode(text)
        return _DECODER.decode(text[:end])
    except (ValueError, RecursionError):
        raise ManifestError(
            f"{mark(path)}: is truncated or not JSON ({cause})", "run the task again"
        ) from cause


def _check(manifest: TaskManifest, path: str) -> None:
    if manifest.type != MANIFEST_TYPE:
        raise ManifestError(f"{mark(path)}: is not a task manifest but {manifest.type!r}", "remove it")
    if manifest.version != MANIFEST_VERSION:
        raise ManifestError(
            f"{mark(path)}: has manifest version {manifest.version}, but only {MANIFEST_VERSION} is "
            "supported"
        )
    for entry in manifest.files:
        if not entry.d or not (entry.s or entry.u):
            raise ManifestError(
                f"{mark(path)}: has a file entry without a source or destination: `d`, and `s` or `u`"
            )
        if entry.z < 0:
            raise ManifestError(f"{mark(path)}: {entry.d} has the negative size {entry.z}")
        if entry.u is not None or entry.p is not None:
            _check_upload(entry, path)


def _check_upload(entry: FileEntry, path: str) -> None:
    if entry.s:
        raise ManifestError(
            f"{mark(path)}: {entry.d} is both a file to rename and an upload to complete"
        )
    if not entry.u or not entry.p or not all(entry.p):
        raise ManifestError(
            f"{mark(path)}: {entry.d} has an upload without an id, or without the etag of a part",
            "run the task again",
        )
    if len(entry.p) > MAX_PARTS:
        raise ManifestError(
            f"{mark(path)}: {entry.d} has {len(entry.p)} parts, but an upload has at most {MAX_PARTS}",
            "write it in larger parts",
        )
