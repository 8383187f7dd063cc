"""Go on when the coordinator is lost: it runs again, empty, and the manifests tell it everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ray_committer.errors import CoordinatorLostError
from ray_committer.protocol.record import CommitRecord
from ray_committer.stages.context import JobContext
from ray_committer.stages.load_manifests import LoadedManifests, load_manifests

T = TypeVar("T")

_COORDINATORS = 5  # how many are lost before the commit stops


def load_with_coordinator(
    context: JobContext, record: CommitRecord | None, roots: tuple[str, ...]
) -> LoadedManifests:
    """Load the manifests, again if the coordinator was lost meanwhile with what it had collected."""
    for _ in range(_COORDINATORS):
        try:
            return load_manifests(context, record, roots)
        except CoordinatorLostError as e:
            context.notice(f"{e}; the manifests are loaded again")
            context.executor.directories.renew()
    return load_manifests(context, record, roots)


def with_coordinator(
    context: JobContext, step: Callable[[], T], record: CommitRecord | None, roots: tuple[str, ...]
) -> T:
    """Run a step that needs what the coordinator has collected, again if that was lost meanwhile."""
    for _ in range(_COORDINATORS):
        try:
            return step()
        except CoordinatorLostError as e:
            context.notice(f"{e}; the manifests are loaded again")
            context.executor.directories.renew()
            load_with_coordinator(context, record, roots)
    return step()
