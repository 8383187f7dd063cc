"""Continue after the coordinator was lost: it runs again, empty, and the manifests are loaded again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ray_committer.errors import CoordinatorLostError, why
from ray_committer.stages.context import JobContext

T = TypeVar("T")

COORDINATORS = 5  # how many are lost before the commit stops


def load_with_coordinator(context: JobContext, load: Callable[[], T]) -> T:
    """Load the manifests from the start; again if the coordinator is lost with the data that it has."""
    for _ in range(COORDINATORS):
        try:
            # Also in a coordinator that was not lost: an earlier attempt may have collected a part.
            context.executor.directories.forget()
            return load()
        except CoordinatorLostError as e:
            context.notice(f"{why(e)}; the manifests are loaded again")
            context.executor.directories.renew()
    return load()


def with_coordinator(context: JobContext, step: Callable[[], T], load: Callable[[], object]) -> T:
    """Run a step that needs the coordinator's data; if that is lost, `load` it and run `step` again."""
    for _ in range(COORDINATORS):
        try:
            return step()
        except CoordinatorLostError as e:
            context.notice(f"{why(e)}; the manifests are loaded again")
            context.executor.directories.renew()
            load_with_coordinator(context, load)
    return step()
