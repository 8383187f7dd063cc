"""Check, before the record, the places that files go to.

It makes one listing per directory. The rename, which never replaces, finds what appears later.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ray_committer.errors import (
    SHOWN,
    CommitConflictError,
    LinkedPathError,
    PreflightError,
    mark,
    some_of,
)
from ray_committer.executors.directories import Directories
from ray_committer.job_files.others import destinations_above
from ray_committer.places.choose import needed
from ray_committer.protocol.fingerprints import fingerprint, fingerprints
from ray_committer.protocol.paths import TEMPORARY, ancestors, is_inside, is_within, temporary_directory
from ray_committer.protocol.record import Claim, ManifestRef
from ray_committer.protocol.table_paths import DIRECTORY
from ray_committer.protocol.table_state import ClaimInFlight
from ray_committer.stages.checks.find_destinations import find_destinations
from ray_committer.stages.checks.items import most_held
from ray_committer.stages.context import JobContext
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.stores.registry import store_command
from ray_committer.tables.other_tables import holds_table
from ray_committer.work.sources import list_directory
from ray_committer.work.worker import Worker

_IS_FILE = "is a file where the job needs a directory"
_LEADS_NOWHERE = "is a link to nothing where the job needs a directory"


@dataclass(frozen=True, slots=True)
class Places:
    """What was found in some directories: `suspects`, which may have the name of a file of the job; what
    is `blocking` a directory that the job needs, by path and in words; `destinations` of other jobs; the
    number of names `held` by directories that may have no room for more; and directories of `tables`."""

    suspects: tuple[FileStatus, ...]
    blocking: dict[str, str]
    destinations: tuple[str, ...]
    held: dict[str, int]
    tables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Destinations:
    """What a check of the directories that a job writes to found. By path and in words: `taken` is in
    the place of a file of the job, and `blocking` is in the place of a directory. In `others`, other
    jobs were set up. Each of the `errors` names directories to which nothing can be renamed."""

    taken: dict[str, str] = field(default_factory=dict)
    blocking: dict[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    errors: tuple[PreflightError, ...] = ()
    held: dict[str, int] = field(default_factory=dict)
    """The numbers of names in directories that may have no room for more."""


def check_destinations(
    context: JobContext,
    manifests: Sequence[ManifestRef],
    directories: Sequence[str],
    replaced_roots: Sequence[str],
    before: Sequence[ClaimInFlight] = (),
) -> Destinations:
    """Check the directories that the job writes to, except those that it replaces: by a listing of each
    where that is cheap, otherwise only whether a file is in the place of one. The claims `before` the
    job's own need room in the directories."""
    replaced = set(replaced_roots)
    wanted = [path for path in directories if not is_within(path, replaced)]
    if not context.store.capabilities.listing_is_cheap:
        return Destinations(blocking=_files_in_place(context, needed(context.store, wanted)))
    most = most_held(context, manifests, before)
    work = partial(_look, directories=context.executor.directories, most=most)
    looks = list(context.run_batches(work, wanted))
    suspects = {status.path: status for places in looks for status in places.suspects}
    # A directory can hold millions of names: eight bytes of each that the job may need are compared
    # first, and only these paths are asked for in the manifests.
    marks = frozenset(map(fingerprint, suspects))
    paths = {path for path, _ in find_destinations(context, manifests, marks)} if marks else set()
    taken = dict.fromkeys(paths & suspects.keys(), "is there already")
    blocking = {path: what for places in looks for path, what in places.blocking.items()}
    destinations = tuple(path for places in looks for path in places.destinations)
    held = {path: items for places in looks for path, items in places.held.items()}
    tables = {path for places in looks for path in places.tables} - {context.job.destination}
    errors = [*_on_other_file_systems(context, directories), *map(holds_table, sorted(tables))]
    return Destinations(taken, blocking, destinations, tuple(errors), held)


def refuse_linked_directories(
    context: JobContext, directories: Collection[str], roots: Collection[str]
) -> None:
    """`LinkedPathError` that names each link to a directory among the directories of the output, and
    above them: it can lead out of the table. The `roots` themselves can be links."""
    store = context.store
    if store.first_link(_inside(directories, roots)) is None:
        return
    inside = _inside(directories, roots)
    linked = [path for path in inside if store.first_link((path,)) is not None]
    statuses = map(store.get_status, linked)
    links = sorted(status.path for status in statuses if status is not None and status.is_directory)
    if links:
        raise LinkedPathError(
            f"{some_of([*map(mark, links)])}: is a symbolic link where the job needs a directory, and "
            "what is behind it may belong to others",
            "nothing was changed: replace the link by a directory, or abort the job and write to the "
            "directory itself; then run the same command",
        )


def _inside(directories: Iterable[str], roots: Collection[str]) -> Iterator[str]:
    """The directories, and those above them, that are below a root. A store without links takes none."""
    paths = {place for path in directories for place in (path, *ancestors(path, "/"))}
    yield from (path for path in paths if any(is_inside(path, root) for root in roots))


def _files_in_place(context: JobContext, directories: Sequence[str]) -> dict[str, str]:
    """The files in the place of directories, or above them in the destination: one request for each."""
    inside = [ancestors(path, context.job.destination) for path in directories]
    wanted = sorted({*directories, *(above for paths in inside for above in paths)})
    files = [path for paths in context.run_batches(_select_files, wanted) for path in paths]
    return dict.fromkeys(files, _IS_FILE)


def _select_files(worker: Worker, paths: tuple[str, ...]) -> list[str]:
    """Work: select the paths at which a file is."""
    statuses = [status for status in worker.map(worker.store.get_status, paths) if status is not None]
    return [status.path for status in statuses if not status.is_directory]


