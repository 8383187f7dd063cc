"""The parts of a simulation: events in order, a server, a gate, a lane."""

from __future__ import annotations

import math

import pytest

from ray_committer.estimate.events import Gate, Lane, Loop, Server


def test_events_run_in_the_order_of_their_times_also_those_that_events_add():
    loop, seen = Loop(), []
    loop.at(2.0, lambda: seen.append(("last", loop.now)))
    loop.at(1.0, lambda: loop.at(1.5, lambda: seen.append(("added", loop.now))))
    loop.run()
    assert seen == [("added", 1.5), ("last", 2.0)]


def test_events_of_one_time_run_as_they_were_added():
    loop, seen = Loop(), []
    for number in range(5):
        loop.at(1.0, lambda number=number: seen.append(number))
    loop.run()
    assert seen == [0, 1, 2, 3, 4]


def test_a_server_serves_one_after_the_other():
    server = Server()
    assert server.serve(1.0, 2.0) == 3.0
    assert server.serve(1.5, 2.0) == 5.0
    assert server.serve(9.0, 1.0) == 10.0
    assert server.busy == 5.0


def test_a_gate_lets_so_many_pass_per_second():
    gate = Gate(10)
    assert gate.take(0.0, 20) == 2.0
    assert gate.take(1.0, 10) == 3.0
    assert gate.take(5.0, 10) == 6.0


def test_a_gate_that_doubles_lets_pass_what_the_integral_of_its_rate_is():
    gate = Gate(1000, doubles=1200)
    seconds = gate.take(0.0, 10_000_000)
    passed = sum(1000 * 2 ** (second / 1200) for second in range(round(seconds)))
    assert passed == pytest.approx(10_000_000, rel=0.001)
    assert seconds < 10_000


@pytest.mark.parametrize(("items", "waves"), [(1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_a_lane_works_in_waves_of_its_threads(items: int, waves: int):
    begin, end = Lane(4).work(1.0, items, 0.5)
    assert (begin, end) == (1.0, pytest.approx(1.0 + 0.5 * waves))


def test_threads_that_one_call_leaves_idle_begin_the_next_one():
    lane = Lane(4)
    lane.work(0.0, 6, 1.0)
    begin, end = lane.work(0.0, 6, 1.0)
    assert (begin, end) == (1.5, 3.0)  # twelve items are three waves, not four


def test_a_lane_without_work_begins_when_there_is_some():
    lane = Lane(2)
    lane.work(0.0, 2, 1.0)
    assert lane.work(7.0, 2, 1.0) == (7.0, 8.0)
    lane.wait_until(20.0)
    assert lane.work(10.0, 2, 1.0) == (20.0, 21.0)
    assert lane.lost == math.inf
