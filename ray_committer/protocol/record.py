"""The commit record: the decision that defines the job, saved before the first visible change.

From then on only the files in the packs that it names are committed. Each later run of the commit
finishes this record. A declaration precedes it: it shows other jobs what this job wants to write, so
that they can see whether they are in each other's way.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeVar

import msgspec

from ray_committer.errors import ManifestError, mark
from ray_committer.protocol.iostatistics import IOStatistics
from ray_committer.protocol.pack import PackRef
from ray_committer.protocol.passed_over import PassedOver
from ray_committer.protocol.paths import is_within
from ray_committer.protocol.state import UNSTAMPED

RECORD_VERSION = 1

_Document = TypeVar("_Document", bound=msgspec.Struct)
_Versioned = TypeVar("_Versioned", "CommitRecord", "Declaration")


class ConflictMode(StrEnum):
    """What to do with existing data: in the whole destination or, with `_PARTITIONS`, only in those that
    the job writes to, which are the directories that its files are in."""

    APPEND = "append"
    """It stays; a file with the name of a new one is a conflict."""
    ERROR = "error"
    """If the destination holds data, the job is refused."""
    ERROR_PARTITIONS = "error_partitions"
    """If a partition that the job writes to holds data, the job is refused."""
    OVERWRITE = "overwrite"
    """It is removed after all new files are in place."""
    OVERWRITE_PARTITIONS = "overwrite_partitions"
    """The same, in the partitions that the job writes to."""

    @property
    def is_of_partitions(self) -> bool:
        """Whether only the partitions that the job writes to count."""
        return self in (ConflictMode.ERROR_PARTITIONS, ConflictMode.OVERWRITE_PARTITIONS)

    @property
    def replaces(self) -> bool:
        """Whether old data gives way to the job."""
        return self in (ConflictMode.OVERWRITE, ConflictMode.OVERWRITE_PARTITIONS)


class ReplacedFile(msgspec.Struct, frozen=True):
    """An old file that the job replaces, with the facts that distinguish it from a newer one there."""

    path: str
    size: int
    modified_milliseconds: int | None = None
    etag: str | None = None
    version: str | None = None


class Owner(msgspec.Struct, frozen=True):
    """The process that runs a commit: its host, the `boot` of that host and the namespace of its
    processes, its number and its start; `run` is one of its runs."""

    host: str
    boot: str
    process: int
    started: int
    run: str


NOBODY = Owner("", "", 0, 0, "")
"""The owner of work that no process continues, such as the import of the files of a table."""


class Claim(msgspec.Struct, frozen=True):
    """The directories that a job writes; no other job can write to `excludes` at the same time."""

    writes: list[str]
    excludes: list[str] = []

    def hinders(self, other: Claim) -> bool:
        """Whether the two jobs must not be committed at the same time."""
        # What one excludes against what the other writes, both ways: two jobs that exclude nothing never
        # hinder each other.
        return _overlap(self.excludes, other.writes) or _overlap(other.excludes, self.writes)

    def meets(self, roots: Sequence[str]) -> bool:
        """Whether the job writes to one of `roots`, or to a directory above or below one."""
        return _overlap(self.writes, roots)

    def is_within(self, roots: Sequence[str]) -> bool:
        """Whether the job writes only to `roots` and below them; False without roots."""
        known = set(roots)
        return bool(roots) and all(is_within(path, known) for path in self.writes)

    def keeps_out_of(self, path: str) -> bool:
        """Whether no other job can write anywhere below `path` at the same time."""
        return is_within(path, set(self.excludes))


class ClaimedTable(msgspec.Struct, frozen=True):
    """The table with a log that a job writes to, and the version of the job's claim there.

    quiet, named: as in the claim.
    keeps: whether the job keeps the old files that it replaces.
    end: the end of a file of the log, up to which no entry decides the claim; 0 if none is known.
    """

    table_id: str
    version: int
    quiet: int = 0
    named: int = 0
    keeps: bool = False
    end: int = 0


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """The file of a declared state; all paths are decoded paths of the destination's store."""

    version: int = RECORD_VERSION
    nonce: str
    job_id: str
    job_attempt: int
    created_milliseconds: int
    owner: Owner
    claim: Claim
    run_id: str | None = None
    is_undoable: bool = False
    """Of a record: whether the job can be undone while it is sealed."""


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A sign of life of the committer: the files that it has moved, and how many per second lately."""

    owner: Owner
    at_milliseconds: int
    files: int = 0
    per_second: float | None = None


class CommitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The file of a recorded state; all paths are decoded paths of the destination's store."""

    version: int = RECORD_VERSION
    nonce: str
    stamp: str = UNSTAMPED
    job_id: str
    job_attempt: int
    created_milliseconds: int
    owner: Owner
    claim: Claim
    packs: list[PackRef]
    tasks: int
    digests: list[str] = []
    """The digests of the manifests that count, where a task can still replace one; sorted."""
    statistics: IOStatistics = IOStatistics()
    passed_over: PassedOver = PassedOver()
    """What the tasks say of themselves in their manifests."""
    expected_tasks: int | None = None
    mode: ConflictMode = ConflictMode.APPEND
    replaced: list[ReplacedFile] = []
    overwritten: list[ReplacedFile] = []
    emptied: list[str] = []
    """The old directories into which the job writes nothing; they are removed if they are empty then."""
    success: ReplacedFile | None = None
    """The ``_SUCCESS`` of an earlier job, which this job replaces by its own."""
    partition_paths: list[str] = []
    allowed_roots: list[str] = []
    mark_success: bool = True
    durable: bool = False
    table: ClaimedTable | None = None
    run_id: str | None = None
    """What the job does once in its table: see `CommitOptions`."""
    is_undoable: bool = False
    """Whether the job can be undone while it is sealed: each old file is put aside, none is deleted or
    replaced where it is, and no log of a table says that the job is committed."""

    @property
    def old_files(self) -> tuple[ReplacedFile, ...]:
        """All old files that give way to the job, but for ``_SUCCESS``."""
        return (*self.replaced, *self.overwritten)

    @property
    def replaces(self) -> bool:
        """Whether old data goes."""
        return bool(self.replaced or self.overwritten or self.emptied)

    @property
    def is_sealed(self) -> bool:
        """Whether the job is sealed before it is committed: since old data goes, or since the log of a
        table says that it is committed, after which it must not be undone."""
        return self.replaces or self.table is not None

    @property
    def keeps(self) -> bool:
        """Whether old files are kept in the directory of the table's log, instead of deleted."""
        return self.table is not None and self.table.keeps

    @property
    def files(self) -> int:
        return sum(pack.files for pack in self.packs)

    @property
    def bytes(self) -> int:
        return sum(pack.bytes for pack in self.packs)


