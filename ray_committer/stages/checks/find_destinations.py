"""Find the files of a job that have given fingerprints: the second check, by the names themselves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ray_committer.protocol.fingerprints import fingerprint
from ray_committer.protocol.record import ManifestRef
from ray_committer.stages.context import JobContext
from ray_committer.work.batches import batches
from ray_committer.work.entries import entries
from ray_committer.work.worker import Worker


def find_destinations(
    context: JobContext, manifests: Sequence[ManifestRef], wanted: frozenset[bytes]
) -> list[tuple[str, str]]:
    """The destinations with a wanted fingerprint, each with its manifest's name; reads all manifests."""
    work = partial(_find_in_batch, wanted=wanted)
    results = context.executor.run(work, batches(context.executor, manifests))
    return [hit for batch in results for hit in batch]


def _find_in_batch(
    worker: Worker, refs: tuple[ManifestRef, ...], *, wanted: frozenset[bytes]
) -> list[tuple[str, str]]:
    """Work: the destinations of some manifests that have a wanted fingerprint."""

    def find(ref: ManifestRef) -> list[tuple[str, str]]:
        loaded = entries(worker.recorded(ref).manifest, worker.store.spec)
        return [(entry.dest, ref.name) for entry in loaded if fingerprint(entry.dest) in wanted]

    return [hit for hits in worker.map(find, refs) for hit in hits]
