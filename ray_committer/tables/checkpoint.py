"""Save and read checkpoints of a table, so that a reader does not need all of its log.

A checkpoint can be made again from the log, so it decides nothing: one that cannot be read is passed
over, and one that cannot be saved is a notice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from ray_committer.errors import RayCommitterError, TableLogError
from ray_committer.job_files.settle import put
from ray_committer.protocol.paths import join
from ray_committer.protocol.state import new_nonce
from ray_committer.protocol.table_checkpoint import Checkpoint, Part, cut_parts, decode_checkpoint
from ray_committer.protocol.table_entry import LogEntry, encode_content
from ray_committer.protocol.table_paths import TablePlaces, number_of
from ray_committer.protocol.table_state import Files, TableState, apply_files, follow, quiet_at
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.tables.file_sets import read_file_list, read_file_set
from ray_committer.tables.log import find_head, read_entries, read_entry

ENTRIES = 64
FILES = 50_000
"""How many entries, or files in them, a reader reads after the last checkpoint."""


def is_due(entries: int, files: int) -> bool:
    """Whether to save a checkpoint after so many entries, with so many files, since the last one."""
    return entries >= ENTRIES or files >= FILES


def read_state(
    store: StoreOperations, table: TablePlaces, table_id: str, until: int | None = None
) -> TableState:
    """Read the claims in flight at version `until`, or at the head: no files.

    `TableVersionGoneError` if the log has no version `until`.
    """
    checkpoint = next(_checkpoints(store, table, table_id, until), None)
    state = checkpoint.state if checkpoint else TableState()
    return follow(state, read_entries(store, table, state.version, until))[0]


def read_since(
    store: StoreOperations, table: TablePlaces, table_id: str, version: int | None = None
) -> tuple[TableState, list[tuple[int, LogEntry]]]:
    """Read the state at `version`, or at the head, and the entries after it, with one look at the head.

    An entry shows from where the log must be read to know the claims in flight. That is rarely far back,
    so a checkpoint is only looked for if it is. Errors as `read_state`.
    """
    head = find_head(store, table, version or 0)
    at = head if version is None else version
    known = {at: read_entry(store, table, at)} if at else {}
    quiet = quiet_at(at, known[at]) if at else 0
    state = TableState(quiet, quiet=quiet)
    if at - quiet > ENTRIES and (found := next(_checkpoints(store, table, table_id, at), None)):
        state = max(state, found.state, key=lambda one: one.version)
    versions = range(state.version + 1, head + 1)
    entries = [(one, known.get(one) or read_entry(store, table, one)) for one in versions]
    before = follow(state, (one for one in entries if one[0] <= at))[0]
    return before, [one for one in entries if one[0] > at]


def read_files(
    store: StoreOperations, table: TablePlaces, table_id: str, until: int | None = None
) -> tuple[TableState, Files]:
    """Read the state and the files of a table at version `until`, or at the head.

    It takes memory for each file of the table. Errors as `read_state`; also `TableLogError` if a file
    list is missing or damaged.
    """
    state, files = _last_files(store, table, table_id, until)
    after, committed = follow(state, read_entries(store, table, state.version, until))
    for one in committed:
        job_id, job_attempt = one.claim.job_id, one.claim.job_attempt
        read = partial(read_file_set, store, table, job_id=job_id, job_attempt=job_attempt)
        apply_files(files, removed=read(one.removed), added=read(one.claim.files))
    return after, files


def save_checkpoint(
    store: StoreOperations, table: TablePlaces, table_id: str, state: TableState, files: Files
) -> str | None:
    """Save a checkpoint with the parts that are not there yet; idempotent. A notice if that fails."""
    path = table.checkpoint(state.version)
    try:
        parts = _save_parts(store, table, files)
        content = encode_content(Checkpoint(table_id=table_id, state=state, parts=parts))
        put(store, path, content, temporary=table.temporary(new_nonce()))
    except (OSError, RayCommitterError) as e:
        return f"{path}: the checkpoint was not saved ({e}); a later commit saves one"
    return None


def _save_parts(store: StoreOperations, table: TablePlaces, files: Files) -> list[Part]:
    if store.capabilities.has_directories:
        store.mkdirs(table.parts)
    there = {status.name: status.size for status in _listed(store, table.parts)}
    parts = []
    for part, data in cut_parts(files):
        if there.get(part.name) != len(data):
            put(store, join(table.parts, part.name), data, temporary=table.temporary(new_nonce()))
        parts.append(part)
    return parts


def _last_files(
    store: StoreOperations, table: TablePlaces, table_id: str, until: int | None
) -> tuple[TableState, Files]:
    """The files of the last checkpoint whose parts can all be read."""
    for checkpoint in _checkpoints(store, table, table_id, until):
        with suppress(TableLogError):
            files: Files = {}
            for part in checkpoint.parts:
                path = join(table.parts, part.name)
                apply_files(files, added=read_file_list(store, path, part.digest))
            return checkpoint.state, files
    return TableState(), {}


def _checkpoints(
    store: StoreOperations, table: TablePlaces, table_id: str, until: int | None
) -> Iterator[Checkpoint]:
    """The checkpoints up to a version that can be read, the newest first."""
    versions = [number_of(status.name) for status in _listed(store, table.checkpoints)]
    for version in sorted((one for one in versions if one is not None), reverse=True):
        if until is None or version <= until:
            found = _read_checkpoint(store, table.checkpoint(version))
            if found is not None and (found.table_id, found.state.version) == (table_id, version):
                yield found


def _read_checkpoint(store: StoreOperations, path: str) -> Checkpoint | None:
    try:
        return decode_checkpoint(store.read(path), path)
    except (TableLogError, FileNotFoundError):
        return None


def _listed(store: StoreOperations, directory: str) -> list[FileStatus]:
    try:
        return store.list_status(directory)
    except FileNotFoundError:
        return []
