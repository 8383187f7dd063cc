"""Put a file into a table's log by a rename that never replaces or, where nothing is renamed, by a write
that never replaces.

Of several processes that put a file at one version, one succeeds; the others read its file. A process
puts a file only right after one that it has read to its end, so the versions have no gaps. If the answer
is lost, the file that is there shows who put it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from uuid import uuid4

from ray_committer.errors import TableLogGoneError, mark
from ray_committer.limits.settle import settle
from ray_committer.places.choose import needed, own_files_of
from ray_committer.protocol.paths import join, parent
from ray_committer.protocol.state import new_nonce
from ray_committer.protocol.table_entry import (
    LogEntry,
    TableDefinition,
    decode_definition,
    decode_entries,
    encode_content,
    encode_entries,
)
from ray_committer.protocol.table_paths import BLOCK, TablePlaces, draft_of
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.log import read_definition


class Draft:
    """A file of the log on its way to its place. It is written once, under a temporary name, however
    many places are taken; so use it in a ``with`` block, which deletes it if it found none. `new_name`
    makes the temporary name.

    Where nothing is renamed, it is written to its place in one request, and has a temporary name only if
    others must see it before that.
    """

    def __init__(
        self, store: StoreOperations, table: TablePlaces, new_name: Callable[[], str] | None = None
    ) -> None:
        self._store, self._table = store, table
        self._new_name = new_name or (lambda: table.temporary(new_nonce()))
        self._temporary = ""
        self._written: bytes | None = None

    def __enter__(self) -> Draft:
        return self

    def __exit__(self, *_: object) -> None:
        if self._written is not None:
            with suppress(OSError):
                self._store.delete_file(self._temporary)

    @property
    def name(self) -> str:
        """The temporary name of the file, if it has one."""
        return self._temporary.rpartition("/")[2]

    def put_entries(self, version: int, entries: Sequence[LogEntry]) -> list[LogEntry]:
        """Put entries after a file that was read to its end, unless one is there; what is there then."""
        path = self._table.entry(version)
        first = version % BLOCK == 0
        for directory in needed(self._store, (self._table.block(version // BLOCK),) if first else ()):
            self._store.mkdirs(directory)
        return decode_entries(self.put(path, encode_entries(entries)), path)

    def write(self, entries: Sequence[LogEntry]) -> None:
        """Write entries under the temporary name, if they are not there yet."""
        self._drafted(encode_entries(entries))

    def put(self, path: str, data: bytes) -> bytes:
        """Put a file at `path`, unless one is there; the content that is there then."""
        store = self._store
        try:
            if own_files_of(store).put_new(path, data, self._drafted):
                self._written = None
        except OSError as e:
            there = _read_if_there(store, path)
            if there is None and isinstance(e, FileNotFoundError):
                raise TableLogGoneError(
                    f"{mark(parent(path))}: is gone, or {mark(self._table.temporaries)} is"
                ) from e
            if there is None:
                raise
            if isinstance(e, FileNotFoundError):  # it was put there, although the answer was lost
                self._written = None
            data = there
        store.sync(parent(path))
        return data

    def _drafted(self, data: bytes) -> str:
        if data != self._written:
            self._write(data)
        return self._temporary

    def _write(self, data: bytes) -> None:
        """Write the file. A request that got no answer can be carried out later, and the file is empty
        for a moment then, so its name is given up."""

        def write() -> None:
            self._temporary = self._new_name()
            self._store.write_once(self._temporary, data)
            self._store.sync(self._temporary)

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
    store.check_conditions(table.temporary(new_nonce()))
    store.mkdirs(table.block(0))  # on every store: its absence shows that the log was deleted
    for directory in needed(store, (table.temporaries, table.file_lists)):
        store.mkdirs(directory)
    _delete_drafts(store, table)
    with Draft(store, table) as draft:
        data = draft.put(table.definition, encode_content(definition))
    return decode_definition(data, table.definition)


def _delete_drafts(store: StoreOperations, table: TablePlaces) -> None:
    """Delete the drafts for a log that was here before: a process could put them into the new one. If
    another process has made the table in the meantime, they can be for its log, and stay."""
    with suppress(FileNotFoundError):
        names = [status.name for status in store.list_anew(table.temporaries)]
        drafts = [name for name in names if draft_of(name) is not None]
        if drafts and read_definition(store, table) is None:
            for name in drafts:
                store.delete_file(join(table.temporaries, name))


def complete_table(store: StoreOperations, table: TablePlaces, definition: TableDefinition) -> None:
    """Note that the table was made to its end; idempotent."""
    with Draft(store, table) as draft:
        draft.put(table.complete, encode_content(definition))


def put_entry(
    store: StoreOperations, table: TablePlaces, version: int, entry: LogEntry
) -> list[LogEntry]:
    """Put an entry at a version, unless a file is there; the entries that are there then. The caller has
    read the file before to its end. No other process puts this entry."""
    with Draft(store, table) as draft:
        return draft.put_entries(version, [entry])


def _read_if_there(store: StoreOperations, path: str) -> bytes | None:
    try:
        return store.read(path)
    except FileNotFoundError:
        return None
