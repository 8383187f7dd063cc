"""Workers are started while tasks run if the commit gains by them, and end with the job."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from ray_committer import CommitOptions
from ray_committer.executors.choose import ahead_pays_from, start_pays_from
from ray_committer.spark.workers_ahead import WorkersAhead

OPTIONS = CommitOptions(workers=8)
AHEAD, COLD = 1_067, 4_267
"""From how many files on 128 requests in flight pay beside 32."""


class Pool:
    """A pool that notes what became of it."""

    reason = "for a test"

    def __init__(self, options: CommitOptions, *, ready: bool) -> None:
        self.options = options
        self.ready = ready
        self.closed = 0

    def is_ready(self) -> bool:
        return self.ready

    def require_open(self) -> None:
        assert not self.closed

    def close(self) -> None:
        self.closed += 1


class Workers:
    """`WorkersAhead` that starts pools of the test."""

    def __init__(self, executor: Any = "auto", *, ready: bool = True) -> None:
        self.pools: list[Pool] = []
        self._ready = ready
        self.ahead = WorkersAhead(executor, self._open)

    def _open(self, options: CommitOptions) -> Pool:
        self.pools.append(Pool(options, ready=self._ready))
        return self.pools[-1]

    def expect(self, job_id: str = "job_1", *, local: bool = False) -> int | None:
        return self.ahead.expect(job_id, OPTIONS, renames_are_local=local)

    def used(self, files: int, job_id: str = "job_1") -> Any:
        """What a commit of so many files runs on."""
        with self.ahead.of(job_id, files) as executor:
            assert not any(pool.closed for pool in self.pools)
            return executor


@pytest.fixture(autouse=True)
def connected(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = SimpleNamespace(is_initialized=lambda: True)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.delitem(sys.modules, "ray.util.client", raising=False)


@pytest.mark.parametrize(
    ("name", "local", "files"),
    [
        ("auto", False, AHEAD),
        ("auto", True, None),
        ("ray", False, 1),
        ("ray", True, 1),
        ("threads", False, None),
        ("inline", False, None),
    ],
)
def test_workers_are_expected_where_the_commit_may_run_on_them(
    name: Any, local: bool, files: int | None
):
    assert ahead_pays_from(name, OPTIONS, renames_are_local=local) == files
    workers = Workers(name)
    assert workers.expect(local=local) == files
    workers.ahead.start("job_1")
    assert len(workers.pools) == (0 if files is None else 1)


def test_nothing_is_expected_without_a_ray_or_on_workers_that_are_there(monkeypatch):
    assert Workers(Pool(OPTIONS, ready=True)).expect() is None
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert [Workers(name).expect() for name in ("auto", "ray")] == [None, None]


def test_workers_that_are_ready_are_used_and_end_with_the_commit():
    workers = Workers()
    assert workers.expect() == AHEAD
    workers.ahead.start("job_1")
    workers.ahead.start("job_1")
    (pool,) = workers.pools
    assert workers.used(AHEAD) is pool
    assert pool.closed == 1
    assert not pool.options.may_start_ray


@pytest.mark.parametrize(
    ("name", "files", "waits"), [("auto", COLD - 1, False), ("auto", COLD, True), ("ray", 1, True)]
)
def test_workers_that_are_not_ready_are_waited_for_only_if_that_pays(name: Any, files: int, waits: bool):
    assert start_pays_from(name, OPTIONS) == (COLD if name == "auto" else 1)
    workers = Workers(name, ready=False)
    workers.expect()
    workers.ahead.start("job_1")
    assert workers.used(files) is (workers.pools[0] if waits else name)
    assert workers.pools[0].closed == 1


def test_a_job_with_too_few_files_starts_none():
    workers = Workers()
    workers.expect()
    assert workers.used(5) == "auto"
    assert workers.pools == []


def test_a_failed_commit_ends_its_workers():
    workers = Workers()
    workers.expect()
    workers.ahead.start("job_1")
    with pytest.raises(OSError, match="simulated"), workers.ahead.of("job_1", AHEAD):
        raise OSError("simulated")
    assert workers.pools[0].closed == 1


def test_an_abort_ends_them_and_who_asks_later_starts_none():
    workers = Workers()
    workers.expect()
    workers.ahead.start("job_1")
    workers.ahead.end("job_1")
    workers.ahead.end("job_1")
    workers.ahead.start("job_1")
    (pool,) = workers.pools
    assert pool.closed == 1


def test_jobs_at_once_have_workers_of_their_own():
    workers = Workers()
    for job_id in ("job_1", "job_2"):
        workers.expect(job_id)
        workers.ahead.start(job_id)
    first, second = workers.pools
    assert workers.used(AHEAD, "job_1") is first
    assert (first.closed, second.closed) == (1, 0)
