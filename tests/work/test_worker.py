"""A worker maps its items with its own threads, and ends them."""

from __future__ import annotations

import pytest

from ray_committer.executors.base import Place
from ray_committer.limits.permits import Permits
from ray_committer.limits.ratelimit import RateLimit
from ray_committer.testing import MemoryStore
from ray_committer.work.worker import Worker
from tests.stages.support import JOB
from tests.threads import running_threads


def worker(store, concurrency: int = 1) -> Worker:
    permits = Permits(RateLimit(), "worker", is_here=True)
    return Worker(store, JOB, permits, concurrency, in_driver=True)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_every_item_is_worked_on_whatever_the_concurrency(concurrency: int):
    own = worker(MemoryStore(), concurrency)
    assert sorted(own.map(str, range(20))) == sorted(map(str, range(20)))
    own.close()


def test_closing_ends_its_threads_and_its_requests():
    before = running_threads()
    own = worker(MemoryStore(), 4)
    list(own.map(str, range(4)))
    started = running_threads() - before
    assert len(started) == 4
    own.close()
    own.close()
    for thread in started:
        thread.join(10)
    assert not any(thread.is_alive() for thread in started)


def test_the_requests_that_are_guarded_are_counted_once():
    own = worker(MemoryStore())
    assert own.store.take_statistics().counters == {}
    own.store.mkdirs("/table")
    assert own.store.take_statistics().counters["op_mkdirs"] == 1
    assert own.store.take_statistics().counters == {}


def test_a_worker_is_where_its_executor_puts_it_or_in_this_process():
    own = worker(MemoryStore())
    assert own.where().worker == "the driver"
    own.place = Place("worker 7", "10.0.0.1", 42)
    assert own.where() == own.place
