"""Check, before the record, that every upload of the job still waits for its completion.

A rule of the bucket, or a person, can abort an upload. After the record such a file is lost; before it,
the job can be run again. The store lists 1,000 uploads in one request. Most often these are exactly the
job's, as their number and the sum of their fingerprints show; otherwise eight bytes of each are
compared. Some servers list uploads for an exact name alone, so what is not listed is asked for by its
id. Of an adopted job, some can be completed. The rule is read only if an upload is an hour old.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from hashlib import blake2b

from ray_committer.protocol.actions import CompleteUpload, Place
from ray_committer.protocol.fingerprints import WIDTH, common, fingerprint, fingerprints
from ray_committer.protocol.pack import Pack
from ray_committer.stages.checks.sources import sources_error
from ray_committer.stages.context import JobContext
from ray_committer.stores.uploads import PendingUpload, upload_pages
from ray_committer.work.complete_entry import place_of
from ray_committer.work.sources import WrongSources, wrong_sources
from ray_committer.work.worker import Worker

HOUR_MILLISECONDS = 3_600_000
DAY_MILLISECONDS = 24 * HOUR_MILLISECONDS
_WARNING = (
    "{url}: in less than a day, a rule of the bucket aborts uploads of this job, and the files of those "
    "that are not completed by then are lost: finish the commit at once, and give the rule more days"
)
KEPT = 1_000_000
"""The most fingerprints that are kept; if more are needed, the uploads are listed again."""
Tally = tuple[int, int]
NOTHING: Tally = (0, 0)


def check_uploads(context: JobContext, packs: Sequence[Pack], allowed_roots: Sequence[str] = ()) -> None:
    """`ManifestError` names uploads of a job that are gone; nothing is done on a store with renames."""
    roots = context.output.uploading((context.job.destination, *allowed_roots))
    if not roots or not any(pack.files for pack in packs):
        return
    there = _list(context, roots, KEPT)
    # Equal numbers and equal sums of fingerprints: to hide one aborted upload, another one would need to
    # have a name with the same 16 bytes. Most commits end here.
    if there.tally == reduce(_sum, context.run(_tally_of_pack, packs), NOTHING):
        _warn(context, any_is_old=bool(there.old))
        return
    listed = there.marks if there.marks is not None else _list(context, roots, None).marks or b""
    wrong, any_is_old = list[WrongSources](), False
    for pack in packs:
        (marks,) = context.run(_marks_of_pack, [pack])
        each = [marks[at : at + WIDTH] for at in range(0, len(marks), WIDTH)]
        known = common([listed], marks)
        any_is_old = any_is_old or not there.old.isdisjoint(each)
        unlisted = [(pack, index) for index, mark in enumerate(each) if mark not in known]
        gone = partial(_gone_in_batch, is_adopted=context.is_adopted)
        wrong += [group for group in context.run_batches(gone, unlisted) if group is not None]
    _warn(context, any_is_old=any_is_old)
    if wrong:
        raise sources_error(context.job, wrong)


@dataclass(frozen=True, slots=True)
class _Listed:
    """The tally of all pending uploads, their fingerprints unless there are too many, and the
    fingerprints of the uploads that a rule of the bucket soon aborts."""

    tally: Tally
    marks: bytes | None
    old: frozenset[bytes]


class _AbortRule:
    """What the rule of the bucket soon aborts; it is read for the first upload that is an hour old."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._now = context.now_milliseconds()

    def concerns(self, upload: PendingUpload) -> bool:
        """Whether the rule aborts this upload in less than a day."""
        began = upload.began_milliseconds
        if began is None or began > self._now - HOUR_MILLISECONDS:
            return False
        return self._limit is not None and began < self._limit

    @cached_property
    def _limit(self) -> int | None:
        """None without a rule, and if it cannot be read, which does not concern the commit."""
        try:
            days = self._context.store.abort_days(self._context.job.destination)
        except OSError:
            return None
        # A day is kept in reserve: the commit itself takes time, and the rule runs once a day.
        return None if days is None else self._now - (days - 1) * DAY_MILLISECONDS


def _list(context: JobContext, roots: Sequence[str], limit: int | None) -> _Listed:
    """List all pending uploads; no fingerprints are kept if there are more than `limit`."""
    tally, marks, old, rule = NOTHING, bytearray(), set[bytes](), _AbortRule(context)
    for root in roots:
        for page in upload_pages(context.store, root):
            context.check_cancelled()
            fresh = [_name(upload.path, upload.id) for upload in page]
            tally = _sum(tally, _tally(fresh))
            # A bucket with millions of uploads of other jobs must not fill the memory of the driver.
            if limit is None or tally[0] <= limit:
                marks += fingerprints(fresh)
            old.update(
                fingerprint(_name(upload.path, upload.id)) for upload in page if rule.concerns(upload)
            )
    are_kept = limit is None or tally[0] <= limit
    return _Listed(tally, bytes(marks) if are_kept else None, frozenset(old))


def _warn(context: JobContext, *, any_is_old: bool) -> None:
    if any_is_old:
        context.notice_once(_WARNING.format(url=context.url))


def _tally_of_pack(worker: Worker, pack: Pack) -> Tally:
    return _tally(map(_name_of, _uploads(worker, pack)))


def _tally(names: Iterable[str]) -> Tally:
    """The number of uploads, and the sum of 16-byte fingerprints, which depends on no order."""
    sums = [int.from_bytes(blake2b(name.encode(), digest_size=16).digest()) for name in names]
    return len(sums), sum(sums)


def _sum(left: Tally, right: Tally) -> Tally:
    return left[0] + right[0], left[1] + right[1]


def _marks_of_pack(worker: Worker, pack: Pack) -> bytes:
    return fingerprints(map(_name_of, _uploads(worker, pack)))


def _gone_in_batch(
    worker: Worker, batch: tuple[tuple[Pack, int], ...], *, is_adopted: bool
) -> WrongSources | None:
    """Work: which of some uploads of a pack the store does not have, after all."""
    uploads = list(_uploads(worker, batch[0][0]))
    look = partial(_look_at, worker, is_adopted=is_adopted)
    return wrong_sources(list(worker.map(look, [uploads[index] for _, index in batch])))


def _look_at(
    worker: Worker, upload: CompleteUpload, *, is_adopted: bool
) -> tuple[CompleteUpload, str | None]:
    """The upload, and what is wrong if it is gone."""
    is_there = worker.store.is_pending(upload.dest, upload.id)
    if not is_there and is_adopted:
        is_there = place_of(upload, worker.store.get_status(upload.dest)) is Place.SAME_ETAG
    gone = f"its upload {upload.id} is gone: completed or aborted by another program or a rule"
    return upload, None if is_there else gone


def _uploads(worker: Worker, pack: Pack) -> Iterator[CompleteUpload]:
    loaded = worker.packs.entries(pack)
    return (entry for entry in loaded if isinstance(entry, CompleteUpload))


def _name_of(upload: CompleteUpload) -> str:
    return _name(upload.dest, upload.id)


def _name(path: str, upload: str) -> str:
    return f"{path}\0{upload}"
