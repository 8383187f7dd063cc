"""The entries of a table's log: what each says of a job, and how it is stored.

A job claims the partitions that it writes, commits its claim when all of its new files are in place,
and says when the old files are gone; or it is aborted. The version of an entry is its place in the log,
so it is not stored.

A file of the log is one JSON object: the version of the format, which every release can read, the
SHA-256 of the content, and the content. That is one entry, or a list of entries with consecutive
versions. This module makes no request to a store.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, TypeVar

import msgspec

from ray_committer.errors import TableFormatError, TableLogError, mark
from ray_committer.protocol.file_list import FileSet
from ray_committer.protocol.record import NOBODY, Owner

FORMAT = 2
LARGEST = 100
"""The most entries that a file of the log can hold."""

_Content = TypeVar("_Content")


class Isolation(StrEnum):
    """When a claim is refused because of a job that was committed since its base."""

    SERIALIZABLE = "serializable"
    """If that job wrote what this one has read or replaces: as if the jobs had run one by one."""
    SNAPSHOT = "snapshot"
    """If both write the same partitions, and this job's rows come from those that it replaces."""
    NONE = "none"
    """Never: the later of two jobs stays."""


class WriteMode(StrEnum):
    """What a job does to the partitions that it claims."""

    APPEND = "append"
    CREATE = "create"
    """It adds files where no data is."""
    OVERWRITE = "overwrite"
    """It replaces data without having read it."""
    REPLACE = "replace"
    """It replaces data by rows that come from this data."""


BLIND = frozenset({WriteMode.APPEND, WriteMode.CREATE, WriteMode.OVERWRITE})
"""The modes in which what a job writes does not depend on what is there."""


class PartitionColumn(msgspec.Struct, frozen=True):
    """A column that is in the names of directories, and its type in Spark's words."""

    name: str
    type: str


class TableDefinition(msgspec.Struct, frozen=True, kw_only=True, tag="table"):
    """What makes a destination a table with a log; written once.

    keep_replaced: whether jobs keep the old files that they replace, unless they say otherwise.
    """

    table_id: str
    isolation: Isolation = Isolation.SERIALIZABLE
    keep_replaced: bool = False
    partition_columns: list[PartitionColumn] = []
    created_milliseconds: int


class TableClaim(msgspec.Struct, frozen=True, kw_only=True, tag="claim"):
    """What a job attempt writes and has read, before its first visible change.

    nonce: distinguishes this job attempt from an earlier one of the same id.
    base: the version of the table that the job has read; None if it does not know.
    quiet: a version before it at which no claim was in flight.
    named: about how many files the entries up to this one add and remove: entries of jobs that were at
        work at the same time may be missing.
    partitions: the directories that it writes to, relative to the destination; an empty one is all of
        the table.
    reads: the directories that its rows come from.
    replaces: the directories whose old files it removes; None if the claim cannot name them all.
    keeps: whether it keeps the old files that it removes.
    is_import: whether its files were there before, so that they stay if the claim is given up.
    manifests: the digest of its manifests, by which another run sees that it would write the same.
    owner: the process that made the claim.
    run_id: what the job does once: no other job of the table does it while this one is in flight, or
        after it is committed.
    undoes: the version with that run id that this job takes back.
    """

    job_id: str
    job_attempt: int
    nonce: str
    mode: WriteMode
    base: int | None = None
    quiet: int = 0
    named: int = 0
    partitions: list[str]
    reads: list[str] = []
    replaces: list[str] | None = None
    keeps: bool = False
    is_import: bool = False
    files: FileSet = FileSet()
    manifests: str = ""
    owner: Owner = NOBODY
    run_id: str | None = None
    undoes: int | None = None
    at_milliseconds: int

    def __post_init__(self) -> None:
        if self.base is None and (self.reads or self.mode not in BLIND):
            raise ValueError("a job without a base can only append, create or overwrite")

    def repeats(self, other: LogEntry) -> bool:
        """Whether `other` is the claim of the same job attempt, made by another run of its commit."""
        return isinstance(other, TableClaim) and _attempt(other) == _attempt(self)

    def writes_as(self, other: TableClaim) -> bool:
        """Whether two claims of one job attempt say the same of what the job does."""
        return _work(other) == _work(self)