def is_taken(taken: Mapping[str, str]) -> CommitConflictError:
    """The error that names what is in the place of files of the job."""
    named = [f"{mark(path)}: {taken[path]}" for path in sorted(taken)]
    return CommitConflictError(
        some_of(named),
        "nothing was changed: move what is there away, or let the tasks write under "
        "other names, and run the same command",
    )


def is_blocked(store: StoreOperations, blocking: Mapping[str, str]) -> CommitConflictError:
    """The error that names the files in the place of directories of the job."""
    paths = sorted(blocking)
    remove = store_command(store.spec, "rm", *paths[:SHOWN])
    return CommitConflictError(
        some_of([f"{mark(path)}: {blocking[path]}" for path in paths]),
        "nothing was changed: let the tasks write under other names. Only if no job has committed what "
        "is there (in a table with a log, `ray-committer show FILE` names the job), remove it and run "
        f"the same command: {remove}",
    )


def in_the_way(store: StoreOperations, path: str) -> str:
    """Describe a file, or a link, at `path`, where the job needs a directory."""
    is_link = store.first_link((path,)) is not None
    return what_blocks(store, path).get(path, _IS_FILE) if is_link else _IS_FILE


def what_blocks(store: StoreOperations, path: str) -> dict[str, str]:
    """What is at `path`, or above it, where the job needs a directory: by path, in words."""
    return _look_at(store, path).blocking


def blocking_file(store: StoreOperations, path: str) -> str | None:
    """The file or link at `path`, or above it, where a directory is needed; None if there is none."""
    for candidate in (path, *ancestors(path, "/")):
        status = store.get_status(candidate)
        if status is not None:
            return None if status.is_directory else candidate
    return None


def _on_other_file_systems(context: JobContext, directories: Sequence[str]) -> list[PreflightError]:
    store, job = context.store, context.job
    home = store.file_system(job.directory)
    elsewhere = sorted(path for path in directories if store.file_system(path) != home)
    if not elsewhere:
        return []
    error = PreflightError(
        f"{some_of([*map(mark, elsewhere)])}: {len(elsewhere)} directories of the output are on another "
        f"file system or mount than {mark(job.directory)}, and no file can be renamed from one to the "
        "other",
        "nothing was changed: abort the job, and write to a destination on that file system",
    )
    return [error]


def find_other_destinations(
    context: JobContext, claim: Claim, replaced_roots: Sequence[str]
) -> list[str]:
    """The directories that the job writes to, and those above them, in which other jobs were set up. It
    lists only directories that neither `check_destinations` nor the listing of replaced data shows, with
    one request each. Directories above all that is in the `claim` are not checked again."""
    written = context.executor.directories.share(0, 1)
    looked_at = {context.job.destination, *destinations_above((context.job.destination, *claim.writes))}
    if context.store.capabilities.listing_is_cheap:
        looked_at.update(written)
    replaced = set(replaced_roots)
    wanted = sorted(
        path
        for path in {*written, *destinations_above(written)} - looked_at
        if not is_within(path, replaced)
    )
    return [path for paths in context.run_batches(_with_jobs, wanted) for path in paths]


def _with_jobs(worker: Worker, paths: tuple[str, ...]) -> list[str]:
    """Work: select the directories that have a ``_temporary`` with something in it."""
    listings = worker.map(
        lambda path: (path, list_directory(worker.store, temporary_directory(path))), paths
    )
    return [path for path, statuses in listings if statuses]


def _look(
    worker: Worker, paths: tuple[str, ...], *, directories: Directories, most: int | None
) -> Places:
    """Work: list some directories, and keep the names that the job may need itself."""
    blocking: dict[str, str] = {}
    destinations: list[str] = []
    listed: list[FileStatus] = []
    held: dict[str, int] = {}
    tables: list[str] = []
    for look in worker.map(partial(_look_at, worker.store), paths):
        blocking |= look.blocking
        listed += look.listed
        if most is not None and len(look.listed) > most:
            held[look.path] = len(look.listed)
        destinations += [look.path for status in look.listed if status.name == TEMPORARY]
        tables += [look.path for status in look.listed if status.name == DIRECTORY]
    # The coordinator knows which names the job writes: a worker sends home only names that are among
    # them.
    marks = (
        directories.written(fingerprints(status.path for status in listed)) if listed else frozenset()
    )
    suspects = tuple(status for status in listed if fingerprint(status.path) in marks)
    return Places(suspects, blocking, tuple(destinations), held, tuple(tables))


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is in a directory; or what is in its place, or above it, instead of a directory."""

    path: str
    listed: Sequence[FileStatus] = ()
    blocking: dict[str, str] = field(default_factory=dict)


def _look_at(store: StoreOperations, path: str) -> _Seen:
    try:
        return _Seen(path, store.list_anew(path))
    except NotADirectoryError:
        for above in (path, *ancestors(path, "/")):
            status = store.get_status(above)
            if status is not None and not status.is_directory:
                return _Seen(path, blocking={above: _IS_FILE})
        return _Seen(path)
    except OSError as e:
        if not isinstance(e, FileNotFoundError) and e.errno != errno.ELOOP:  # a link to itself
            raise
        return _Seen(path, blocking=dict.fromkeys(_link_to_nothing(store, path), _LEADS_NOWHERE))


def _link_to_nothing(store: StoreOperations, path: str) -> list[str]:
    """The link at or above a `path` that is not there, if the link leads nowhere. The nearest link
    decides: if it leads to a directory, the path behind it is still to be made."""
    link = store.first_link((path, *ancestors(path, "/")))
    status = store.get_status(link) if link is not None else None
    return [] if status is None or status.is_directory else [status.path]
