"""A coordinator that is lost is renewed and filled again, but not for ever."""

from __future__ import annotations

import pytest

from ray_committer.directories import DirectoryCoordinator
from ray_committer.errors import CoordinatorLostError
from ray_committer.executors.inline import InlineExecutor
from ray_committer.stages.context import JobContext
from ray_committer.stages.coordinator_loss import _COORDINATORS, load_with_coordinator, with_coordinator
from ray_committer.stages.worker import Worker
from ray_committer.testing import MemoryStore, write_job
from tests.stages.support import JOB, context


class Mortal(DirectoryCoordinator):
    """Is lost at each of the first `losses` calls of one kind, and empty until it is renewed."""

    def __init__(self, kind: str, losses: int) -> None:
        super().__init__()
        self.kind, self.losses, self.renewals = kind, losses, 0

    def _live(self, kind: str) -> None:
        if kind == self.kind and self.losses:
            self.losses -= 1
            raise CoordinatorLostError("the coordinator was lost")

    def renew(self) -> None:
        self.renewals += 1
        super().__init__()

    def collect(self, batch, directories, files) -> None:
        self._live("collect")
        super().collect(batch, directories, files)

    def plan(self) -> int:
        self._live("plan")
        return super().plan()


def with_tasks(kind: str, losses: int) -> tuple[JobContext, Mortal]:
    store, coordinator = MemoryStore(), Mortal(kind, losses)
    write_job(store, JOB, {task: {f"p={task}/a": b"x"} for task in range(3)})
    executor = InlineExecutor(lambda: Worker(store, JOB, in_driver=True))
    executor.directories = coordinator
    return context(store, executor=executor), coordinator


@pytest.mark.parametrize("losses", [0, 1, _COORDINATORS])
def test_manifests_are_loaded_again_after_each_loss(losses: int):
    found, coordinator = with_tasks("collect", losses)
    assert load_with_coordinator(found, None, ("/table",)).files == 3
    assert coordinator.renewals == losses
    assert coordinator.plan() == 3
    assert found.journal.notices == ["the coordinator was lost; the manifests are loaded again"] * losses


def test_a_load_that_is_lost_again_and_again_stops():
    found, _ = with_tasks("collect", _COORDINATORS + 1)
    with pytest.raises(CoordinatorLostError):
        load_with_coordinator(found, None, ("/table",))


@pytest.mark.parametrize("losses", [0, 1, _COORDINATORS])
def test_a_step_runs_again_with_all_that_the_coordinator_had_known(losses: int):
    found, coordinator = with_tasks("plan", losses)
    load_with_coordinator(found, None, ("/table",))
    assert with_coordinator(found, coordinator.plan, None, ("/table",)) == 3
    assert coordinator.renewals == losses


def test_a_step_that_is_lost_again_and_again_stops():
    found, coordinator = with_tasks("plan", _COORDINATORS + 1)
    with pytest.raises(CoordinatorLostError):
        with_coordinator(found, coordinator.plan, None, ("/table",))


def test_any_other_error_of_a_step_passes_at_once():
    found, coordinator = with_tasks("plan", 0)
    tries: list[None] = []

    def fail() -> None:
        tries.append(None)
        raise TimeoutError("simulated")

    with pytest.raises(TimeoutError):
        with_coordinator(found, fail, None, ("/table",))
    assert (len(tries), coordinator.renewals) == (1, 0)
