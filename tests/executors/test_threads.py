"""How many threads work at once: one while work computes, all of them once it waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ray_committer.executors.threads import ThreadsExecutor
from ray_committer.testing import SimulatedCrash
from ray_committer.work.worker import Worker
from tests.clock import Clock


class Gauge:
    """Work on numbers by the worker's threads, which tells how many were in progress at once."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.most = 0
        self._work = work
        self._running = 0
        self._lock = threading.Lock()

    def __call__(self, resources: Worker, items: range) -> list[int]:
        return list(resources.map(self._do, items))

    def _do(self, item: int) -> int:
        with self._lock:
            self._running += 1
            self.most = max(self.most, self._running)
        self._work()
        with self._lock:
            self._running -= 1
        return item


def compute() -> None:
    """For longer than Python lets a thread go on beside another."""
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        pass


@pytest.fixture
def threads(store, write_job) -> Iterator[Callable[[], ThreadsExecutor]]:
    job = write_job({0: {"a": "x"}})
    opened: list[ThreadsExecutor] = []

    def make() -> ThreadsExecutor:
        opened.append(
            ThreadsExecutor(lambda permits: Worker(store, job, permits, in_driver=True), threads=8)
        )
        return opened[-1]

    yield make
    for executor in opened:
        executor.close()


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock of what this process computes, so that other processes make nothing look like waiting."""
    idle = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: idle.now + time.process_time())
    return idle


def test_work_that_computes_is_done_one_after_another(threads, busy):
    gauge = Gauge(compute)
    found = threads().run(gauge, [range(3), range(3, 6)])
    assert sorted(number for numbers in found for number in numbers) == list(range(6))
    assert gauge.most == 1


def test_all_threads_help_with_the_first_item_as_soon_as_it_waits_and_with_what_follows(
    threads, request: pytest.FixtureRequest
):
    executor, together = threads(), threading.Barrier(8, timeout=60)

    def work(worker: Worker, items: range) -> int:
        return len(list(worker.map(lambda _: together.wait(), items)))

    assert list(executor.run(work, [range(16)])) == [16]  # fewer threads would break it
    request.getfixturevalue("busy")  # from now on nothing looks like waiting
    assert list(executor.run(work, [range(16)])) == [16]


def test_no_thread_waits_for_the_slowest_request_of_an_item(threads):
    rest_is_done, done = threading.Event(), list[int]()

    def request(number: int) -> None:
        if number == 0:
            assert rest_is_done.wait(60)
        done.append(number)
        if len(done) == 199:
            rest_is_done.set()

    def work(worker: Worker, items: range) -> None:
        worker.for_each(request, items)

    for _ in threads().run(work, [range(20 * part, 20 * (part + 1)) for part in range(10)]):
        pass
    assert done[-1] == 0


def test_others_go_on_beside_a_first_piece_of_work_that_hangs(threads):
    released, done = threading.Event(), []

    def work(_: Worker, item: int) -> int:
        if item == 0:
            assert released.wait(60)
        return item

    for item in threads().run(work, range(50)):
        done.append(item)
        if len(done) == 49:
            released.set()
    assert done[-1] == 0


def test_what_the_caller_does_between_two_results_is_not_waiting(threads, busy):
    gauge = Gauge(compute)
    for _ in threads().run(gauge, [range(number, number + 1) for number in range(5)]):
        busy.now += 0.2
    assert gauge.most == 1


@pytest.mark.parametrize("error", [ValueError, SimulatedCrash, KeyboardInterrupt])
def test_an_exception_leaves_only_after_the_items_in_progress_have_ended(threads, error):
    begun, failed, ended = threading.Event(), threading.Event(), list[str]()

    def work(_: Worker, item: str) -> None:
        if item == "fails":
            assert begun.wait(60)
            failed.set()
            raise error(item)
        begun.set()
        assert failed.wait(60)
        ended.append(item)

    with pytest.raises(error, match="fails"):
        list(threads().run(work, ["slow", "fails", *["never begun"] * 50]))
    assert "slow" in ended
    assert len(ended) <= 2
