"""List the data that a job replaces, before the job is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ray_committer.errors import PreflightError, mark
from ray_committer.places.choose import output_of
from ray_committer.places.old_files import replaced_file
from ray_committer.protocol.hidden_names import is_of_file_system
from ray_committer.protocol.paths import TEMPORARY, ancestors, parent
from ray_committer.protocol.record import ReplacedFile
from ray_committer.protocol.table_paths import DELTA_LOG, DIRECTORY, is_in_log
from ray_committer.stages.context import JobContext
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.stores.links import refuse_links
from ray_committer.tables.other_tables import holds_table
from ray_committer.work.worker import Worker

SPARK_STAGING = ".spark-staging-"


@dataclass(frozen=True, slots=True)
class OldData:
    """The data below the roots that a job replaces. `files` and `directories` are the old data, and
    `destinations` the destinations of other jobs that were set up there. `no_directories` are roots that
    are not directories, because a file is in their place or above it."""

    files: tuple[ReplacedFile, ...] = ()
    destinations: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    no_directories: tuple[str, ...] = ()


def list_replaced_files(context: JobContext, roots: Sequence[str]) -> OldData:
    """List the files below `roots`, one level at a time; a root that does not exist has none. Left out
    are the files of running jobs (``_temporary``, Spark's staging, ``__magic`` on S3), the names that
    file systems make (``.nfs...``, ``.snapshot``, ``lost+found``), a ``_SUCCESS`` that the job will
    replace, and the log of the destination's table and of its Delta table. `PreflightError` if a root is
    in a log, or another table is below a root."""
    destination = context.job.destination
    list_level = partial(_list_directories, keeps_success=context.options.mark_success)
    for root in roots:
        if is_in_log(root):
            raise holds_table(root.partition(f"/{DIRECTORY}")[0])
        refuse_links(context.store, {root, *ancestors(root, destination)} - {destination})
    files_found: dict[str, ReplacedFile] = {}
    destinations: list[str] = []
    directories: list[str] = []
    no_directories: list[str] = []
    level = list(dict.fromkeys(roots))
    while level:
        below: list[str] = []
        for statuses, files in context.run_batches(list_level, level):
            no_directories += files
            names = {status.name for status in statuses if parent(status.path) == destination}
            for status in statuses:
                is_top = parent(status.path) == destination
                # Only beside a log of this package: then `_delta_log` is its export. Elsewhere it
                # belongs to the data that is replaced.
                if is_top and status.name == DELTA_LOG and DIRECTORY in names:
                    continue
                if status.name == TEMPORARY:
                    destinations.append(parent(status.path))
                    continue
                if status.name == DIRECTORY:
                    if not is_top:
                        raise holds_table(parent(status.path))
                    continue
                if status.is_directory and status.is_link:
                    raise PreflightError(
                        f"{mark(status.path)}: is a symbolic link to a directory, and the data behind "
                        "it may belong to others",
                        "replace the link or write elsewhere",
                    )
                if status.is_directory:
                    below.append(status.path)
                else:
                    files_found[_recordable(status.path)] = replaced_file(status)
        directories += below
        level = below
    return OldData(
        tuple(files_found[path] for path in sorted(files_found)),
        tuple(sorted(destinations)),
        tuple(directories),
        tuple(no_directories),
    )


def _recordable(path: str) -> str:
    """`path`; `PreflightError` if the record cannot hold it."""
    try:
        path.encode()
    except UnicodeEncodeError as e:
        shown = path.encode(errors="backslashreplace").decode()
        raise PreflightError(
            f"{mark(shown)}: the name of this old file is not UTF-8, so the commit record cannot hold "
            "it",
            "nothing was changed: rename or remove that file, and run the same command",
        ) from e
    return path


def _list_directories(
    worker: Worker, directories: tuple[str, ...], *, keeps_success: bool
) -> tuple[list[FileStatus], list[str]]:
    """Work: list some directories of old data; also return those that are not directories."""
    no_directories: list[str] = []  # appending one element is thread-safe
    listed = worker.map(partial(_list_directory, worker.store, no_directories), directories)
    kept = worker.job.success if keeps_success else None
    statuses = (status for batch in listed for status in batch)
    return [status for status in statuses if status.path != kept or status.is_directory], no_directories


def _list_directory(
    store: StoreOperations, no_directories: list[str], directory: str
) -> list[FileStatus]:
    try:
        statuses = store.list_anew(directory)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        no_directories.append(directory)
        return []
    output = output_of(store)
    return [
        status
        for status in statuses
        if not status.name.startswith(SPARK_STAGING)
        and not output.is_of_committer(status.name)
        and not is_of_file_system(status.name)
    ]
