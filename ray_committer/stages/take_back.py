"""Take the files of a recorded job back, from their sources or their destinations, and nothing else.

All files that tasks wrote are first taken away at once, with their directory, so that a committer that
is thought dead can no longer move one; where directories are not frozen, each file is taken from its
source. Then it is looked for at its destination. It is taken by one plain rename to a directory of this
undo, which is made before the undo begins and never again. When all were taken, this directory gets
another name, so a process that wakes up later takes nothing. What is found in it then and is not the
job's is put back: another job has written it between the look and the rename.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial

from ray_committer.errors import CommitStateUnknownError, mark
from ray_committer.job_files.job_state import Seen
from ray_committer.limits.settle import settle
from ray_committer.places.choose import needed, old_files_of
from ray_committer.places.old_files import can_have_two_names, return_stranger
from ray_committer.protocol.actions import CompleteUpload, Rename
from ray_committer.protocol.pack import Entry, Pack, PackRange
from ray_committer.protocol.paths import TAKEN_BACK_SUFFIX, JobAttempt, join, parent
from ray_committer.protocol.record import CommitRecord
from ray_committer.protocol.recovery import Proof, prove
from ray_committer.protocol.state import new_nonce
from ray_committer.stages.context import JobContext
from ray_committer.stages.freeze_tasks import can_freeze, find_staging, how_to_mark, take
from ray_committer.stages.sync_to_disk import sync_place, sync_taken_back
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.stores.links import refuse_links
from ray_committer.work.batches import batches, make_directories, ranges
from ray_committer.work.complete_entry import take_back_upload
from ray_committer.work.load_manifest import above_sources
from ray_committer.work.worker import Worker

CLOSED_SUFFIX = "-closed"


def make_place(context: JobContext, record: CommitRecord, place: str) -> None:
    """Make the directories of an undo, before the state that names them exists."""
    directories = [place, *(join(place, str(number)) for number in range(len(record.packs)))]
    made = batches(context.executor, needed(context.store, directories))
    for _ in context.executor.run(make_directories, made):
        pass
    sync_place(context, place)


def is_place_lost(store: StoreOperations, place: str) -> bool:
    """Whether the directories of an undo are gone, such as after a power cut."""
    directories = needed(store, (place, place + CLOSED_SUFFIX))
    return bool(directories) and all(store.get_status(path) is None for path in directories)


def take_back(context: JobContext, record: CommitRecord, current: Seen, place: str) -> None:
    """Take every file of the job away, wherever it is, to the directories at `place`; idempotent.
    `CommitStateUnknownError` if a file of others was taken meanwhile and cannot be put back, or if the
    files of tasks are not found."""
    store, closed = context.store, place + CLOSED_SUFFIX
    is_aside = context.old_files.puts_aside
    if not is_aside or store.get_status(closed) is None:
        taken = take_tasks(context, current, place)
        _take_files(context, record, place, taken)
        sync_taken_back(context)  # before the close: a file that comes back later is not looked for
    if not is_aside:
        return
    with suppress(FileNotFoundError):  # another process has done it, and perhaps the rest
        settle(lambda: store.move_directory(place, closed), lambda: store.get_status(closed) is not None)
    packs = enumerate(map(Pack, record.packs))
    for _ in context.run(partial(_return_strangers, place=closed), packs):
        pass


def take_tasks(context: JobContext, current: Seen, place: str) -> JobAttempt:
    """Take the files of tasks away to `place`, so that no committer moves one any more; return where
    they are then: where nothing can be frozen, where they were. `CommitStateUnknownError` if they are
    not found."""
    store, job, state = context.store, context.job.with_tasks_in(), current.state
    places = [replace(job, directory=directory) for directory in (place, place + CLOSED_SUFFIX)]

    def find() -> JobAttempt | None:
        is_taken = can_freeze(store, state)
        stagings = (find_staging(store, attempt, state) for attempt in places if is_taken)
        return next(filter(None, stagings), None)

    # A listing can miss what just gets another name: it goes on only when the job's own is here (D6).
    taken = find() or take(replace(context, job=job), current, places[0]) or find()
    if taken is None:
        raise CommitStateUnknownError(
            f"{mark(job.directory)}: its directory with the files of tasks is not found, so it is not "
            "known whether a process can still move them",
            "nothing was taken back: run the same command again; if no process is at work on the job, "
            f"{how_to_mark(store, state, *places, job)} before",
        )
    if taken.directory != job.directory:
        context.sync(place, job.directory)
    elif taken.is_frozen:
        # By name alone is not enough: a committer can give them another name meanwhile.
        raise CommitStateUnknownError(
            f"{mark(taken.tasks)}: holds the files of tasks, since another client has renamed it, and "
            "this one cannot: so a process may still move them",
            "nothing was taken back: run the same command where the commit has run, or with its address "
            "and options",
        )
    return taken


def _take_files(context: JobContext, record: CommitRecord, place: str, taken: JobAttempt) -> None:
    """Take the files from their sources, which `taken` knows, and destinations."""
    overwritten = frozenset(file.path for file in record.overwritten)  # no namesake is replaced yet
    take = partial(
        _take_back_range,
        place=place,
        overwritten=overwritten,
        tasks=taken.tasks,
        is_taken=taken.directory != context.job.directory,
    )
    packs = tuple(map(Pack, record.packs))
    for stays in context.run(take, ranges(context.executor, packs)):
        for path in stays:
            context.notice(
                f"{mark(path)}: is kept, because it is not what the job's manifest says: another "
                "program wrote it, or the job's file was changed; look at it, and remove it if it is "
                "the job's"
            )


def _take_back_range(
    worker: Worker,
    part: PackRange,
    *,
    place: str,
    overwritten: frozenset[str],
    tasks: str,
    is_taken: bool,
) -> list[str]:
    """Work: take back some files of a pack; return the paths that are kept but may be the job's."""
    entries = list(worker.packs.entries(part.pack, part.low, part.high, tasks=tasks))
    refuse_links(worker.store, above_sources(entries, tasks))
    place = join(place, str(part.index))
    take = partial(take_back_entry, worker.store, place, overwritten, is_taken=is_taken)
    return [path for path in worker.map(take, enumerate(entries, part.low)) if path is not None]


