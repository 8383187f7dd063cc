"""A coordinator that is lost is renewed and filled again, but not for ever."""

from __future__ import annotations

from typing import Any

import pytest

from ray_committer.errors import CoordinatorLostError
from ray_committer.executors.directories import DirectoryCoordinator
from ray_committer.executors.inline import InlineExecutor
from ray_committer.options import CommitOptions
from ray_committer.protocol.record import ConflictMode
from ray_committer.stages.context import JobContext
from ray_committer.stages.load_manifests import LoadedManifests
from ray_committer.stages.run.coordinator_loss import (
    COORDINATORS,
    load_with_coordinator,
    with_coordinator,
)
from ray_committer.testing import MemoryStore, run_commit, visible_files, write_job
from ray_committer.testing.harness import load_ahead, put_file
from ray_committer.work.worker import Worker
from tests.stages.support import JOB, context, loaded, staged_name


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

    def forget(self) -> None:
        self._live("forget")
        super().forget()

    def collect(self, batch, directories, files) -> None:
        self._live("collect")
        super().collect(batch, directories, files)

    def plan(self) -> int:
        self._live("plan")
        return super().plan()


class LostAt:
    """A coordinator that is lost at one call, by its number, and answers none until it is renewed."""

    def __init__(self, number: int | None = None) -> None:
        self._known = DirectoryCoordinator()
        self._number, self.calls, self.renewals, self._is_lost = number, 0, 0, False

    def __getattr__(self, method: str) -> Any:
        self._is_lost = self._is_lost or self.calls == self._number
        self.calls += 1
        if self._is_lost:
            raise CoordinatorLostError("the coordinator was lost")
        return getattr(self._known, method)

    def renew(self) -> None:
        self._known, self._is_lost, self.renewals = DirectoryCoordinator(), False, self.renewals + 1


def with_tasks(kind: str, losses: int) -> tuple[JobContext, Mortal]:
    store, coordinator = MemoryStore(), Mortal(kind, losses)
    write_job(store, JOB, {task: {f"p={task}/a": b"x"} for task in range(3)})
    executor = InlineExecutor(lambda permits: Worker(store, JOB, permits, in_driver=True))
    executor.directories = coordinator
    return context(store, executor=executor), coordinator


def load(found: JobContext) -> LoadedManifests:
    return load_with_coordinator(found, lambda: loaded(found))


def plan(found: JobContext, coordinator: Mortal) -> int:
    return with_coordinator(found, coordinator.plan, lambda: loaded(found))


@pytest.mark.parametrize("kind", ["forget", "collect"])
@pytest.mark.parametrize("losses", [0, 1, COORDINATORS])
def test_manifests_are_loaded_again_after_each_loss(kind: str, losses: int):
    found, coordinator = with_tasks(kind, losses)
    assert load(found).files == 3
    assert coordinator.renewals == losses
    assert coordinator.plan() == 3
    assert found.journal.notices == ["the coordinator was lost; the manifests are loaded again"] * losses


@pytest.mark.parametrize("losses", [0, 1, COORDINATORS])
def test_a_step_runs_again_with_all_that_the_coordinator_had_known(losses: int):
    found, coordinator = with_tasks("plan", losses)
    load(found)
    assert plan(found, coordinator) == 3
    assert coordinator.renewals == losses


def test_what_is_lost_again_and_again_stops():
    found, _ = with_tasks("collect", COORDINATORS + 1)
    with pytest.raises(CoordinatorLostError):
        load(found)
    found, coordinator = with_tasks("plan", COORDINATORS + 1)
    with pytest.raises(CoordinatorLostError):
        plan(found, coordinator)


@pytest.mark.parametrize("mode", ConflictMode)
@pytest.mark.parametrize("ahead", [False, True])
def test_a_whole_commit_ends_whichever_call_of_the_coordinator_is_lost(mode: ConflictMode, ahead: bool):
    unharmed = LostAt()
    commit(unharmed, mode, ahead=ahead)
    assert unharmed.calls > len(("forget", "collect", "plan", "claim", "finish"))
    for number in range(unharmed.calls):
        coordinator = LostAt(number)
        commit(coordinator, mode, ahead=ahead)
        assert coordinator.renewals == 1


def commit(coordinator: Any, mode: ConflictMode, *, ahead: bool) -> None:
    """Commit a job, of which a task may have been loaded ahead, and look at what is there: two of three
    directories go whole. One that replaces data takes two old files' places."""
    names = ["p=0/a", *(f"p={task}/{staged_name('a', task)}" for task in (1, 2))]
    store, tasks = MemoryStore(), {task: {name: b"new"} for task, name in enumerate(names)}
    if mode is ConflictMode.OVERWRITE:
        put_file(store, "/table/p=0/a", b"old and longer")
        put_file(store, "/table/p=9/b", b"old")
    results = write_job(store, JOB, tasks, mode=mode)
    executor = InlineExecutor(lambda permits: Worker(store, JOB, permits, in_driver=True))
    executor.directories = coordinator
    options = CommitOptions(mode=mode, validate=True, durable=True)
    if ahead:
        options = options.changed(committed_tasks=tuple(results))
    loaded = load_ahead(store, JOB, results[:1]) if ahead else None
    report = run_commit(store, JOB, options, executor=executor, ahead=loaded)
    assert (report.moved, report.proved, report.whole) == (3, {}, 2)
    assert visible_files(store, JOB.destination) == dict.fromkeys(names, b"new")


def test_any_other_error_of_a_step_passes_at_once():
    found, coordinator = with_tasks("plan", 0)
    tries: list[None] = []

    def fail() -> None:
        tries.append(None)
        raise TimeoutError("simulated")

    with pytest.raises(TimeoutError):
        with_coordinator(found, fail, lambda: loaded(found))
    assert (len(tries), coordinator.renewals) == (1, 0)
