"""Compare what is at the destination with what the manifests say, before the job counts as committed.

One listing a directory, no request a file. Finds sources that changed after their manifest was saved.
Hadoop's stage of this name runs after ``_SUCCESS`` and clean-up, when there is no way back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from zlib import crc32

from ray_committer.errors import ValidationError
from ray_committer.protocol.paths import parent
from ray_committer.protocol.record import ManifestRef
from ray_committer.protocol.recovery import prove
from ray_committer.stages.context import JobContext
from ray_committer.stages.entries import Entry, entries
from ray_committer.stages.worker import Worker
from ray_committer.stores.base import FileStatus, StoreOperations

FILES_A_BUCKET = 250_000
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Bucket:
    """The destination directories whose hash modulo `buckets` is `number`."""

    number: int
    buckets: int


def validate_renamed_files(context: JobContext, manifests: Sequence[ManifestRef]) -> int:
    """List every destination directory once; returns the files compared.

    `ValidationError` names the first differences. Each worker parses all manifests but keeps only
    its share of the directories, so memory is bounded whatever the job's size.
    """
    files = sum(manifest.files for manifest in manifests)
    count = max(min(context.executor.width, -(-files // 1000)), -(-files // FILES_A_BUCKET))
    work = partial(_validate_bucket, manifests=tuple(manifests))
    buckets = context.until_cancelled(Bucket(number, count) for number in range(count))
    compared, differences = 0, []
    for checked, found in context.executor.run_on_workers(work, buckets):
        compared += checked
        differences += found
    context.check_cancelled()
    if differences:
        shown = "; ".join(sorted(differences)[:SHOWN])
        raise ValidationError(f"{len(differences)} or more files differ from their manifests: {shown}")
    return compared


def _validate_bucket(
    worker: Worker, bucket: Bucket, *, manifests: tuple[ManifestRef, ...]
) -> tuple[int, list[str]]:
    """Work: compare one share of the directories; at most a few differences are returned."""
    expected: dict[str, list[Entry]] = defaultdict(list)
    for manifest in manifests:
        for entry in entries(worker.recorded_manifest(manifest), worker.store.spec):
            directory = parent(entry.dest)
            if crc32(directory.encode()) % bucket.buckets == bucket.number:
                expected[directory].append(entry)
    compare = partial(_compare_directory, worker.store)
    differences = [text for texts in worker.map(compare, expected.items()) for text in texts]
    return sum(map(len, expected.values())), differences[:SHOWN]


def _compare_directory(store: StoreOperations, item: tuple[str, list[Entry]]) -> list[str]:
    directory, files = item
    try:
        found = {status.path: status for status in store.list_status(directory)}
    except FileNotFoundError:
        found = {}
    texts = (_difference(entry, found.get(entry.dest)) for entry in files)
    return [text for text in texts if text]


def _difference(entry: Entry, found: FileStatus | None) -> str | None:
    if found is None:
        return f"{entry.dest}: is missing"
    if found.is_directory:
        return f"{entry.dest}: is a directory"
    if found.size != entry.expected.size:
        return f"{entry.dest}: has {found.size} bytes, its manifest says {entry.expected.size}"
    if prove(entry.expected, found.observation()) is None:
        return f"{entry.dest}: was changed after its manifest was saved"
    return None
