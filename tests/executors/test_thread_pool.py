"""A pool of threads: every item once, the first error to whoever waits, nothing left behind."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from ray_committer.executors.thread_pool import ThreadPool
from ray_committer.testing import SimulatedCrash
from tests.threads import running_threads


@pytest.mark.parametrize("size", [1, 2, 16])
@pytest.mark.parametrize("items", [1, 2, 1000])
def test_every_item_is_worked_on_once(size: int, items: int):
    pool, seen = ThreadPool(size), list[int]()

    def double(item: int) -> int:
        seen.append(item)
        return 2 * item

    assert sorted(pool.map(double, iter(range(items)))) == [2 * item for item in range(items)]
    assert Counter(seen) == Counter(range(items))
    pool.close()


def test_results_that_are_none_are_results():
    pool = ThreadPool(3)
    assert list(pool.map(lambda _: None, range(5))) == [None] * 5
    pool.close()


def test_no_items_need_no_thread():
    before = running_threads()
    assert list(ThreadPool(4).map(str, [])) == []
    assert running_threads() - before == set()


def test_as_many_are_worked_on_at_once_as_there_are_threads():
    pool, together = ThreadPool(4), threading.Barrier(4, timeout=10)
    assert len(list(pool.map(lambda _: together.wait(), range(8)))) == 8  # fewer would break it
    names = {crew_thread.name for crew_thread in threading.enumerate()}
    assert "ray-committer" in names
    pool.close()


def test_several_callers_get_their_own_results():
    pool, of_others = ThreadPool(3), set(threading.enumerate())

    def call(number: int) -> list[tuple[int, int]]:
        return sorted(pool.map(lambda item: (number, item), range(50)))

    with ThreadPoolExecutor(8) as callers:
        found = list(callers.map(call, range(40)))
    assert found == [[(number, item) for item in range(50)] for number in range(40)]
    own = set(threading.enumerate()) - of_others
    assert sum(thread.name == "ray-committer" for thread in own) == 3
    pool.close()


@pytest.mark.parametrize("error", [ValueError, SimulatedCrash, KeyboardInterrupt, SystemExit])
def test_the_first_exception_is_raised_and_nothing_begun_after_it(error: type[BaseException]):
    pool, begun = ThreadPool(1), list[int]()

    def work(item: int) -> None:
        begun.append(item)
        if item >= 3:
            raise error(item)

    with pytest.raises(error) as caught:
        list(pool.map(work, range(100)))
    assert caught.value.args == (3,)
    assert begun == [0, 1, 2, 3]
    assert list(pool.map(str, [1])) == ["1"]  # its threads live on
    pool.close()


def test_an_exception_is_raised_only_when_what_is_in_progress_has_ended():
    pool, begun, failed, ended = ThreadPool(2), threading.Event(), threading.Event(), list[str]()

    def work(item: str) -> None:
        if item == "fails":
            assert begun.wait(10)
            failed.set()
            raise ValueError(item)
        begun.set()
        assert failed.wait(10)
        ended.append(item)

    with pytest.raises(ValueError):
        list(pool.map(work, ["slow", "fails"]))
    assert ended == ["slow"]
    pool.close()


def test_of_two_exceptions_the_first_is_raised():
    pool, begun, failed = ThreadPool(2), threading.Barrier(2, timeout=10), threading.Event()
    soon = threading.Timer(0.05, failed.set)  # when the first failure has been noted

    def work(item: str) -> None:
        begun.wait()
        if item == "first":
            soon.start()
        else:
            assert failed.wait(10)
        raise ValueError(item)

    with pytest.raises(ValueError, match="first"):
        list(pool.map(work, ["later", "first"]))
    soon.join()
    pool.close()


def test_the_failure_of_one_caller_is_not_that_of_another():
    pool, both = ThreadPool(2), threading.Barrier(2, timeout=10)

    def fail(_: int) -> None:
        both.wait()
        raise ValueError

    def succeed(item: int) -> int:
        both.wait()
        return item

    with ThreadPoolExecutor(2) as callers:
        failing = callers.submit(pool.map, fail, [1])
        assert list(pool.map(succeed, [2])) == [2]
        with pytest.raises(ValueError):
            failing.result(timeout=10)
    pool.close()


def test_each_result_is_in_the_place_of_its_item_and_the_caller_works_too():
    pool, together = ThreadPool(2), threading.Barrier(3, timeout=10)

    def work(item: int) -> int:
        together.wait()  # two threads would break it
        return 2 * item

    assert pool.each(work, [1, 2, 3]) == [2, 4, 6]
    assert pool.each(work, []) == []
    pool.close()


def test_each_item_has_ended_before_the_first_exception_in_their_order_is_raised():
    pool, failed, ended = ThreadPool(2), threading.Event(), list[str]()

    def work(item: str) -> None:
        if item == "last":
            failed.set()
        else:
            assert failed.wait(10)
        ended.append(item)
        if item != "second":
            raise ValueError(item)

    with pytest.raises(ValueError, match="first"):
        pool.each(work, ["first", "second", "last"])
    assert sorted(ended) == ["first", "last", "second"]
    pool.close()


def test_after_an_error_no_other_item_begins():
    pool, begun = ThreadPool(4), list[int]()

    def work(item: int) -> None:
        begun.append(item)
        raise ValueError

    with pytest.raises(ValueError):
        pool.each(work, range(1_000))
    assert len(begun) <= 5
    pool.close()


def test_an_interrupt_is_not_hidden_by_an_error_of_the_block_or_of_an_earlier_item():
    pool, both = ThreadPool(1), threading.Barrier(2, timeout=10)

    def work(error: type[BaseException]) -> None:
        both.wait()
        raise error

    with pytest.raises(SimulatedCrash):
        pool.each(work, [ValueError, SimulatedCrash])

    def fail() -> None:
        with pool.beside(work, [SimulatedCrash]):
            both.wait()
            raise KeyError

    with pytest.raises(SimulatedCrash):
        fail()
    pool.close()


def test_what_no_thread_has_begun_when_the_block_fails_is_never_begun():
    pool, busy, over = ThreadPool(1), threading.Event(), threading.Event()

    def wait() -> None:
        busy.set()
        assert over.wait(10)

    pool.begin(wait)
    assert busy.wait(10)
    made: list[int] = []

    def fail() -> None:
        with pool.beside(made.append, [1, 2]):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    over.set()
    assert pool.each(str, [1, 2]) == ["1", "2"]
    assert made == []
    pool.close()


def test_calls_within_calls_wait_for_no_thread_that_waits():
    pool = ThreadPool(2)

    def below(depth: int) -> int:
        return 1 if depth == 0 else sum(pool.each(below, [depth - 1] * 3))

    assert below(4) == 3**4
    pool.close()


def test_what_is_beside_a_block_is_done_by_its_end():
    pool, begun, over = ThreadPool(1), threading.Event(), threading.Event()

    def work(item: int) -> int:
        begun.set()
        assert over.wait(10)
        return item

    with pool.beside(work, [1, 2]) as ended:
        assert begun.wait(10)
        assert ended == []
        over.set()
    assert ended == [1, 2]
    pool.close()


def test_what_is_beside_a_block_that_fails_has_ended_when_that_is_known():
    pool, begun, ended = ThreadPool(2), threading.Barrier(3, timeout=10), list[int]()

    def work(item: int) -> None:
        begun.wait()
        ended.append(item)

    def fail() -> None:
        with pool.beside(work, [1, 2]):
            begun.wait()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert sorted(ended) == [1, 2]
    pool.close()


def test_on_a_machine_without_room_for_more_threads_those_that_there_are_do_the_work():
    pool, before = ThreadPool(4), threading.stack_size()
    assert list(pool.map(str, [0])) == ["0"]
    one = running_threads()
    threading.stack_size(1 << 46)
    try:
        assert sorted(pool.map(str, range(8))) == [str(number) for number in range(8)]
        with pytest.raises(RuntimeError):
            ThreadPool(4).map(str, range(8))
    finally:
        threading.stack_size(before)
    assert running_threads() == one
    pool.close()


def test_close_ends_every_thread_once_its_work_is_done():
    before = running_threads()
    pool = ThreadPool(5)
    list(pool.map(str, range(9)))
    assert len(running_threads() - before) == 5
    pool.close()
    pool.close()
    assert running_threads() - before == set()
