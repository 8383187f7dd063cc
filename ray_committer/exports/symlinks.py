"""Export a table with a log as symlink manifests: one file per partition with the URLs of its files.

Hive's ``SymlinkTextInputFormat``, Trino and Athena read them. Each manifest is replaced in one step, and
has the files of one version of the table. Source: Delta's ``GenerateSymlinkManifest``, whose layout this
is; but a partition that has lost its files has an empty manifest here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ray_committer.errors import ExportError
from ray_committer.exports.beaten import until_done
from ray_committer.exports.cursor import Cursor, read_cursor
from ray_committer.exports.files import Change, change_of, data_files
from ray_committer.exports.result import Exported
from ray_committer.exports.takeover import Turn
from ray_committer.job_files.settle import put
from ray_committer.protocol.file_list import ListedFile, partition_of
from ray_committer.protocol.partition_names import partition_values
from ray_committer.protocol.paths import join, parent
from ray_committer.protocol.state import new_nonce
from ray_committer.protocol.table_entry import TableDefinition, encode_content
from ray_committer.protocol.table_paths import SYMLINKS, TablePlaces
from ray_committer.stores.at_once import at_once
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.registry import fsspec_url
from ray_committer.tables.changes import committed_since
from ray_committer.tables.checkpoint import FilesAt

NAME = "symlink"
MANIFEST = "manifest"
OWNER = "_table"
"""The file that names the table of the manifests. Readers pass over it."""
FEW = 16
"""The files of up to this number of partitions are read one by one; for more, those of the table."""

Manifests = Mapping[str, Sequence[ListedFile]]
"""The files of each partition, by its directory below that of the manifests."""


def export_symlinks(store: StoreOperations, table: TablePlaces, definition: TableDefinition) -> Exported:
    """Bring the manifests of a table to its last version; idempotent.

    Several processes can do this at once. `ExportError` if there are manifests that this function
    has not made, if files have different partition columns, if a name has a line break, or on S3.
    """
    if store.capabilities.completes_uploads:
        raise ExportError(
            f"{join(table.destination, SYMLINKS)}: manifests cannot be replaced there: S3 has no "
            f"rename, so a slow process could bring back an old one",
            "the table itself is as it was: export it as delta or iceberg, which Athena reads, too",
        )
    return until_done(_Export(store, table, definition).run, table.destination)


@dataclass(frozen=True, slots=True)
class _Export:
    """One attempt of an export."""

    store: StoreOperations
    table: TablePlaces
    definition: TableDefinition

    def run(self) -> Exported:
        _own(self.store, self.table, self.definition.table_id)
        cursor = read_cursor(self.store, self.table, NAME)
        if cursor is None or cursor.table_id != self.definition.table_id:
            cursor = Cursor(table_id=self.definition.table_id, version=0, target="")
        turn = Turn(self.store, self.table, NAME, cursor.version)
        while True:
            turn.take_over()
            at = FilesAt(self.store, self.table, self.definition.table_id)
            changes = self._changes(turn.since)
            found = self._manifests(at, changes, is_first=not turn.since)
            columns = _columns_of(self.table, found, cursor.target or None)
            done = Cursor(table_id=cursor.table_id, version=at.state.version, target=columns)
            paths = self._write(turn, found, done)
            if turn.is_alone():
                break
        self._move(turn, paths)
        turn.end()
        if not cursor.version:
            return Exported(NAME, done.version, 1, sum(map(len, found.values())))
        added, removed = (sum(len(one) for one in sets) for sets in _sets(changes))
        return Exported(NAME, done.version, len(changes), added, removed)

    def _changes(self, since: int) -> list[Change]:
        """What is to be exported after version `since`; nothing at a first export."""
        if not since:
            return []
        commits = committed_since(self.store, self.table, self.definition.table_id, since)
        return [change_of(self.store, self.table, one) for one in commits]

    def _manifests(self, at: FilesAt, changes: Sequence[Change], *, is_first: bool) -> Manifests:
        """The files of the partitions that have changed, also of those that have none any more."""
        if is_first:
            return {**dict.fromkeys(self._there(), ()), **_by_partition(data_files(at.below()))}
        added, removed = _sets(changes)
        directories = {partition_of(file.p) for files in (*added, *removed) for file in files}
        partitions = {_partition_of(directory) for directory in directories}
        if len(directories) <= FEW and directories == partitions:
            found = [file for one in sorted(directories) for file in at.below(one)]
        else:
            found = at.below()
        now = _by_partition(data_files(found))
        return {one: now.get(one, ()) for one in sorted(partitions)}

    def _there(self) -> list[str]:
        """The partitions that have a manifest."""
        root = join(self.table.destination, SYMLINKS)
        paths = (status.path for status in self.store.list_files(root) if status.name == MANIFEST)
        return [parent(path)[len(root) + 1 :] for path in paths]

    def _write(self, turn: Turn, manifests: Manifests, cursor: Cursor) -> list[str]:
        """Write all manifests, and the cursor after them; return the place of each."""
        contents = [self._content(files) for files in manifests.values()]
        contents.append(encode_content(cursor))
        at_once(self.store, lambda one: turn.write(*one), list(enumerate(contents)))
        root = join(self.table.destination, SYMLINKS)
        places = [join(root, *filter(None, (one,)), MANIFEST) for one in manifests]
        return [*places, self.table.export(NAME)]

    def _move(self, turn: Turn, paths: Sequence[str]) -> None:
        if self.store.capabilities.has_directories:
            at_once(self.store, self.store.mkdirs, [parent(path) for path in paths])
        *manifests, cursor = enumerate(paths)
        at_once(self.store, lambda one: turn.move(*one), manifests)
        turn.move(*cursor)

    def _content(self, files: Iterable[ListedFile]) -> bytes:
        urls = [_url(self.store, join(self.table.destination, file.p)) for file in files]
        return "".join(f"{url}\n" for url in urls).encode()


def _own(store: StoreOperations, table: TablePlaces, table_id: str) -> None:
    """Note that the manifests are those of this table; `ExportError` if there are others."""
    root = join(table.destination, SYMLINKS)
    path = join(root, OWNER)
    owner = _owner(store, path)
    if owner is None and store.get_status(root) is not None and store.list_status(root):
        owner = _owner(store, path) or b"unknown"  # put since by another first export?
    if owner == table_id.encode():
        return
    if owner is not None:
        raise ExportError(
            f"{root}: has manifests that this package has not made for this table",
            "nothing was changed: if nobody needs them, remove this directory and run the same command",
        )
    if store.capabilities.has_directories:
        store.mkdirs(root)
    put(store, path, table_id.encode(), temporary=table.temporary(new_nonce()))


def _owner(store: StoreOperations, path: str) -> bytes | None:
    try:
        return store.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _columns_of(table: TablePlaces, manifests: Manifests, known: str | None) -> str:
    """The names of the partition columns, with a slash between them; `ExportError` if files differ."""
    for files in manifests.values():
        for file in files:
            found = "/".join(partition_values(file.p)) or "/"
            if known not in (None, found):
                raise ExportError(
                    f"{join(table.destination, file.p)}: has the partition columns {found}, but other "
                    f"files of the table have {known}",
                    "the table itself is as it was: such a table cannot be exported",
                )
            known = found
    return known or ""


def _by_partition(files: Iterable[ListedFile]) -> dict[str, list[ListedFile]]:
    found = defaultdict[str, list[ListedFile]](list)
    for file in files:
        found[_partition_of(partition_of(file.p))].append(file)
    return dict(found)


def _partition_of(directory: str) -> str:
    """The directory without the names that have no value of a column: Hive knows only those that do."""
    return "/".join(name for name in directory.split("/") if "=" in name)


def _sets(changes: Sequence[Change]) -> tuple[list[Sequence[ListedFile]], list[Sequence[ListedFile]]]:
    return [one.added for one in changes], [one.removed for one in changes]


def _url(store: StoreOperations, path: str) -> str:
    """The URL of a file as Hadoop's ``Path`` reads it: unquoted."""
    if "\n" in path or "\r" in path:
        raise ExportError(
            f"{path!r}: has a line break in its name, which a manifest cannot hold",
            "the table itself is as it was: such a table cannot be exported as symlink manifests",
        )
    return f"file://{path}" if store.spec.scheme == "file" else fsspec_url(store.spec, path)
