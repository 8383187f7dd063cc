"""A table's log: entries with consecutive versions, each put in place by a rename that never replaces.

Of several processes that put an entry at one version, one succeeds; the others read its entry. A process
puts an entry only after it has seen the one before, so the versions have no gaps. If the answer to the
rename is lost, the entry that is there shows who put it. Nothing is ever replaced or deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from uuid import uuid4

from ray_committer.errors import TableLogGapError, TableLogGoneError, TableVersionGoneError
from ray_committer.job_files.settle import settle
from ray_committer.protocol.paths import parent
from ray_committer.protocol.state import new_nonce
from ray_committer.protocol.table_entry import (
    Decision,
    LogEntry,
    TableAbort,
    TableClaim,
    TableCommit,
    TableDefinition,
    decode_definition,
    decode_entry,
    encode_content,
)
from ray_committer.protocol.table_paths import BLOCK, TablePlaces, number_of
from ray_committer.stores.at_once import MANY, at_once
from ray_committer.stores.base import StoreOperations, list_anew, sync, write_once


class Draft:
    """A file of the log on its way to its place. It is written once, under a temporary name, however
    many places are taken; so use it in a ``with`` block, which deletes it if it found none."""

    def __init__(self, store: StoreOperations, table: TablePlaces) -> None:
        self._store, self._table = store, table
        self._temporary = ""
        self._written: bytes | None = None

    def __enter__(self) -> Draft:
        return self

    def __exit__(self, *_: object) -> None:
        if self._written is not None:
            with suppress(OSError):
                self._store.delete_file(self._temporary)

    def put_entry(self, version: int, entry: LogEntry) -> LogEntry:
        """As the function `put_entry`."""
        path = self._table.entry(version)
        if version % BLOCK == 0 and self._store.capabilities.has_directories:
            self._store.mkdirs(self._table.block(version // BLOCK))
        return decode_entry(self.put(path, encode_content(entry)), path)

    def put(self, path: str, data: bytes) -> bytes:
        """Put a file at `path`, unless one is there; the content that is there then."""
        store = self._store
        try:
            if data != self._written:
                self._write(data)
            temporary = self._temporary
            settle(lambda: store.rename(temporary, path))
        except OSError as e:
            there = _read_if_there(store, path)
            if there is None and isinstance(e, FileNotFoundError):
                raise TableLogGoneError(
                    f"{parent(path)}: is gone, or {self._table.temporaries} is"
                ) from e
            if there is None:
                raise
            if isinstance(e, FileNotFoundError):  # it was put there, although the answer was lost
                self._written = None
            data = there
        else:
            self._written = None
        sync(store, parent(path))
        return data

    def _write(self, data: bytes) -> None:
        """Write the file. A request that got no answer can be carried out later, and the file is empty
        for a moment then, so its name is given up."""

        def write() -> None:
            self._temporary = self._table.temporary(new_nonce())
            write_once(self._store, self._temporary, data)
            sync(self._store, self._temporary)

        settle(write)
        self._written = data


def new_table_id() -> str:
    """An id that no other table has, also if it is made at the same place."""
    return str(uuid4())


def init_table(
    store: StoreOperations, table: TablePlaces, definition: TableDefinition
) -> TableDefinition:
    """Make the destination a table with a log, unless it is one; the definition that is there then."""
    if (there := read_definition(store, table)) is not None:
        return there
    store.mkdirs(table.block(0))  # on every store: its absence shows that the log was deleted
    if store.capabilities.has_directories:
        for directory in (table.temporaries, table.file_lists):
            store.mkdirs(directory)
    with Draft(store, table) as draft:
        data = draft.put(table.definition, encode_content(definition))
    return decode_definition(data, table.definition)


def read_definition(store: StoreOperations, table: TablePlaces) -> TableDefinition | None:
    """Read the definition of a table in one request; None if the destination has no log."""
    try:
        return decode_definition(store.read(table.definition), table.definition)
    except (FileNotFoundError, NotADirectoryError):
        return None


def require_definition(store: StoreOperations, table: TablePlaces, table_id: str) -> TableDefinition:
    """Read the definition of the table `table_id`; `TableLogGoneError` if it is not there any more."""
    definition = read_definition(store, table)
    if definition is None or definition.table_id != table_id:
        what = "is gone" if definition is None else "is that of another table"
        raise TableLogGoneError(f"{table.definition}: {what}; it was the definition of table {table_id}")
    return definition


def find_head(store: StoreOperations, table: TablePlaces, known: int = 0) -> int:
    """The last version of the log, 0 if it has no entry; one request, or three if it is 1,000 later.

    `known` is a version that was seen before. `TableLogGoneError` if it is not there any more.
    """
    block = known // BLOCK
    last = _last_in(store, table.block(block))
    if last == BLOCK - 1:
        block = max(block, _last_in(store, table.log) or 0)
        last = _last_in(store, table.block(block))
    head = block * BLOCK + last if last is not None else max(block * BLOCK - 1, 0)
    if head < known or head == 0:  # perhaps a listing was incomplete, perhaps the log is gone
        _check_there(store, table, known)
    return max(head, known)


def read_entry(store: StoreOperations, table: TablePlaces, version: int) -> LogEntry:
    """Read an entry up to the head; `TableLogGapError` if it is missing."""
    path = table.entry(version)
    try:
        return decode_entry(store.read(path), path)
    except FileNotFoundError as e:
        raise TableLogGapError(f"{path}: is missing, although later entries of the log are there") from e


def read_entries(
    store: StoreOperations,
    table: TablePlaces,
    since: int = 0,
    until: int | None = None,
    *,
    by_threads: bool = False,
) -> list[tuple[int, LogEntry]]:
    """Read the entries after version `since`, up to `until` or the head, with their versions.

    With `by_threads` also a few at the same time. `TableVersionGoneError` if the log has no version
    `until`.
    """
    head = find_head(store, table, since)
    if until is not None and until > head:
        raise version_gone(table, until, head)
    versions = range(since + 1, (head if until is None else until) + 1)
    read = partial(read_entry, store, table)
    entries = at_once(store, read, versions, least=2 if by_threads else MANY)
    return list(zip(versions, entries, strict=True))


def version_gone(table: TablePlaces, version: int, head: int) -> TableVersionGoneError:
    """The error for a version after the last one."""
    return TableVersionGoneError(f"{table.log}: has no version {version}, the last one is {head}")


def put_entry(store: StoreOperations, table: TablePlaces, version: int, entry: LogEntry) -> LogEntry:
    """Put an entry at a version, unless one is there; the entry that is there then.

    The caller has seen the version before.
    """
    with Draft(store, table) as draft:
        return draft.put_entry(version, entry)


def append(store: StoreOperations, table: TablePlaces, entry: LogEntry, after: int) -> int:
    """Append an entry, unless one since version `after` repeats it; the version of that entry.

    So runs of the same commit can append the same: it is there once.
    """
    entries = read_entries(store, table, after)
    return find_repeated(entries, entry) or put_next(store, table, entry, after + len(entries))


def find_repeated(entries: Iterable[tuple[int, LogEntry]], entry: LogEntry) -> int | None:
    """The version of the first of some entries that `entry` repeats."""
    return next((version for version, other in entries if entry.repeats(other)), None)


def put_next(store: StoreOperations, table: TablePlaces, entry: LogEntry, after: int) -> int:
    """Put an entry at the first free version `after` one that was just seen, unless one that is put
    there by then repeats it; the version of that entry."""
    version = after + 1
    with Draft(store, table) as draft:
        while not entry.repeats(draft.put_entry(version, entry)):
            version += 1  # another process was faster
    return version


def append_next(store: StoreOperations, table: TablePlaces, entry: LogEntry, after: int) -> int:
    """`append` an entry that is probably the next one after a version that was just seen: then it makes
    one request less."""
    if entry.repeats(put_entry(store, table, after + 1, entry)):
        return after + 1
    return append(store, table, entry, after)


def decide(store: StoreOperations, table: TablePlaces, entry: Decision) -> tuple[int, Decision]:
    """Append the decision about a claim, unless the log has one; the one that counts, and its version.

    A decision is put only right after entries that were all read. So of a commit and an abort at once
    the log has the first, and both callers get it. The commit of another claim of the same job attempt
    also counts, since this claim ends with it: the decision that is returned names that claim then.
    """
    entries = read_entries(store, table, entry.claim)
    found = find_decision(store, table, entries, entry)
    return found or put_decision(store, table, entry, entry.claim + len(entries))


def find_decision(
    store: StoreOperations,
    table: TablePlaces,
    entries: Iterable[tuple[int, LogEntry]],
    about: Decision,
) -> tuple[int, Decision] | None:
    """The first of some entries that decides the claim that a decision is `about`, with its version."""
    decisions = ((version, _decision(store, table, entry, about)) for version, entry in entries)
    return next(((version, found) for version, found in decisions if found is not None), None)


def put_decision(
    store: StoreOperations, table: TablePlaces, entry: Decision, after: int
) -> tuple[int, Decision]:
    """`decide`, if all entries up to the version `after` were read and none of them is the decision."""
    version = after + 1
    with Draft(store, table) as draft:
        while (found := _decision(store, table, draft.put_entry(version, entry), entry)) is None:
            version += 1  # another process was faster
    return version, found


def _decision(
    store: StoreOperations, table: TablePlaces, entry: LogEntry, about: Decision
) -> Decision | None:
    """The entry, if it decides the claim of `about`, or commits another claim of its job attempt."""
    if not isinstance(entry, TableCommit | TableAbort):
        return None
    if entry.claim == about.claim:
        return entry
    is_of_attempt = (entry.job_id, entry.job_attempt) == (about.job_id, about.job_attempt)
    if isinstance(entry, TableAbort) or not is_of_attempt:
        return None
    own, other = (read_entry(store, table, version) for version in (about.claim, entry.claim))
    return entry if isinstance(own, TableClaim) and own.repeats(other) else None


def _read_if_there(store: StoreOperations, path: str) -> bytes | None:
    try:
        return store.read(path)
    except FileNotFoundError:
        return None


def _last_in(store: StoreOperations, directory: str) -> int | None:
    """The highest number that is a name in a directory; None if there is none, or no directory."""
    try:
        names = [status.name for status in list_anew(store, directory)]
    except FileNotFoundError:
        return None
    return max((number for name in names if (number := number_of(name)) is not None), default=None)


def _check_there(store: StoreOperations, table: TablePlaces, version: int) -> None:
    """Check that a version that a listing does not show is there, or the log, if that has no version."""
    path = table.entry(version) if version else table.block(0)
    if store.get_status(path) is None:
        raise TableLogGoneError(f"{path}: is gone; later versions of this log may be gone, too")
