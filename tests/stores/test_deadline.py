"""Calls that are left behind when they take too long."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ray_committer.stores.deadline import DeadlineThreads
from tests.threads import running_threads


@pytest.fixture
def others() -> set[threading.Thread]:
    """The threads of other tests."""
    return running_threads()


def wait_until_left(others: set[threading.Thread], number: int) -> None:
    deadline = time.monotonic() + 5.0
    while len(running_threads() - others) > number and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(running_threads() - others) == number


def test_a_call_has_its_arguments_and_gives_its_result():
    assert DeadlineThreads(5.0).call(divmod, 7, 2) == (3, 1)
    assert DeadlineThreads(5.0).call(sorted, [1, 2], reverse=True) == [2, 1]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_what_a_call_raises_is_raised_where_it_was_asked_for(error: type[BaseException]):
    threads = DeadlineThreads(5.0)

    def fail() -> None:
        raise error

    with pytest.raises(error):
        threads.call(fail)
    assert threads.call(int) == 0


def test_a_call_that_takes_too_long_is_left_and_its_result_goes_nowhere(others: set[threading.Thread]):
    threads, go = DeadlineThreads(0.2), threading.Event()
    with pytest.raises(TimeoutError, match=r"no answer within 0.2 s"):
        threads.call(lambda: go.wait() and "late")
    go.set()
    assert [threads.call(str, number) for number in range(100)] == [str(n) for n in range(100)]
    wait_until_left(others, 1)


@pytest.mark.slow
def test_the_first_call_that_ends_has_to_end_sooner():
    threads = DeadlineThreads(30.0, first_seconds=1.0)
    with pytest.raises(TimeoutError, match="no answer within 1 s"):
        threads.call(time.sleep, 2.0)
    threads.call(int)
    threads.call(time.sleep, 1.5)


def test_calls_at_once_have_a_thread_each_and_each_its_own_result(others: set[threading.Thread]):
    threads, together = DeadlineThreads(5.0), threading.Barrier(8)

    def call(number: int) -> int:
        return threads.call(lambda: together.wait(5.0) * 0 + number)

    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            assert list(pool.map(call, range(8))) == list(range(8))
    wait_until_left(others, 8)


def test_threads_end_with_whom_they_were_for(others: set[threading.Thread]):
    threads = DeadlineThreads(5.0)
    threads.call(int)
    wait_until_left(others, 1)
    del threads
    wait_until_left(others, 0)
