"""Abort uploads that belong to no job, on a store where a file is an upload until it is completed."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ray_committer.jobs.open_job import StorageOptions, open_here
from ray_committer.jobs.orphaned_uploads import Orphan, find_orphans
from ray_committer.jobs.vacuum import WEEK_SECONDS, refuse_young
from ray_committer.options import CommitOptions
from ray_committer.stores.at_once import streamed
from ray_committer.stores.base import StoreOperations
from ray_committer.work.end_upload import end_upload

_DEFAULTS = CommitOptions()
_ENDED = "it was completed or aborted in the meantime"
_COMPLETED = "a file came to its place in the meantime, so it may have been completed"


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
    options: CommitOptions = _DEFAULTS,
    storage_options: StorageOptions | None = None,
) -> list[VacuumedUpload]:
    """Abort the uploads that no job at the destination names and to which no part was added for
    `older_than_seconds`, at least an hour; none on a store with renames.

    Uploads of a job are those of its own abort or clean-up, at any age. If it is not certain that an
    upload belongs to no job, it is kept, and the reason reported. With `dry_run` nothing is aborted.
    """
    refuse_young(older_than_seconds)
    with open_here(dest, options, storage_options) as (store, destination):
        now = time.time_ns() // 1_000_000
        found = find_orphans(
            store, destination, older_than_seconds=older_than_seconds, now_milliseconds=now
        )
        return list(streamed(store, lambda one: _settle(store, one, now, dry_run=dry_run), found))


def _settle(store: StoreOperations, orphan: Orphan, now: int, *, dry_run: bool) -> VacuumedUpload:
    upload, reason = orphan.upload, orphan.kept
    if reason is None and not dry_run:
        before = store.get_status(upload.path)
        was_pending, found = end_upload(store, upload.path, upload.id, before)
        reason = None if was_pending and found is None else _COMPLETED if was_pending else _ENDED
    return VacuumedUpload(
        path=upload.path,
        upload_id=upload.id,
        bytes=orphan.bytes,
        age_seconds=max(0.0, (now - orphan.newest_milliseconds) / 1000),
        removed=reason is None,
        began_by=upload.began_by,
        reason=reason,
    )