def encode(document: CommitRecord | Declaration | Heartbeat) -> bytes:
    """Return the document as JSON on one line, since a record can name a million old files."""
    return msgspec.json.encode(document)


def decode_record(data: bytes, path: str) -> CommitRecord:
    """Parse a commit record; `ManifestError` if this version cannot have written it."""
    return _decode(data, _RECORD, path)


def decode_claim(data: bytes, path: str) -> Declaration:
    """Parse a declaration, or the part of a commit record that has the same fields."""
    return _decode(data, _DECLARATION, path)


def decode_heartbeat(data: bytes, path: str) -> Heartbeat:
    """Parse a heartbeat."""
    return _parse(data, _HEARTBEAT, path)


def _decode(data: bytes, decoder: msgspec.json.Decoder[_Versioned], path: str) -> _Versioned:
    document = _parse(data, decoder, path)
    if document.version != RECORD_VERSION:
        raise ManifestError(
            f"{mark(path)}: is a commit record of version {document.version}",
            "finish the commit with the release of ray-committer that wrote it",
        )
    return document


def _parse(data: bytes, decoder: msgspec.json.Decoder[_Document], path: str) -> _Document:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
        raise ManifestError(
            f"{mark(path)}: is not a commit record that this version can read: {e}",
            "this run changed nothing: "
            "restore the file from soft delete or a snapshot, and run the same command",
        ) from e


def _overlap(some: Sequence[str], roots: Sequence[str]) -> bool:
    """Whether a directory of one list equals, contains or is inside a directory of the other."""
    return _any_within(some, roots) or _any_within(roots, some)


def _any_within(paths: Sequence[str], roots: Sequence[str]) -> bool:
    known = set(roots)
    return any(is_within(path, known) for path in paths)


_RECORD = msgspec.json.Decoder(CommitRecord)
_DECLARATION = msgspec.json.Decoder(Declaration)
_HEARTBEAT = msgspec.json.Decoder(Heartbeat)
