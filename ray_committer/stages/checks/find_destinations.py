"""Find the files of a job that have given fingerprints: the second check, by the names themselves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ray_committer.protocol.fingerprints import fingerprint
from ray_committer.protocol.pack import Pack
from ray_committer.stages.context import JobContext
from ray_committer.work.worker import Worker


def find_destinations(
    context: JobContext, packs: Sequence[Pack], wanted: frozenset[bytes]
) -> list[tuple[str, str]]:
    """The destinations with a wanted fingerprint, each with what goes there; reads all packs."""
    results = context.executor.run(partial(_find, wanted=wanted), packs)
    return [hit for hits in results for hit in hits]


def _find(worker: Worker, pack: Pack, *, wanted: frozenset[bytes]) -> list[tuple[str, str]]:
    recorded = worker.packs.entries(pack)
    return [(entry.dest, entry.whence) for entry in recorded if fingerprint(entry.dest) in wanted]
