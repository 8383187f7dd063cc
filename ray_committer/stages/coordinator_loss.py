"""Go on when the coordinator is lost: it runs again, empty, and the manifests tell it everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ray_committer.errors import CoordinatorLostError
from ray_committer.stages.context import JobContext

T = TypeVar("T")

_COORDINATORS = 5  # how many are lost before the commit stops


def load_with_coordinator(context: JobContext, load: Callable[[], T]) -> T:
    """Load the manifests anew; again if the coordinator is lost meanwhile with what it has collected."""
    for _ in range(_COORDINATORS):
        try:
            context.executor.directories.forget()
            return load()
        except CoordinatorLostError as e:
            context.notice(f"{e}; the manifests are loaded again")
            context.executor.directories.renew()
    return load()


def with_coordinator(context: JobContext, step: Callable[[], T], load: Callable[[], object]) -> T:
    """Run a step that needs what the coordinator has collected, after `load` again if that was lost."""
    for _ in range(_COORDINATORS):
        try:
            return step()
        except CoordinatorLostError as e:
            context.notice(f"{e}; the manifests are loaded again")
            context.executor.directories.renew()
            load_with_coordinator(context, load)
    return step()
