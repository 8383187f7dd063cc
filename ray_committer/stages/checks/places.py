"""Check, before the record, the places that files go to.

It makes one listing per directory. The rename, which never replaces, finds what appears later.
"""

from __future__ import annotations

import itertools
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
from ray_committer.executors.directories import DirectoryCoordinator
from ray_committer.places.choose import needed
from ray_committer.protocol.fingerprints import fingerprint, fingerprints
from ray_committer.protocol.hidden_names import first_visible
from ray_committer.protocol.pack import Pack
from ray_committer.protocol.paths import ancestors, is_inside, is_within, parent, temporary_directory
from ray_committer.protocol.table_paths import DIRECTORY
from ray_committer.protocol.table_state import ClaimInFlight
from ray_committer.stages.checks.find_destinations import find_destinations
from ray_committer.stages.checks.items import most_held
from ray_committer.stages.checks.known_directories import KnownDirectories
from ray_committer.stages.context import JobContext
from ray_committer.stages.old_data.mode_roots import ModeRoots
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.stores.registry import store_command
from ray_committer.tables.other_tables import holds_table
from ray_committer.work.directory import IS_FILE, look_at
from ray_committer.work.sources import list_directory
from ray_committer.work.worker import Worker


@dataclass(frozen=True, slots=True)
class Places:
    """What was found in some directories: `suspects`, which may have the name of a file of the job; what
    is `blocking` a directory that the job needs, by path and in words; `destinations` of other jobs; the
    number of names `held` by directories that may have no room for more; directories of `tables`; those
    that are `there`; and the first name of those with `data`, of those in which the job wants none."""

    suspects: tuple[FileStatus, ...]
    blocking: dict[str, str]
    destinations: tuple[str, ...]
    held: dict[str, int]
    tables: tuple[str, ...] = ()
    there: tuple[str, ...] = ()
    data: dict[str, str] = field(default_factory=dict)


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
    data: dict[str, str] = field(default_factory=dict)
    """A name that readers see in each directory that holds data, among those that must hold none."""
    listed: frozenset[str] = frozenset()
    there: frozenset[str] = frozenset()
    """The directories that exist, as far as they were seen."""


def check_destinations(
    context: JobContext,
    packs: Sequence[Pack],
    directories: Iterable[str],
    roots: ModeRoots,
    known: KnownDirectories,
    before: Sequence[ClaimInFlight] = (),
) -> Destinations:
    """Check the directories that the job writes to, except those that it replaces and new ones: by a
    listing of each where that is cheap, otherwise only whether a file is in the place of one. Those that
    must hold no data are always listed. The claims `before` the job's own need room in them."""
    replaced = set(roots.replaced)
    wanted = {p for p in directories if p not in known.new and not is_within(p, replaced)}
    empty = frozenset(roots.empty) - known.new
    is_cheap = context.store.capabilities.listing_is_cheap
    listed = sorted(wanted | empty if is_cheap else empty)
    most = most_held(context, packs, before)
    work = partial(_look, directories=context.executor.directories, most=most, empty=empty)
    looks = list(context.run_batches(work, listed))
    suspects = {status.path: status for places in looks for status in places.suspects}
    # A directory can hold millions of names: eight bytes of each that the job may need are compared
    # first, and only these paths are asked for in the packs.
    marks = frozenset(map(fingerprint, suspects))
    paths = {path for path, _ in find_destinations(context, packs, marks)} if marks else set()
    tables = {path for places in looks for path in places.tables} - {context.job.destination}
    # Where a listing is not cheap, all directories that are needed were asked for by their paths.
    shown = needed(context.store, () if is_cheap else known.shown)
    blocking = {path: IS_FILE for path in shown if not known.shown[path].is_directory}
    return Destinations(
        taken=dict.fromkeys(paths & suspects.keys(), "is there already"),
        blocking=blocking | {path: what for places in looks for path, what in places.blocking.items()},
        others=tuple(path for places in looks for path in places.destinations),
        errors=tuple(map(holds_table, sorted(tables))),
        held={path: items for places in looks for path, items in places.held.items()},
        data={path: name for places in looks for path, name in places.data.items()},
        listed=frozenset(listed),
        there=frozenset(path for places in looks for path in places.there),
    )


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
    above = {place for path in directories for place in ancestors(path, "/")}
    paths = itertools.chain(directories, above.difference(directories))
    yield from (path for path in paths if any(is_inside(path, root) for root in roots))


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


def check_file_systems(context: JobContext, directories: Sequence[str]) -> None:
    """`PreflightError` that names the `directories` to which no file can be renamed."""
    store, job = context.store, context.job
    home = store.file_system(job.directory)
    elsewhere = sorted(path for path in directories if store.file_system(path) != home)
    if elsewhere:
        raise PreflightError(
            f"{some_of([*map(mark, elsewhere)])}: {len(elsewhere)} directories of the output are on "
            f"another file system or mount than {mark(job.directory)}, and no file can be renamed from "
            "one to the other",
            "nothing was changed: abort the job, and write to a destination on that file system",
        )


def find_other_destinations(
    context: JobContext,
    directories: Iterable[str],
    known: KnownDirectories,
    listed: Collection[str],
    allowed_roots: Sequence[str] = (),
) -> list[str]:
    """Those among the `directories` that the job writes to, and above them up to the destination or an
    allowed root, in which other jobs were set up. One request for each whose names were neither `listed`
    nor shown by a page; the job's own destination is looked at with its jobs."""
    roots, destination = set(allowed_roots), context.job.destination
    above = (
        path
        for directory in directories
        if not is_inside(directory, destination)
        for path in ancestors(directory, "/")
        if is_within(path, roots)
    )
    is_known = {destination, *listed, *known.parents}
    asked = itertools.chain(directories, known.unasked, above)
    wanted = sorted({path for path in asked if path not in known.new} - is_known)
    shown = [path for path, has_jobs in known.parents.items() if has_jobs and path != destination]
    return [*shown, *(path for paths in context.run_batches(_with_jobs, wanted) for path in paths)]


def _with_jobs(worker: Worker, paths: tuple[str, ...]) -> list[str]:
    """Work: select the directories that have a ``_temporary`` with something in it."""
    listings = worker.map(
        lambda path: (path, list_directory(worker.store, temporary_directory(path))), paths
    )
    return [path for path, statuses in listings if statuses]


def _look(
    worker: Worker,
    paths: tuple[str, ...],
    *,
    directories: DirectoryCoordinator,
    most: int | None,
    empty: frozenset[str],
) -> Places:
    """Work: list some directories, and keep the names that the job may need itself. Those that must be
    `empty` are listed so that no job that ends meanwhile is missed."""
    each = worker.map(lambda path: look_at(worker.store, path, after_jobs=path in empty), paths)
    looks = {look.path: look for look in each}
    names = {path: look.listed for path, look in looks.items() if look.listed is not None}
    listed = [status for statuses in names.values() for status in statuses]
    # The coordinator knows which names the job writes: a worker sends home only these.
    written = fingerprints(status.path for status in listed)
    marks = directories.written(written) if listed else frozenset()
    data = {path: first_visible(status.name for status in names[path]) for path in empty & names.keys()}
    return Places(
        suspects=tuple(status for status in listed if fingerprint(status.path) in marks),
        blocking={path: what for look in looks.values() for path, what in look.blocking.items()},
        destinations=tuple(path for path in names if looks[path].has_jobs),
        held={path: len(held) for path, held in names.items() if most is not None and len(held) > most},
        tables=tuple(parent(status.path) for status in listed if status.name == DIRECTORY),
        there=tuple(names),
        data={path: name for path, name in data.items() if name is not None},
    )
