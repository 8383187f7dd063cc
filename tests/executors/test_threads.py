"""How many threads work at once: one while work computes, all of them once it waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator

import pytest

from ray_committer.executors.threads import ThreadsExecutor
from ray_committer.testing import SimulatedCrash
from ray_committer.work.worker import Worker


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


def sometimes(found: Callable[[], bool]) -> bool:
    """On a machine that is busy with other things computing looks like waiting, but not each time."""
    end = time.monotonic() + 150
    while time.monotonic() < end:
        if found():
            return True
    return False


def numbers(found: Iterable[list[int]]) -> list[int]:
    """All numbers that were worked on, sorted."""
    return sorted(number for numbers in found for number in numbers)


def test_work_that_computes_is_done_one_after_another(threads):
    def alone() -> bool:
        gauge = Gauge(compute)
        assert numbers(threads().run(gauge, [range(3), range(3, 6)])) == list(range(6))
        return gauge.most == 1

    assert sometimes(alone)


def test_work_that_waits_is_done_by_all_threads_and_so_is_what_follows(threads):
    executor = threads()
    waiting, computing = Gauge(lambda: time.sleep(0.02)), Gauge(compute)
    assert numbers(executor.run(waiting, [range(30), range(30, 60)])) == list(range(60))
    assert waiting.most == 8
    assert numbers(executor.run(computing, [range(10)])) == list(range(10))
    assert computing.most > 1


def test_all_threads_help_with_the_first_item_as_soon_as_it_waits(threads):
    together = threading.Barrier(8, timeout=60)

    def work(worker: Worker, items: range) -> int:
        return len(list(worker.map(lambda _: together.wait(), items)))

    assert list(threads().run(work, [range(16)])) == [16]  # fewer threads would break it


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


def test_what_the_caller_does_between_two_results_is_not_waiting(threads):
    def alone() -> bool:
        gauge = Gauge(compute)
        for _ in threads().run(gauge, [range(number, number + 1) for number in range(5)]):
            time.sleep(0.2)
        return gauge.most == 1

    assert sometimes(alone)


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
