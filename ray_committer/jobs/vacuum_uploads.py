"""Abort uploads below a destination that belong to no job, on a store where a file is an upload.

A process can die between the request that begins an upload and the note of it. A listing of uploads
shows the name, the id, the beginning and the user of each, and nothing of its job. So an upload is an
orphan only if no job names it and its newest part is old. What a job names is left alone at any age, and
so is everything if one of the files that name uploads cannot be read. Hadoop's S3A committer notes an
upload when its file is closed, so everything is left alone while a job of it changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial

from ray_committer.errors import ManifestError, RayCommitterError, mark
from ray_committer.job_files.abort_uploads import Upload, job_uploads
from ray_committer.job_files.listing import jobs_at, list_magic, problem, readable
from ray_committer.jobs.open_job import StorageOptions, open_here
from ray_committer.jobs.vacuum import WEEK_SECONDS, refuse_young
from ray_committer.options import CommitOptions
from ray_committer.protocol.magic_paths import MAGIC, PENDING, PENDINGSET, magic_job_of
from ray_committer.protocol.paths import TEMPORARY, ancestors, is_inside, join
from ray_committer.stages.adopt_job import uploads_in
from ray_committer.stores.at_once import streamed
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.stores.uploads import PendingUpload, pending_uploads
from ray_committer.work.end_upload import end_upload
from ray_committer.work.entries import store_path

_ENDED = "it was completed or aborted in the meantime"
_COMPLETED = "a file came to its place in the meantime, so it may have been completed"
_CHANGES = (
    "a job of Hadoop's S3A committer has changed recently, and not all of its uploads are noted yet"
)
_ANOTHER = "{path} may be another table, because it holds {name}: run vacuum there"


@dataclass(frozen=True, slots=True)
class VacuumedUpload:
    """An upload below the destination that no job there names, and whether it was aborted.

    path: where its file would be; `bytes`: the size of its parts, which are billed.
    age_seconds: since its newest part or, if it has none, since it began; `began_by`: the user who began
        it, as the store names users.
    removed: whether it was aborted or, in a dry run, would be; `reason`: why it was kept, else None.
    """

    path: str
    upload_id: str
    bytes: int
    age_seconds: float
    removed: bool
    began_by: str | None = None
    reason: str | None = None


def vacuum_uploads(
    dest: str,
    *,
    older_than_seconds: float = WEEK_SECONDS,
    dry_run: bool = False,
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
) -> list[VacuumedUpload]:
    """Abort the uploads that no job at the destination names and to which no part was added for
    `older_than_seconds`, at least an hour; none on a store with renames.

    Uploads of a job are aborted by its own abort or clean-up, at any age. If it is not certain that an
    upload belongs to no job, it is kept, and the reason reported. With `dry_run` nothing is aborted.
    """
    refuse_young(older_than_seconds)
    with open_here(dest, options, storage_options) as (store, destination):
        now = time.time_ns() // 1_000_000
        orphans = find_orphans(
            store, destination, older_than_seconds=older_than_seconds, now_milliseconds=now
        )
        return list(streamed(store, lambda orphan: _settle(store, orphan, dry_run=dry_run), orphans))


def _settle(store: StoreOperations, orphan: VacuumedUpload, *, dry_run: bool) -> VacuumedUpload:
    if dry_run or not orphan.removed:
        return orphan
    # Before the abort: a file that came to its place since may be the upload, just completed.
    before = store.get_status(orphan.path)
    was_pending, file = end_upload(store, orphan.path, orphan.upload_id, before)
    reason = None if was_pending and file is None else _COMPLETED if was_pending else _ENDED
    return replace(orphan, removed=reason is None, reason=reason)


def find_orphans(
    store: StoreOperations, destination: str, *, older_than_seconds: float, now_milliseconds: int
) -> Iterator[VacuumedUpload]:
    """The uploads below `destination` that no job names, if no part was added to them for that time;
    those with a reason to stay are not `removed`.

    Jobs at the directories above the destination can write there, too. The uploads are listed before any
    job is looked at: what a job begins after that is too young.
    """
    limit = now_milliseconds - round(older_than_seconds * 1000)
    unnamed = {
        (upload.path, upload.id): upload
        for upload in pending_uploads(store, destination)
        if upload.began_milliseconds is not None and upload.began_milliseconds < limit
    }
    reason = None
    for place in dict.fromkeys((destination, *ancestors(destination, "/"), "/")) if unnamed else ():
        # After the uploads were listed: what a job begins between the two is in no list of this run.
        reason = reason or _without_named(store, place, unnamed, limit)
    measure = partial(_measured, store, _neighbours(store, destination), reason, now_milliseconds, limit)
    orphans = streamed(store, measure, list(unnamed.values()))
    yield from (orphan for orphan in orphans if orphan is not None)


def _without_named(
    store: StoreOperations, destination: str, unnamed: dict[Upload, PendingUpload], limit: int
) -> str | None:
    """Take away from `unnamed` what the jobs of a destination name; why the rest may be theirs."""
    try:
        for attempt in readable(jobs_at(store, destination)):
            for upload in job_uploads(store, attempt):
                unnamed.pop(upload, None)
        files = _magic_files(store, destination)
        for named in streamed(store, partial(_named_by_magic, store, destination), files):
            for upload in named:
                unnamed.pop(upload, None)
        names_now = {file.path for file in _magic_files(store, destination)} if files else set()
    except RayCommitterError as e:
        return e.what
    except PermissionError as e:
        return problem(e, destination)
    except FileNotFoundError:  # a task has committed meanwhile
        return _CHANGES
    if names_now != {file.path for file in files}:  # also between two pages of the first listing
        return _CHANGES
    changes = (file.modified_milliseconds for file in files)
    return _CHANGES if any(at is None or at >= limit for at in changes) else None


def _magic_files(store: StoreOperations, destination: str) -> list[FileStatus]:
    return [file for magic in list_magic(store, destination) for file in store.list_files(magic.path)]


def _named_by_magic(store: StoreOperations, destination: str, status: FileStatus) -> list[Upload]:
    magic = magic_job_of(store.spec.authority, destination, status.path)
    if magic is not None and magic.place_of(status.path) is not None:
        files = uploads_in(store, magic, status)
        return [(store_path(entry.d, store.spec), entry.u or "") for entry in files]
    if status.size and status.name.endswith((PENDING, PENDINGSET)):
        raise ManifestError(f"{mark(status.path)}: names uploads, but it is not known of which job")
    return []


def _neighbours(store: StoreOperations, destination: str) -> Callable[[str], str | None]:
    """A function that says why an upload may belong to another table; None if it does not. It looks at
    each directory below the destination once."""
    of_committers = (f"{join(destination, TEMPORARY)}/", join(destination, MAGIC))

    @cache
    def look(directory: str) -> str | None:
        hidden = store.list_prefix(join(directory, "_"))
        name = min((status.name for status in hidden), default=None)
        return _ANOTHER.format(path=directory, name=name) if name else None

    def reason(path: str) -> str | None:
        above = [] if path.startswith(of_committers) else ancestors(path, "/")
        inside = (directory for directory in above if is_inside(directory, destination))
        return next(filter(None, map(look, inside)), None)

    return reason


def _measured(
    store: StoreOperations,
    neighbours: Callable[[str], str | None],
    reason: str | None,
    now: int,
    limit: int,
    upload: PendingUpload,
) -> VacuumedUpload | None:
    """Ask for the parts of an upload; None if it is gone, or has changed since `limit`."""
    parts = store.uploaded_parts(upload.path, upload.id)
    if parts is None:
        return None
    newest = max(upload.began_milliseconds or 0, parts.newest_milliseconds or 0)
    if newest >= limit:
        return None
    reason = reason or neighbours(upload.path)
    return VacuumedUpload(
        path=upload.path,
        upload_id=upload.id,
        bytes=parts.bytes,
        age_seconds=max(0.0, (now - newest) / 1000),
        removed=reason is None,
        began_by=upload.began_by,
        reason=reason,
    )
