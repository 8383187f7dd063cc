"""Replace old data: list it before, remove it only after every new file is in place.

Spark deletes first, so a failed job loses the old data. Only files that the commit record names are
removed, never a directory, and never one that has changed since it was listed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ray_committer.errors import PreflightError
from ray_committer.protocol.paths import SUCCESS, TEMPORARY, parent
from ray_committer.protocol.record import CommitRecord, ReplacedFile
from ray_committer.stages.context import JobContext
from ray_committer.stages.worker import Worker
from ray_committer.stores.base import FileStatus

SPARK_STAGING = ".spark-staging-"

Group = tuple[str, tuple[ReplacedFile, ...]]


def list_replaced_files(context: JobContext, roots: Sequence[str]) -> tuple[ReplacedFile, ...]:
    """List the files below `roots`, a level at a time; a root that is not there has none.

    Left out are ``_SUCCESS`` and what belongs to running jobs (``_temporary``, Spark's staging).
    """
    found: dict[str, ReplacedFile] = {}
    level = list(dict.fromkeys(roots))
    while level:
        below: list[str] = []
        for statuses in context.executor.run_tasks(_list_directory, context.until_cancelled(level)):
            for status in statuses:
                if status.is_directory and status.is_link:
                    raise PreflightError(
                        f"{status.path}: is a symbolic link to a directory, behind which old data can "
                        f"not be told from that of others; replace the link or write elsewhere"
                    )
                if status.is_directory:
                    below.append(status.path)
                else:
                    found[status.path] = _replaced(status)
        level = below
    context.check_cancelled()
    return tuple(found[path] for path in sorted(found))


def remove_replaced_files(context: JobContext, record: CommitRecord) -> int:
    """Remove the old files that `record` names; idempotent. Returns how many were removed now."""
    groups: dict[str, list[ReplacedFile]] = defaultdict(list)
    for file in record.replaced:
        groups[parent(file.path)].append(file)
    items: Iterator[Group] = ((path, tuple(files)) for path, files in groups.items())
    removed = 0
    for count, kept in context.executor.run_on_workers(
        _remove_from_directory, context.until_cancelled(items)
    ):
        removed += count
        for path in kept:
            context.notice(f"{path}: was to be replaced but has changed since; it was kept")
    context.check_cancelled()
    return removed


def _list_directory(worker: Worker, directory: str) -> list[FileStatus]:
    """Work: list one directory of old data."""
    try:
        statuses = worker.store.list_status(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    kept = (TEMPORARY, SUCCESS)
    return [
        status
        for status in statuses
        if status.name not in kept and not status.name.startswith(SPARK_STAGING)
    ]


def _remove_from_directory(worker: Worker, group: Group) -> tuple[int, list[str]]:
    """Work: remove the old files of one directory; one listing tells what they are now."""
    directory, files = group
    try:
        now = {status.path: _replaced(status) for status in worker.store.list_status(directory)}
    except FileNotFoundError:
        return 0, []
    same = [file for file in files if now.get(file.path) == file]
    changed = [file.path for file in files if file.path in now and now[file.path] != file]
    removed = sum(worker.map(worker.store.delete_file, [file.path for file in same]))
    return removed, changed


def _replaced(status: FileStatus) -> ReplacedFile:
    return ReplacedFile(status.path, status.size, status.modified_milliseconds, status.etag)