class _Step(msgspec.Struct, frozen=True, kw_only=True):
    job_id: str
    job_attempt: int
    claim: int
    quiet: int = 0
    """That of the claim."""
    named: int = 0
    """As of a claim."""
    at_milliseconds: int

    def repeats(self, other: LogEntry) -> bool:
        """Whether `other` says the same of the same claim."""
        return type(other) is type(self) and other.claim == self.claim


class TableCommit(_Step, frozen=True, kw_only=True, tag="commit"):
    """The new files of the claim with version `claim` are in place, and the old files in `removed` are
    no longer part of the table: the table's commit point.

    kept: whether the old files are moved to `TablePlaces.kept`, instead of deleted.
    """

    removed: FileSet = FileSet()
    kept: bool = False


class TableDone(_Step, frozen=True, kw_only=True, tag="done"):
    """The old files of a committed claim are gone."""


NO_CLAIM = 0
"""The claim that a job is aborted with that has none."""


class TableAbort(_Step, frozen=True, kw_only=True, tag="abort"):
    """The job of a claim was aborted, and `why`; or the job of no claim, which makes none after that."""

    why: str = ""


Decision = TableCommit | TableAbort
LogEntry = TableClaim | TableCommit | TableDone | TableAbort


def is_abort_of(entry: LogEntry, job_id: str, job_attempt: int, claims: Container[int]) -> bool:
    """Whether an entry aborts a job attempt with these claims, and no earlier job of the same id."""
    if not isinstance(entry, TableAbort) or (entry.job_id, entry.job_attempt) != (job_id, job_attempt):
        return False
    return entry.claim == NO_CLAIM or entry.claim in claims


class _Envelope(msgspec.Struct, frozen=True):
    format: int
    sha256: str
    content: msgspec.Raw


class _Format(msgspec.Struct, frozen=True):
    format: int


def encode_content(content: msgspec.Struct) -> bytes:
    """Return a file of a table's log as JSON on one line."""
    return _encode(msgspec.json.encode(content))


def encode_entries(entries: Sequence[LogEntry]) -> bytes:
    """Return a file of the log that holds some entries; a single one is not in a list."""
    return _encode(msgspec.json.encode(entries[0] if len(entries) == 1 else entries))


def decode_entries(data: bytes, path: str) -> list[LogEntry]:
    """Parse a file of the log; `TableLogError` if it is damaged, `TableFormatError` if it is newer."""
    content = decode_content(data, _ENTRIES, path)
    return content if isinstance(content, list) else [content]


def decode_definition(data: bytes, path: str) -> TableDefinition:
    """Parse the definition of a table; errors as `decode_entries`."""
    return decode_content(data, _DEFINITION, path)


def decode_content(data: bytes, decoder: msgspec.json.Decoder[_Content], path: str) -> _Content:
    """Parse a file of a table's log; errors as `decode_entries`."""
    try:
        # The format first, by itself: a newer release may have changed all that is around the content.
        written = _FORMAT.decode(data).format
        if written > FORMAT:
            raise TableFormatError(
                f"{mark(path)}: has format {written}, but this release reads only up to format {FORMAT}"
            )
        envelope = _ENVELOPE.decode(data)
        # The digest is over the bytes as they are stored, so fields that this release does not know do
        # not break it.
        if written < 1 or sha256(envelope.content).hexdigest() != envelope.sha256:
            raise ValueError("it has another digest")
        return decoder.decode(envelope.content)
    except (msgspec.MsgspecError, ValueError, RecursionError) as e:
        raise TableLogError(
            f"{mark(path)}: is not a file of a table log that this release can read: {e}"
        ) from e


def _encode(data: bytes) -> bytes:
    return msgspec.json.encode(_Envelope(FORMAT, sha256(data).hexdigest(), msgspec.Raw(data)))


def _attempt(claim: TableClaim) -> tuple[str, int, str]:
    return claim.job_id, claim.job_attempt, claim.nonce


def _work(claim: TableClaim) -> tuple[object, ...]:
    what = claim.mode, claim.partitions, claim.replaces, claim.reads, claim.manifests
    return *what, claim.run_id, claim.undoes


_Entries = Annotated[list[LogEntry], msgspec.Meta(min_length=1, max_length=LARGEST)]
_ENTRIES: msgspec.json.Decoder[LogEntry | list[LogEntry]] = msgspec.json.Decoder(LogEntry | _Entries)
_FORMAT, _ENVELOPE = msgspec.json.Decoder(_Format), msgspec.json.Decoder(_Envelope)
_DEFINITION = msgspec.json.Decoder(TableDefinition)
