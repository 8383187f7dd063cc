"""Replace old data: list it before, remove it only after every new file is in place.

Spark deletes first, so a failed job loses the old data. Only files that the commit record names are
removed, never a directory, and never one that has changed since it was listed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ray_committer.errors import PreflightError
from ray_committer.protocol.paths import SUCCESS, TEMPORARY, ancestors, parent
from ray_committer.protocol.record import CommitRecord, ReplacedFile
from ray_committer.stages.batches import batches
from ray_committer.stages.context import JobContext
from ray_committer.stages.find_job import refuse_links
from ray_committer.stages.worker import Worker
from ray_committer.stores.base import FileStatus, StoreOperations, Versions, delete_version

SPARK_STAGING = ".spark-staging-"

Group = tuple[str, tuple[ReplacedFile, ...]]


@dataclass(frozen=True, slots=True)
class OldData:
    """What is below the roots that a job replaces: `files`, and the `destinations` of jobs set up
    there.
    """

    files: tuple[ReplacedFile, ...]
    destinations: tuple[str, ...]


def list_replaced_files(context: JobContext, roots: Sequence[str]) -> OldData:
    """List the files below `roots`, a level at a time; a root that is not there has none.

    Left out are ``_SUCCESS`` and what belongs to running jobs (``_temporary``, Spark's staging).
    """
    destination = context.job.destination
    for root in roots:
        refuse_links(context.store, {root, *ancestors(root, destination)} - {destination})
    found: dict[str, ReplacedFile] = {}
    destinations: list[str] = []
    level = list(dict.fromkeys(roots))
    while level:
        below: list[str] = []
        work = context.until_cancelled(batches(context.executor, level))
        for statuses in context.executor.run(_list_directories, work):
            for status in statuses:
                if status.name == TEMPORARY:
                    destinations.append(parent(status.path))
                    continue
                if status.is_directory and status.is_link:
                    raise PreflightError(
                        f"{status.path}: is a symbolic link to a directory, behind which old data can "
                        f"not be told from that of others; replace the link or write elsewhere"
                    )
                if status.is_directory:
                    below.append(status.path)
                else:
                    found[_recordable(status.path)] = _replaced(status)
        level = below
    context.check_cancelled()
    return OldData(tuple(found[path] for path in sorted(found)), tuple(sorted(destinations)))


def _recordable(path: str) -> str:
    """`path`; `PreflightError` if the record cannot hold it."""
    try:
        path.encode()
    except UnicodeEncodeError as e:
        shown = path.encode(errors="backslashreplace").decode()
        raise PreflightError(
            f"{shown}: the name of this old file is not UTF-8, so the commit record cannot hold it; "
            f"nothing was changed: rename or remove that file, and run the same command"
        ) from e
    return path


def remove_replaced_files(context: JobContext, record: CommitRecord) -> int:
    """Remove the old files that `record` names; idempotent. Returns how many were removed now."""
    groups: dict[str, list[ReplacedFile]] = defaultdict(list)
    for file in record.replaced:
        groups[parent(file.path)].append(file)
    items: list[Group] = [(path, tuple(files)) for path, files in groups.items()]
    work = context.until_cancelled(batches(context.executor, items))
    removed = 0
    for count, kept in context.executor.run(_remove_from_directories, work):
        removed += count
        for path in kept:
            context.notice(f"{path}: was to be replaced but has changed since; it was kept")
    context.check_cancelled()
    return removed


def _list_directories(worker: Worker, directories: tuple[str, ...]) -> list[FileStatus]:
    """Work: list some directories of old data."""
    listed = worker.map(partial(_list_directory, worker.store), directories)
    return [status for statuses in listed for status in statuses]


def _list_directory(store: StoreOperations, directory: str) -> list[FileStatus]:
    try:
        statuses = store.list_status(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [
        status
        for status in statuses
        if status.name != SUCCESS and not status.name.startswith(SPARK_STAGING)
    ]


def _remove_from_directories(worker: Worker, groups: tuple[Group, ...]) -> tuple[int, list[str]]:
    """Work: remove the old files of some directories."""
    removed, kept = 0, list[str]()
    for same, changed in worker.map(partial(_still_old, worker.store), groups):
        if not worker.cancelled.is_set():
            ends = list(worker.map(partial(_delete, worker.store), same))
            removed += sum(is_removed for is_removed, _ in ends)
            kept += [*changed, *(path for _, path in ends if path is not None)]
    return removed, kept


def _delete(store: StoreOperations, file: ReplacedFile) -> tuple[bool, str | None]:
    """Delete an old file, bound to its version where the store has versions: whether it was there, and
    its path if it has changed since it was listed."""
    if store.capabilities.versions is Versions.NONE:
        return store.delete_file(file.path), None
    try:
        return delete_version(store, file.path, file.version), None
    except FileExistsError:
        return False, file.path


def _still_old(store: StoreOperations, group: Group) -> tuple[list[ReplacedFile], list[str]]:
    """The old files that are what was recorded, and those that are not; from one listing."""
    directory, files = group
    try:
        now = {status.path: _replaced(status) for status in store.list_status(directory)}
    except FileNotFoundError:
        return [], []
    same = [file for file in files if now.get(file.path) == file]
    changed = [file.path for file in files if file.path in now and now[file.path] != file]
    return same, changed


def _replaced(status: FileStatus) -> ReplacedFile:
    return ReplacedFile(
        status.path, status.size, status.modified_milliseconds, status.etag, status.version
    )
