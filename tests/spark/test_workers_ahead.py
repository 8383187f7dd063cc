"""Workers are started while tasks run if the commit gains by them, and end with the job."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ray_committer import CommitOptions
from ray_committer.errors import RayNotAvailableError
from ray_committer.executors.base import Readiness
from ray_committer.executors.choose import start_pays_from
from ray_committer.spark.workers_ahead import WorkersAhead

OPTIONS = CommitOptions(workers=8)
AHEAD, COLD = 1_067, 3_200
"""From how many files on 128 requests in flight pay beside 32."""


class Pool:
    """A pool that notes what became of it."""

    reason = "for a test"

    def __init__(self, about: str, standing: Readiness) -> None:
        self.about = about
        self.standing = standing
        self.closed = 0

    def readiness(self) -> Readiness:
        assert not self.closed
        return self.standing

    def require_open(self) -> None:
        assert not self.closed

    def close(self) -> None:
        self.closed += 1


class Workers:
    """`WorkersAhead` that starts pools of the test; `opening` is done before each is there."""

    def __init__(
        self,
        executor: Any = "auto",
        standing: Readiness = Readiness.READY,
        *,
        opening: Callable[[], object] = lambda: None,
    ) -> None:
        self.pools: list[Pool] = []
        self.options: list[CommitOptions] = []
        self._standing = standing
        self._opening = opening
        self.ahead = WorkersAhead(executor, self._open)

    def _open(self, options: CommitOptions, about: str) -> Pool:
        self._opening()
        self.options.append(options)
        self.pools.append(Pool(about, self._standing))
        return self.pools[-1]

    def expect(self, job_id: str = "job_1", dest: str = "gs://b/t") -> int | None:
        return self.ahead.expect(job_id, dest, OPTIONS)

    def used(self, files: int, job_id: str = "job_1") -> Any:
        """What a commit of so many files runs on; workers that it does not use have ended by then."""
        with self.ahead.of(job_id, files) as executor:
            assert all(bool(pool.closed) == (pool is not executor) for pool in self.pools)
            return executor


@pytest.fixture(autouse=True)
def connected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: True))
    monkeypatch.delitem(sys.modules, "ray.util.client", raising=False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.mark.parametrize(
    ("name", "dest", "files"),
    [
        ("auto", "gs://b/t", AHEAD),
        ("auto", "/t", None),
        ("auto", "file:/t", None),
        ("ray", "gs://b/t", 1),
        ("ray", "/t", 1),
        ("threads", "gs://b/t", None),
        ("inline", "gs://b/t", None),
    ],
)
def test_workers_are_expected_where_the_commit_may_run_on_them(name: Any, dest: str, files: int | None):
    workers = Workers(name)
    assert workers.expect(dest=dest) == files
    workers.ahead.start("job_1")
    assert len(workers.pools) == (0 if files is None else 1)
    assert workers.used(1_000) == (name if files is None else workers.pools[0])


def test_nothing_is_expected_unless_this_driver_is_connected(monkeypatch):
    assert Workers(Pool("given", Readiness.READY)).expect() is None
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False))
    assert [Workers(name).expect() for name in ("auto", "ray")] == [None, None]
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    assert [Workers(name).expect() for name in ("auto", "ray")] == [None, None]


def test_a_ray_that_does_not_answer_hinders_no_job(monkeypatch):
    def fail() -> bool:
        raise ConnectionError("simulated")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=fail))
    workers = Workers()
    assert workers.expect() is None
    assert workers.used(5) == "auto"


def test_workers_that_are_ready_are_used_and_end_with_the_commit():
    workers = Workers()
    assert workers.expect() == AHEAD
    workers.ahead.start("job_1")
    workers.ahead.start("job_1")
    (pool,) = workers.pools
    assert workers.used(AHEAD) is pool
    assert (pool.closed, pool.about) == (1, "job_1 at gs://b/t")


@pytest.mark.parametrize(
    ("name", "standing", "files", "used"),
    [
        ("auto", Readiness.STARTING, COLD - 1, False),
        ("auto", Readiness.STARTING, COLD, True),
        ("auto", Readiness.TOO_FEW, COLD - 1, True),
        ("auto", Readiness.TOO_FEW, COLD, False),
        ("auto", Readiness.LOST, 10**6, False),
        ("ray", Readiness.STARTING, 1, True),
        ("ray", Readiness.TOO_FEW, 1, False),
        ("ray", Readiness.LOST, 1, False),
    ],
)
def test_workers_that_are_not_as_wanted_are_used_only_if_others_would_be_no_better(
    name: Any, standing: Readiness, files: int, used: bool
):
    assert start_pays_from(name, OPTIONS) == (COLD if name == "auto" else 1)
    workers = Workers(name, standing)
    workers.expect()
    workers.ahead.start("job_1")
    assert workers.used(files) is (workers.pools[0] if used else name)
    assert workers.pools[0].closed == 1


def test_a_job_with_too_few_files_starts_none():
    workers = Workers()
    workers.expect()
    assert workers.used(5) == "auto"
    assert workers.pools == []


def test_workers_that_cannot_be_started_hinder_no_commit():
    def fail() -> None:
        raise RayNotAvailableError("simulated")

    for workers in (Workers(opening=fail), Workers("ray", opening=fail)):
        workers.expect()
        workers.ahead.start("job_1")
        assert workers.used(AHEAD) in ("auto", "ray")


def test_without_room_beside_the_tasks_there_are_none():
    ahead = WorkersAhead("auto", lambda _, __: None)
    ahead.expect("job_1", "gs://b/t", OPTIONS)
    ahead.start("job_1")
    with ahead.of("job_1", AHEAD) as executor:
        assert executor == "auto"


def test_workers_that_are_there_too_late_are_ended():
    """The commit does not wait for their start, which is in another thread."""
    workers = Workers(opening=lambda: used.append(workers.used(AHEAD)))
    used: list[Any] = []
    workers.expect()
    workers.ahead.start("job_1")
    assert used == ["auto"]
    assert [pool.closed for pool in workers.pools] == [1]


def test_who_asks_for_workers_while_the_job_is_committed_starts_none():
    workers = Workers("ray")
    workers.expect()
    with workers.ahead.of("job_1", AHEAD) as executor:
        workers.ahead.start("job_1")
        assert (executor, workers.pools) == ("ray", [])


def test_a_failed_commit_ends_its_workers_and_nothing_hides_its_error():
    workers = Workers()
    workers.expect()
    workers.ahead.start("job_1")
    (pool,) = workers.pools
    pool.close = lambda: 1 / 0  # type: ignore[method-assign]
    with pytest.raises(OSError, match="simulated"), workers.ahead.of("job_1", AHEAD):
        raise OSError("simulated")


@pytest.mark.parametrize("end", ["end", "end_all"])
def test_an_abort_ends_them_and_who_asks_later_starts_none(end: str):
    workers = Workers()
    workers.expect()
    workers.ahead.start("job_1")
    for _ in range(2):
        workers.ahead.end("job_1") if end == "end" else workers.ahead.end_all()
    workers.ahead.start("job_1")
    (pool,) = workers.pools
    assert pool.closed == 1


def test_a_commit_keeps_its_workers_when_those_of_other_jobs_end():
    workers = Workers()
    for job_id in ("job_1", "job_2"):
        workers.expect(job_id)
        workers.ahead.start(job_id)
    first, second = workers.pools
    with workers.ahead.of("job_1", AHEAD) as executor:
        workers.ahead.end_all()
        assert executor is first
        assert (first.closed, second.closed) == (0, 1)
