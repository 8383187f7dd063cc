"""Check, before the record, that every upload of the job still waits for its completion.

An upload can have been aborted by a rule of the bucket, or by a person. After the record such a file is
lost; before it, the job can be given up and run again. The store lists 1,000 uploads in one request, and
this process keeps eight bytes of each. Some servers list uploads for an exact name alone, so what is not
listed is asked for by its id before it counts as gone. Of an adopted job, the committer that left it can
have completed some: then the file is at its destination.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from ray_committer.job_files.abort_uploads import mark as upload_mark
from ray_committer.protocol.actions import Place
from ray_committer.protocol.fingerprints import WIDTH, common, fingerprint
from ray_committer.protocol.paths import join
from ray_committer.protocol.record import ManifestRef
from ray_committer.stages.check_sources import sources_error
from ray_committer.stages.context import JobContext
from ray_committer.stores.base import completing, pending_uploads
from ray_committer.work.batches import batches
from ray_committer.work.complete_entry import place_of
from ray_committer.work.entries import Entry, entries
from ray_committer.work.sources import WrongSources, wrong_sources
from ray_committer.work.worker import Worker

DAY_MILLISECONDS = 86_400_000
_WARNING = (
    "{url}: in less than a day, a rule of the bucket aborts uploads of this job, and the files of those "
    "that are not completed by then are lost: finish the commit at once, and give the rule more days"
)

Marks = tuple[ManifestRef, bytes]
"""A manifest and the fingerprints of its uploads, in their order."""


def check_uploads(
    context: JobContext, manifests: Sequence[ManifestRef], allowed_roots: Sequence[str] = ()
) -> None:
    """`ManifestError` names uploads of a job that are gone; nothing is done on a store with renames."""
    if not context.store.capabilities.completes_uploads or not any(one.files for one in manifests):
        return
    listed, old = _listed(context, (context.job.destination, *allowed_roots))
    looked = list(_looked_for(context, manifests, listed, old))
    if any(are_old for _, _, are_old in looked):
        context.notice_once(_WARNING.format(url=context.url))
    unlisted = [(ref, missing) for ref, missing, _ in looked if missing]
    wrong: list[WrongSources] = []
    work = context.until_cancelled(batches(context.executor, unlisted))
    gone_in_batch = partial(_gone_in_batch, is_adopted=context.is_adopted)
    for found in context.executor.run(gone_in_batch, work):
        wrong += found
    context.check_cancelled()
    if wrong:
        raise sources_error(sorted(wrong, key=lambda one: one.manifest))


def _listed(context: JobContext, roots: Sequence[str]) -> tuple[bytes, frozenset[bytes]]:
    """The fingerprints of all pending uploads, and of those that a rule of the store soon aborts."""
    days = _abort_days(context)
    limit = None if days is None else context.now_milliseconds() - (days - 1) * DAY_MILLISECONDS
    listed, old = bytearray(), set[bytes]()
    for root in roots:
        for one in pending_uploads(context.store, root):
            mark = upload_mark(one.path, one.id)
            listed += mark
            if limit is not None and (one.began_milliseconds or limit) < limit:
                old.add(mark)
    return bytes(listed), frozenset(old)


def _abort_days(context: JobContext) -> int | None:
    """The days of the rule; None also if it cannot be read, which does not concern the commit."""
    try:
        return completing(context.store).abort_days(context.job.destination)
    except OSError:
        return None


def _looked_for(
    context: JobContext, manifests: Sequence[ManifestRef], listed: bytes, old: frozenset[bytes]
) -> Iterator[tuple[ManifestRef, frozenset[bytes], bool]]:
    """The manifests, each with the fingerprints of those of its uploads that were not listed, and
    whether one of the others is `old`."""
    work = context.until_cancelled(batches(context.executor, manifests))
    for batch in context.executor.run(_marks_of_batch, work):
        there = common([listed], b"".join(marks for _, marks in batch))
        for ref, marks in batch:
            each = frozenset(marks[at : at + WIDTH] for at in range(0, len(marks), WIDTH))
            yield ref, each - there, not each.isdisjoint(old)


def _marks_of_batch(worker: Worker, refs: tuple[ManifestRef, ...]) -> list[Marks]:
    """Work: the fingerprints of the uploads of some manifests."""
    return list(worker.map(lambda ref: (ref, b"".join(map(_mark, _entries(worker, ref)))), refs))


def _gone_in_batch(
    worker: Worker, batch: tuple[tuple[ManifestRef, frozenset[bytes]], ...], *, is_adopted: bool
) -> list[WrongSources]:
    """Work: those of some uploads that the store does not have, after all."""

    def look(item: tuple[ManifestRef, frozenset[bytes]]) -> WrongSources | None:
        ref, wanted = item
        suspects = [entry for entry in _entries(worker, ref) if _mark(entry) in wanted]
        found = [(entry, _is_gone(worker, entry, is_adopted=is_adopted)) for entry in suspects]
        return wrong_sources(join(worker.job.manifests, ref.name), found)

    return [wrong for wrong in worker.map(look, batch) if wrong is not None]


def _is_gone(worker: Worker, entry: Entry, *, is_adopted: bool) -> str | None:
    upload = entry.upload
    if upload is None or completing(worker.store).is_pending(upload.dest, upload.id):
        return None
    if is_adopted and place_of(entry, upload, worker.store.get_status(upload.dest)) is Place.SAME_ETAG:
        return None
    return f"its upload {upload.id} is gone: completed or aborted by another program or a rule"


def _entries(worker: Worker, ref: ManifestRef) -> list[Entry]:
    return list(entries(worker.recorded(ref).manifest, worker.store.spec))


def _mark(entry: Entry) -> bytes:
    return upload_mark(entry.dest, entry.upload.id) if entry.upload else fingerprint("")
