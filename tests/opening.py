"""Stores that the public functions open in a test: with hooks, or one in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ray_committer.jobs import open_job
from ray_committer.protocol.paths import FROZEN_TASKS, parent
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import SimulatedCrash, StoreCall, WrappedStore

Hook = Callable[[StoreCall], object]


@contextmanager
def opening(store: StoreOperations | None = None, **hooks: Hook) -> Iterator[None]:
    """Let the public functions find `store` at any URL, if it is given, and call the hooks `before` and
    `after` each request."""
    opened = open_job.open_store
    with pytest.MonkeyPatch.context() as patch:
        hooked = lambda spec, **_: WrappedStore(store or opened(spec), **hooks)  # noqa: E731
        patch.setattr(open_job, "open_store", hooked)
        yield


@contextmanager
def dying(
    before: Callable[[StoreCall], bool], number: int = 1, store: StoreOperations | None = None
) -> Iterator[None]:
    """Let the public functions die before the request of this number for which `before` is true."""
    met: list[StoreCall] = []

    def die(call: StoreCall) -> None:
        if before(call):
            met.append(call)
            if len(met) == number:
                raise SimulatedCrash(call)

    with opening(store, before=die), pytest.raises(SimulatedCrash):
        yield


def is_of_task(path: str) -> bool:
    """Whether a path is among the files of tasks, frozen or not."""
    return "/tasks/" in path or f"/{FROZEN_TASKS}" in path


def moves_a_file(call: StoreCall) -> bool:
    """Whether a request puts a file of a task in its place, or a whole directory of them."""
    is_move = call.operation in ("rename", "move_whole")
    return is_move and is_of_task(f"{parent(call.paths[0])}/")
