"""Find which files of a job have given fingerprints: the second look, at the names themselves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ray_committer.protocol.fingerprints import fingerprint
from ray_committer.protocol.record import ManifestRef
from ray_committer.stages.context import JobContext
from ray_committer.stages.entries import entries
from ray_committer.stages.worker import Worker


def find_destinations(
    context: JobContext, manifests: Sequence[ManifestRef], wanted: frozenset[bytes]
) -> list[tuple[str, str]]:
    """The destinations with a wanted fingerprint, each with its manifest's name; reads all manifests."""
    work = partial(_find_in_manifest, wanted=wanted)
    results = context.executor.run_tasks(work, manifests)
    return [(path, name) for name, paths in results for path in paths]


def _find_in_manifest(
    worker: Worker, ref: ManifestRef, *, wanted: frozenset[bytes]
) -> tuple[str, list[str]]:
    """Work: the destinations of one manifest that have a wanted fingerprint."""
    destinations = (entry.dest for entry in entries(worker.recorded_manifest(ref), worker.store.spec))
    return ref.name, [path for path in destinations if fingerprint(path) in wanted]
