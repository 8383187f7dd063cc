"""Read a ``_SUCCESS``, summary report, task manifest or commit record, ours or Hadoop's, from any store.

The content of a file decides what it is, not the name: Hadoop's summary reports and ``_SUCCESS`` have
the same format, and people copy them under other names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from ray_committer.errors import JobNotFoundError, ManifestError, mark
from ray_committer.jobs.open_job import StorageOptions, open_here
from ray_committer.options import CommitOptions
from ray_committer.protocol.manifest import TaskManifest, decode_manifest
from ray_committer.protocol.paths import MANIFEST_SUFFIX, SUCCESS, join
from ray_committer.protocol.record import CommitRecord, decode_record
from ray_committer.protocol.success import SuccessData, decode_success
from ray_committer.stores.registry import shown_url


class DocumentKind(StrEnum):
    """The kind of a job's file."""

    SUCCESS = "success"
    """A ``_SUCCESS``, or a summary report, which has the same format."""
    EMPTY_SUCCESS = "empty success"
    """A ``_SUCCESS`` of a classic committer: it only shows that some job has ended."""
    MANIFEST = "manifest"
    """The files of one task."""
    RECORD = "record"
    """The commit record of a job."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file of a job: its path, its kind and its content; the fields of other kinds are None.

    `path` is a URL, or a local path. `raw` is the JSON as it is in the file.
    """

    path: str
    kind: DocumentKind
    raw: bytes
    success: SuccessData | None = None
    manifest: TaskManifest | None = None
    record: CommitRecord | None = None

    def content(self) -> Any:
        """The JSON as Python values; None for an empty ``_SUCCESS``."""
        return msgspec.json.decode(self.raw) if self.raw.strip() else None


def read_document(
    path: str, *, options: CommitOptions = CommitOptions(), storage_options: StorageOptions | None = None
) -> Document:
    """Read the file at `path`, or the ``_SUCCESS`` of a directory.

    `ManifestError` if it is not a file that a commit writes or reads.
    """
    with open_here(path, options, storage_options) as (store, location):
        status = store.get_status(location)
        if status is not None and status.is_directory:
            location = join(location, SUCCESS)
        url = shown_url(store.spec, location)
        try:
            data = store.read(location)
        except FileNotFoundError as e:
            directory, _, name = url.rpartition("/")
            if name != SUCCESS:
                raise JobNotFoundError(f"{mark(url)}: does not exist", "check its spelling") from e
            raise JobNotFoundError(
                f"{mark(url)}: does not exist, so no job has ended there, or the job wrote none",
                f"check with: ray-committer status {mark(directory)}",
            ) from e
        return decode_document(data, url)


def decode_document(data: bytes, path: str) -> Document:
    """Find out from the content what the file at `path` is, and parse it."""
    if not data.strip():
        if path.rpartition("/")[2] == SUCCESS:
            return Document(path, DocumentKind.EMPTY_SUCCESS, data)
        raise ManifestError(f"{mark(path)}: is empty, but no file of a job is", "find out what wrote it")
    fields = _fields(data)
    if path.endswith(MANIFEST_SUFFIX) or "type" in fields:
        return Document(path, DocumentKind.MANIFEST, data, manifest=decode_manifest(data, path))
    if "nonce" in fields:
        return Document(path, DocumentKind.RECORD, data, record=decode_record(data, path))
    return Document(path, DocumentKind.SUCCESS, data, success=decode_success(data, path))


def _fields(data: bytes) -> set[str]:
    """The names of a JSON object's fields; empty if the data is not a JSON object."""
    try:
        return set(msgspec.json.decode(data, type=dict[str, msgspec.Raw]))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return set()
