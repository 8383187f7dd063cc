"""The commit record: the decision, saved before the first visible change, of what the job *is*.

From then on only the manifests that it names are committed, byte for byte; whoever runs the commit
again finishes this record. The commit point is the same file under another name, reached by one
atomic rename, so a job is at every moment exactly one of: undecided, recorded, committed.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from ray_committer.errors import ManifestError

RECORD_VERSION = 1


class ConflictMode(StrEnum):
    """What becomes of data that is already at the destination."""

    APPEND = "append"
    ERROR = "error"
    OVERWRITE = "overwrite"


class ManifestRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """One manifest of the job: its file `name`, `size` in bytes and `digest`, and what it holds.

    `task_attempt_directory` is None if it is the one that the task attempt's id tells; `identities` is
    the digest of its sidecar, if the store needs one.
    """

    name: str
    size: int
    digest: str
    files: int
    bytes: int
    task_attempt_id: str | None = None
    task_attempt_directory: str | None = None
    identities: str | None = None


class ReplacedFile(msgspec.Struct, frozen=True):
    """An old file that the job replaces, with what tells it from a newer one of the same name."""

    path: str
    size: int
    modified_milliseconds: int | None = None
    etag: str | None = None


class CommitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``_COMMIT.json``; all paths are decoded paths of the destination's store."""

    version: int = RECORD_VERSION
    nonce: str
    job_id: str
    job_attempt: int
    created_milliseconds: int
    manifests: list[ManifestRef]
    expected_tasks: int | None = None
    mode: ConflictMode = ConflictMode.APPEND
    replaced: list[ReplacedFile] = []
    overwritten: list[ReplacedFile] = []
    partition_paths: list[str] = []
    allowed_roots: list[str] = []
    mark_success: bool = True
    durable: bool = False
    aborted: bool = False
    """The decision was to abort: nothing of the job may ever be committed."""

    @property
    def files(self) -> int:
        return sum(manifest.files for manifest in self.manifests)

    @property
    def bytes(self) -> int:
        return sum(manifest.bytes for manifest in self.manifests)


def encode_record(record: CommitRecord) -> bytes:
    """Return the record as JSON; on one line, since it may name 100,000 manifests."""
    return msgspec.json.encode(record)


def decode_record(data: bytes, path: str) -> CommitRecord:
    """Parse a commit record; `ManifestError` if this version cannot have written it."""
    try:
        record = msgspec.json.decode(data, type=CommitRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
        raise ManifestError(
            f"{path}: is no commit record that this version reads: {e}; nothing was changed"
        ) from e
    if record.version != RECORD_VERSION:
        raise ManifestError(
            f"{path}: is a commit record of version {record.version}; "
            f"finish it with the release of ray-committer that wrote it"
        )
    return record