def take_back_entry(
    store: StoreOperations,
    place: str,
    overwritten: frozenset[str],
    numbered: tuple[int, Entry],
    *,
    is_taken: bool = False,
) -> str | None:
    """Take a file back; return its destination if the file there is kept but may be the job's. If it
    `is_taken`, its source is in the directory of this undo already, whether it was moved or not."""
    number, entry = numbered
    if isinstance(entry, CompleteUpload):
        return take_back_upload(store, entry, overwritten)
    taken, has_two_names = join(place, str(number)), can_have_two_names(store)
    if not is_taken and _take_source(store, entry, taken) and not has_two_names:
        return None
    source = store.get_status(entry.source if is_taken else taken)
    if source is not None and not has_two_names:
        return None
    return take_from_destination(store, f"{taken}{TAKEN_BACK_SUFFIX}", entry, source)


def _take_source(store: StoreOperations, entry: Rename, taken: str) -> bool:
    """Take a file away from its source, so that no committer can move it; False if it is not there."""
    try:
        old_files_of(store).take(entry.source, taken, entry.version)
    except FileNotFoundError:
        return False
    except FileExistsError:  # an earlier run took it, and a task that should be dead wrote it again
        try:
            old_files_of(store).take(entry.source, f"{taken}-{new_nonce()}", entry.version)
        except (FileNotFoundError, FileExistsError):  # of another version, which no committer moves
            return False
    return True


def take_from_destination(
    store: StoreOperations, back: str, entry: Rename, source: FileStatus | None
) -> str | None:
    """Take a file that was moved back, if it is proved to be the job's; else as `take_back_entry`.
    `source` is what was taken from its source."""
    if store.network_file_system(entry.dest) is not None:
        store.revalidate(parent(entry.dest))
    status = store.get_status(entry.dest)
    if status is None or status.is_directory:
        return None
    proof = _prove(entry, status, source)
    # Without proof it stays, and is named unless the job's own is known to be elsewhere (D6).
    if proof is None:
        is_known = source is not None or store.get_status(back) is not None
        return None if is_known else entry.dest
    if proof is Proof.SIZE_ONLY:
        raise CommitStateUnknownError(
            f"{mark(entry.dest)}: has the size of the file that this job wrote, but the store does not "
            "show whether it is that file",
            "if it is, move it away, and run the same command",
        )
    try:
        old_files_of(store).take(entry.dest, back, status.version)
    except FileNotFoundError:  # another process that undoes the job has taken it, or has ended the undo
        if store.get_status(entry.dest) is not None:
            raise
        return None
    # Looked at where it lies now: another job may have written it before the rename (D6).
    if old_files_of(store).puts_aside and (taken := store.get_status(back)) is not None:
        _return_stranger(store, entry, taken, source)
    return None


def _prove(entry: Entry, status: FileStatus, source: FileStatus | None) -> Proof | None:
    """The proof that a file is the job's; once its own was taken, only a second name of that one is."""
    if source is None:
        return prove(entry.expected, status.observation())
    return Proof.SAME_FILE if source.file_id is not None and source.file_id == status.file_id else None


def _return_strangers(worker: Worker, numbered: tuple[int, Pack], *, place: str) -> None:
    """Work: put back what was taken of the names of one pack after a look, and is not the job's."""
    number, pack = numbered
    try:
        listed = worker.store.list_status(join(place, str(number)))
    except FileNotFoundError:  # another process has ended the undo
        return
    statuses = {status.name: status for status in listed}
    moved = [name for name in statuses if name.endswith(TAKEN_BACK_SUFFIX)]
    entries = list(worker.packs.entries(pack)) if moved else []
    for name in moved:
        source_name = name.removesuffix(TAKEN_BACK_SUFFIX)
        _return_stranger(
            worker.store, entries[int(source_name)], statuses[name], statuses.get(source_name)
        )


def _return_stranger(
    store: StoreOperations, entry: Entry, taken: FileStatus, source: FileStatus | None
) -> None:
    """Put back what was taken from a destination, unless it is the job's file."""
    if taken.is_directory or _prove(entry, taken, source) is None:
        return_stranger(store, taken.path, entry.dest)
