"""How many threads work at once: one while work computes, all of them once it waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ray_committer.executors.threads import ThreadsExecutor
from ray_committer.stages.worker import Worker


class Gauge:
    """Work that tells how many of it ran at once."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.most = 0
        self._work = work
        self._running = 0
        self._lock = threading.Lock()

    def __call__(self, resources: Worker, item: int) -> int:
        with self._lock:
            self._running += 1
            self.most = max(self.most, self._running)
        self._work()
        with self._lock:
            self._running -= 1
        return item


def compute(seconds: float = 0.002) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@pytest.fixture
def threads(store, write_job) -> Iterator[Callable[[], ThreadsExecutor]]:
    job = write_job({0: {"a": "x"}})
    opened: list[ThreadsExecutor] = []

    def make() -> ThreadsExecutor:
        opened.append(ThreadsExecutor(lambda: Worker(store, job, in_driver=True), threads=8))
        return opened[-1]

    yield make
    for executor in opened:
        executor.close()


def test_work_that_computes_is_done_one_after_another(threads):
    def at_once() -> int:
        gauge = Gauge(compute)
        assert sorted(threads().run_tasks(gauge, range(20))) == list(range(20))
        return gauge.most

    # On a machine that is busy with other things, computing can look like waiting, but not each time.
    assert any(at_once() == 1 for _ in range(10))


def test_work_that_waits_is_done_by_all_threads_and_so_is_what_follows(threads):
    executor = threads()
    waiting, computing = Gauge(lambda: time.sleep(0.02)), Gauge(compute)
    assert sorted(executor.run_tasks(waiting, range(60))) == list(range(60))
    assert waiting.most == 8
    assert sorted(executor.run_tasks(computing, range(100))) == list(range(100))
    assert computing.most > 1


def test_others_go_on_beside_a_first_piece_of_work_that_hangs(threads):
    released, done = threading.Event(), []

    def work(_: Worker, item: int) -> int:
        if item == 0:
            assert released.wait(60)
        return item

    for item in threads().run_tasks(work, range(50)):
        done.append(item)
        if len(done) == 49:
            released.set()
    assert done[-1] == 0


def test_what_the_caller_does_between_two_results_is_not_waiting(threads):
    gauge = Gauge(compute)

    def slow_caller() -> int:
        for _ in threads().run_tasks(gauge, range(5)):
            time.sleep(0.05)
        return gauge.most

    assert any(slow_caller() == 1 for _ in range(5))
