"""Read a table's log: files that hold entries with consecutive versions.

Most files hold one entry. A file that was put when many processes put entries at the same time holds
several: a pack. A file is named by the version of its first entry, so the next file shows where it ends,
or it must be read. Nothing is ever replaced or deleted.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from ray_committer.errors import (
    TableLogError,
    TableLogGapError,
    TableLogGoneError,
    TableVersionGoneError,
    mark,
)
from ray_committer.protocol.table_entry import (
    LARGEST,
    LogEntry,
    TableDefinition,
    decode_definition,
    decode_entries,
)
from ray_committer.protocol.table_paths import BLOCK, TablePlaces, number_of
from ray_committer.stores.at_once import MANY, at_once
from ray_committer.stores.base import StoreOperations

Entries = list[tuple[int, LogEntry]]


class LogFiles:
    """One look at a log: each directory of it is listed once, and each file is read once. With
    `by_threads`, also a few files are read at the same time."""

    def __init__(self, store: StoreOperations, table: TablePlaces, *, by_threads: bool = False) -> None:
        self._store, self._table = store, table
        self._least = 2 if by_threads else MANY
        self._listed: dict[int, list[int]] = {}
        self._files: dict[int, list[LogEntry]] = {}

    def head(self, known: int = 0) -> int:
        """The last version, 0 if there is none; `TableLogGoneError` if `known`, seen before, is gone."""
        block, last = known // BLOCK, 0
        if names := self._names(block):
            last = self._end(names[-1])
            # The directory is full, so a later one may have been begun. Only then is the directory of
            # directories listed.
            if last % BLOCK == BLOCK - 1:
                block = max(block, _last_in(self._store, self._table.log))
                names = self._names(block)
                last = self._end(names[-1]) if names else block * BLOCK - 1
        # An empty log and a deleted one look alike in a listing: the first directory distinguishes them.
        if last == 0 and known == 0:
            _check_there(self._store, self._table)
        # A listing that was made too early lacks what was seen before: the file itself is asked for.
        return max(last, self._end(self._holder(known))) if last < known else last

    def after(self, since: int, until: int | None = None, *, is_end: bool = False) -> Entries:
        """The entries after version `since`, up to `until` or the last one, which ends a file.

        `is_end` tells that `since` is the last version of its file; otherwise that may have to be read.
        Errors as `read_entries`.
        """
        entries, version = Entries(), since + 1
        # The file of `since` may hold later entries, too. If its end is known, nothing is read for that.
        if since and version not in self._names(since // BLOCK):
            if not (is_end and since in self._names(since // BLOCK)):
                version = self._end(self._holder(since)) + 1
            if version > since + 1:
                start = self._holder(since)
                held = enumerate(self._file(start), start)
                entries = [numbered for numbered in held if numbered[0] > since]
        while (until is None or version <= until) and (names := self._names_from(version)):
            block, last = version // BLOCK, names[-1] if until is None else min(names[-1], until)
            self._read_all([start for start in names if start <= last])
            while version <= last:
                file = self._file(version)
                entries += enumerate(file, version)
                version += len(file)
            # The directory ends before it is full: that is the end of the log.
            if version // BLOCK == block:
                break
        if since == 0 and version == 1:
            _check_there(self._store, self._table)
        return entries if until is None else [numbered for numbered in entries if numbered[0] <= until]

    def at(self, version: int) -> LogEntry:
        """An entry; `TableLogGoneError` if it is not there."""
        start = self._holder(version)
        return self._file(start)[version - start]

    def end_at(self, version: int) -> int:
        """The last version of the file that holds a version; `TableLogGoneError` if none does."""
        return self._end(self._holder(version))

    def _names_from(self, version: int) -> list[int]:
        """The names in the directory of a version, from that version on. If the directory is not begun,
        but a later one is, then files are missing."""
        names = self._names(version // BLOCK)
        if not names and version >= BLOCK and version % BLOCK == 0:
            # A file is missing here if a later directory was begun: then reading it raises the right
            # error.
            later = _last_in(self._store, self._table.log)
            return [version] if later > version // BLOCK else []
        return names[bisect_left(names, version) :]

    def _holder(self, version: int) -> int:
        """The first version of the file that holds a version. A listing can lack the names of files, so
        those after the last one that it has are read before the version counts as gone."""
        names = self._names(version // BLOCK)
        place = bisect_right(names, version)
        start = names[place - 1] if place else max(1, version // BLOCK * BLOCK)
        try:
            # A listing can lack a name that was just put: from the last name that it has, each file
            # leads to the next.
            while self._end(start) < version:
                start = self._end(start) + 1
        except TableLogGapError as e:
            raise TableLogGoneError(
                f"{mark(self._table.entry(version))}: is gone; later versions of this log may be gone, "
                "too"
            ) from e
        return start

    def _end(self, start: int) -> int:
        return start + len(self._file(start)) - 1

    def _read_all(self, starts: list[int]) -> None:
        missing = [start for start in starts if start not in self._files]
        files = at_once(self._store, self._read, missing, least=self._least)
        self._files.update(zip(missing, files, strict=True))

    def _file(self, start: int) -> list[LogEntry]:
        if start not in self._files:
            self._files[start] = self._read(start)
        return self._files[start]

    def _read(self, start: int) -> list[LogEntry]:
        """Read a file; an error if it holds the place of another one."""
        entries = read_file(self._store, self._table, start)
        if entries is None:
            raise TableLogGapError(
                f"{mark(self._table.entry(start))}: is missing, although later entries of the log are "
                "there"
            )
        names = self._names(start // BLOCK)
        place = bisect_right(names, start)
        # Two files with the same version: only a store that replaces an entry, or a person, can have
        # made that.
        if place < len(names) and names[place] < start + len(entries):
            raise TableLogError(
                f"{mark(self._table.entry(names[place]))}: must not be there, because "
                f"{mark(self._table.entry(start))} holds the entries up to version "
                f"{start + len(entries) - 1}"
            )
        return entries

    def _names(self, block: int) -> list[int]:
        """The names in a directory of the log, as versions, sorted."""
        if block not in self._listed:
            numbers = _numbers_in(self._store, self._table.block(block))
            self._listed[block] = sorted(block * BLOCK + number for number in numbers if number < BLOCK)
        return self._listed[block]


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
        raise TableLogGoneError(
            f"{mark(table.definition)}: {what}; it was the definition of table {table_id}"
        )
    return definition


def is_complete(store: StoreOperations, table: TablePlaces, table_id: str) -> bool:
    """Whether the table `table_id` was made to its end: no job is left that does not know the log."""
    try:
        marker = decode_definition(store.read(table.complete), table.complete)
    except (FileNotFoundError, TableLogError):
        return False
    return marker.table_id == table_id


def read_file(store: StoreOperations, table: TablePlaces, start: int) -> list[LogEntry] | None:
    """Read the file whose first entry has a version; None if there is none. Errors as `read_entries`."""
    path = table.entry(start)
    try:
        entries = decode_entries(store.read(path), path)
    except FileNotFoundError:
        return None
    if start % BLOCK + len(entries) > BLOCK:
        raise TableLogError(
            f"{mark(path)}: holds {len(entries)} entries, more than its place has room for"
        )
    return entries


def find_head(store: StoreOperations, table: TablePlaces, known: int = 0) -> int:
    """The last version of the log, 0 if it has no entry; two requests, or four if it is 1,000 later.
    `known` is a version that was seen before. `TableLogGoneError` if it is not there any more."""
    return LogFiles(store, table).head(known)


def find_last_file(store: StoreOperations, table: TablePlaces) -> int:
    """A version in the last file of the log, 0 if there is none; one request, or three if the log has
    about 1,000 entries or more. That file is not read, so the last version can be later."""
    last = max(_numbers_in(store, table.block(0)), default=0)
    if last == 0:
        _check_there(store, table)
    # The last file, however long, does not fill this directory, so no later one is begun.
    if last + LARGEST < BLOCK or (block := _last_in(store, table.log)) == 0:
        return last
    later = _numbers_in(store, table.block(block))
    return block * BLOCK + max(later, default=-1)


def read_entry(store: StoreOperations, table: TablePlaces, version: int) -> LogEntry:
    """Read an entry up to the head; `TableLogGapError` if it is missing."""
    if (entries := read_file(store, table, version)) is not None:
        return entries[0]
    try:
        return LogFiles(store, table).at(version)
    except TableLogGoneError as e:
        raise TableLogGapError(
            f"{mark(table.entry(version))}: is missing, although later entries of the log are there"
        ) from e


def read_entries(
    store: StoreOperations,
    table: TablePlaces,
    since: int = 0,
    until: int | None = None,
    *,
    by_threads: bool = False,
    is_end: bool = False,
) -> Entries:
    """Read the entries after version `since`, up to `until` or the head, with their versions.

    With `by_threads` also a few at the same time. `is_end` as for `LogFiles.after`. `TableLogError` if
    one is damaged, `TableLogGapError` if one is missing, `TableLogGoneError` if the end of the log is,
    `TableVersionGoneError` if it has no version `until`.
    """
    entries = LogFiles(store, table, by_threads=by_threads).after(since, until, is_end=is_end)
    if until is not None and since + len(entries) < until:
        raise version_gone(table, until, since + len(entries))
    return entries


def version_gone(table: TablePlaces, version: int, head: int) -> TableVersionGoneError:
    """The error for a version after the last one."""
    return TableVersionGoneError(f"{mark(table.log)}: has no version {version}, the last one is {head}")


def _last_in(store: StoreOperations, directory: str) -> int:
    """The highest number that is a name in a directory; 0 if there is none, or no directory."""
    return max(_numbers_in(store, directory), default=0)


def _numbers_in(store: StoreOperations, directory: str) -> list[int]:
    """The numbers that are names in a directory; empty if there is none."""
    try:
        names = [status.name for status in store.list_anew(directory)]
    except FileNotFoundError:
        return []
    return [number for name in names if (number := number_of(name)) is not None]


def _check_there(store: StoreOperations, table: TablePlaces) -> None:
    """Check that a log without an entry is there: its first directory is made with it."""
    path = table.block(0)
    if store.get_status(path) is None:
        raise TableLogGoneError(f"{mark(path)}: is gone; later versions of this log may be gone, too")
