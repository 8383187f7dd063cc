"""Keep the old files that a job of a table replaces: move them to the directory of the table's log.

If files have versions, each is renamed to its place, and the rename names the version. Otherwise a file
is renamed aside, and then the directory aside is renamed to its place: so a process that sleeps in the
meantime finds no directory aside, and moves no file of a later job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from ray_committer.errors import CommitStateUnknownError, PreflightError, mark, some_of
from ray_committer.limits.settle import settle
from ray_committer.places.choose import needed, old_files_of
from ray_committer.places.old_files import Old
from ray_committer.protocol.paths import join, parent
from ray_committer.protocol.record import CommitRecord, ReplacedFile
from ray_committer.protocol.table_paths import KEPT_SUFFIX, TablePlaces
from ray_committer.stages.context import JobContext
from ray_committer.stages.preflight import OldFiles
from ray_committer.stages.remove_replaced_files import Removal, grouped, put_old_file_aside, remove_files
from ray_committer.stages.sync_to_disk import sync_kept
from ray_committer.stages.turns.list_new_files import relative
from ray_committer.stores.base import StoreOperations
from ray_committer.work.batches import make_directories

_ASIDE = "kept"


def refuse_what_cannot_be_kept(context: JobContext, old: OldFiles, claim: int) -> None:
    """`PreflightError`, before the record, if an old file cannot be moved to where it is to be kept."""
    files = (*old.replaced, *old.overwritten)
    places = _places(context, TablePlaces(context.job.destination).kept_directory(claim), files)
    wrong = [
        f"{mark(path)}: has too long a name" for path, place in places if not _fits(context.store, place)
    ]
    if wrong:
        raise PreflightError(
            some_of(wrong),
            "this cannot be kept, and nothing was changed: move it away, or commit with "
            "--no-keep-replaced; then run the same command",
        )


def make_places_of_kept(context: JobContext, record: CommitRecord, nonce: str) -> None:
    """Make the directories aside, if the store needs them, before the state with this `nonce` exists."""
    if context.old_files.puts_aside:
        _make_places(context, _places(context, _aside(context, nonce), record.old_files))


def keep_replaced_files(context: JobContext, record: CommitRecord, nonce: str) -> Removal:
    """Move the old files that `record` names to where they are kept, after the job was sealed under this
    `nonce`; idempotent. That is done before new files of the same names are moved."""
    files = record.old_files
    if record.table is None or not files:
        return Removal()
    kept = TablePlaces(context.job.destination).kept_directory(record.table.version)
    is_aside = context.old_files.puts_aside
    places = _places(context, _aside(context, nonce) if is_aside else kept, files)
    if not is_aside:
        _make_places(context, places)
    by_path = dict(places)
    groups = grouped((file, by_path[file.path]) for file in files)
    removal = remove_files(context, partial(_keep, kept=kept), groups)
    for path in sorted(set(removal.changed) & {file.path for file in record.replaced}):
        context.note_changed(path)
    if is_aside and not removal.left:
        _put_in_place(context, _aside(context, nonce), kept)
    sync_kept(context, [parent(kept), *_directories(_places(context, kept, files))])
    return removal


def _aside(context: JobContext, nonce: str) -> str:
    return join(context.job.aside(nonce), _ASIDE)


def _places(context: JobContext, directory: str, files: Iterable[ReplacedFile]) -> list[tuple[str, str]]:
    """The path of each file, and its place below `directory`."""
    destination = context.job.destination
    return [
        (file.path, join(directory, relative(destination, file.path) + KEPT_SUFFIX)) for file in files
    ]


def _directories(places: Iterable[tuple[str, str]]) -> list[str]:
    return sorted({parent(place) for _, place in places})


def _fits(store: StoreOperations, place: str) -> bool:
    name = place.rpartition("/")[2]
    limits = store.capabilities
    return len(name.encode()) <= limits.max_name_length and len(place.encode()) <= limits.max_path_length


def _make_places(context: JobContext, places: Sequence[tuple[str, str]]) -> None:
    for _ in context.run_batches(make_directories, needed(context.store, _directories(places))):
        pass


def _put_in_place(context: JobContext, aside: str, kept: str) -> None:
    """Rename the directory with all old files; idempotent."""
    store = context.store
    store.mkdirs(parent(kept))
    try:
        settle(lambda: store.move_directory(aside, kept), lambda: store.get_status(kept) is not None)
    except FileNotFoundError as e:  # an earlier run, or another process, has done it
        if store.get_status(kept) is None:
            raise CommitStateUnknownError(
                f"{mark(aside)}: is gone, with the old files that were to be kept in {mark(kept)}",
                "put it there, or make an empty directory there, and run the same command",
            ) from e


def _keep(store: StoreOperations, old: Old, *, kept: str) -> bool:
    """Move an old file to where it is kept; False if it is there, or gone."""
    file, place = old
    try:
        return put_old_file_aside(store, file, place)
    except FileExistsError:
        if store.get_status(place) is None:
            raise
        return False  # an earlier run has moved it, and a new file has its name
    except PermissionError:
        if not old_files_of(store).puts_aside or store.get_status(kept) is None:
            raise
        return False  # another process has moved all of them
