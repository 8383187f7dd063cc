"""List the data that a job replaces, before the job is recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from ray_committer.errors import PreflightError, mark
from ray_committer.places.choose import output_of
from ray_committer.places.old_files import replaced_file
from ray_committer.protocol.hidden_names import is_of_file_system
from ray_committer.protocol.paths import TEMPORARY, ancestors
from ray_committer.protocol.record import ReplacedFile
from ray_committer.protocol.table_paths import DELTA_LOG, DIRECTORY, is_in_log
from ray_committer.stages.context import JobContext
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.stores.links import refuse_links
from ray_committer.tables.other_tables import holds_table
from ray_committer.work.directory import list_after_jobs
from ray_committer.work.worker import Worker

SPARK_STAGING = ".spark-staging-"


@dataclass(frozen=True, slots=True)
class OldData:
    """The data below the roots that a job replaces. `files` and `directories` are the old data, and
    `destinations` the destinations of other jobs that were set up there. `listed` are the roots and
    all directories below, `there` those that exist, and `no_directories` the roots with a file in their
    place or above it."""

    files: tuple[ReplacedFile, ...] = ()
    destinations: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    there: tuple[str, ...] = ()
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
    files: dict[str, ReplacedFile] = {}
    directories: list[str] = []
    all_listed: list[_Listed] = []
    level = list(dict.fromkeys(roots))
    while level:
        work, below = partial(list_level, are_roots=not all_listed), list[str]()
        for listed in chain.from_iterable(context.run_batches(work, level)):
            all_listed.append(replace(listed, statuses=()))
            for status in _old_data_in(listed, destination):
                if status.is_directory:
                    below.append(status.path)
                else:
                    files[_recordable(status.path)] = replaced_file(status)
        directories += below
        level = below
    return OldData(
        tuple(files[path] for path in sorted(files)),
        tuple(sorted(listed.path for listed in all_listed if listed.has_jobs)),
        tuple(directories),
        tuple(listed.path for listed in all_listed),
        tuple(listed.path for listed in all_listed if listed.is_there),
        tuple(listed.path for listed in all_listed if listed.is_file),
    )


@dataclass(frozen=True, slots=True)
class _Listed:
    """What is in a directory, and whether jobs were set up in it; or that a file is in its place."""

    path: str
    statuses: Sequence[FileStatus] = ()
    is_there: bool = False
    has_jobs: bool = False
    is_file: bool = False


def _old_data_in(listed: _Listed, destination: str) -> Iterator[FileStatus]:
    """The old files in a directory, and the directories that can hold some."""
    is_top, names = listed.path == destination, {status.name for status in listed.statuses}
    # Only beside a log of this package is `_delta_log` its export, elsewhere it is data to be replaced.
    passed_over = {
        TEMPORARY,
        *([DIRECTORY, *({DELTA_LOG} if DIRECTORY in names else ())] if is_top else ()),
    }
    for status in listed.statuses:
        if status.name in passed_over:
            continue
        if status.name == DIRECTORY:
            raise holds_table(listed.path)
        if status.is_directory and status.is_link:
            raise PreflightError(
                f"{mark(status.path)}: is a symbolic link to a directory, and the data behind it may "
                "belong to others",
                "replace the link or write elsewhere",
            )
        yield status


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
    worker: Worker, directories: tuple[str, ...], *, keeps_success: bool, are_roots: bool
) -> list[_Listed]:
    kept = worker.job.success if keeps_success else None
    work = partial(_list_directory, worker.store, kept, is_root=are_roots)
    return list(worker.map(work, directories))


def _list_directory(
    store: StoreOperations, kept: str | None, directory: str, *, is_root: bool
) -> _Listed:
    try:
        # Nobody has looked for jobs in a root before; one that is below it is seen in the listing.
        statuses, has_jobs = (
            list_after_jobs(store, directory) if is_root else (store.list_anew(directory), False)
        )
    except FileNotFoundError:
        return _Listed(directory)
    except NotADirectoryError:
        return _Listed(directory, is_file=True)
    output = output_of(store)
    has_jobs = has_jobs or any(status.name == TEMPORARY for status in statuses)
    old = [
        status
        for status in statuses
        if not status.name.startswith(SPARK_STAGING)
        and not output.is_of_committer(status.name)
        and not is_of_file_system(status.name)
        and (status.path != kept or status.is_directory)
    ]
    return _Listed(directory, old, is_there=True, has_jobs=has_jobs)
