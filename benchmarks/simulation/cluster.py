"""What a simulated commit runs on: a driver, lanes and a store with limits; how they do one step."""

from __future__ import annotations

import math
from collections import deque
from functools import partial

from ray_committer.jobs.estimate import LIST, READ, turn

from . import costs
from .calls import Call, Calls
from .events import Gate, Lane, Loop, Server
from .inputs import Setup
from .steps import Step

DEPTH = 2
"""The calls that a worker on Ray has at once, as in `executors/ray/pool_job.py`."""
_LOOK_SECONDS = 0.02
"""How long one thread works before others do, as `executors/threads.py` has it."""


class Cluster:
    """The clock of a commit, and all that it can wait for."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.loop = Loop()
        self.driver = Server()
        self.lanes = [
            Lane(setup.threads, setup.slowness if number < setup.slow else 1.0)
            for number in range(setup.lanes)
        ]
        self.reads = self.writes = None
        if (limit := setup.store.limit) is not None:
            self.writes = Gate(limit.writes, limit.doubles)
            self.reads = self.writes if limit.are_one else Gate(limit.reads, limit.doubles)

    def limited(self) -> float:
        """For how many seconds, so far, the store let requests pass as fast as its limit allows."""
        return max((gate.busy for gate in (self.reads, self.writes) if gate is not None), default=0.0)

    def pass_gates(self, now: float, step: Step, items: float) -> float:
        """When the limit of the store has let the requests of some items pass, of which the first come
        now."""
        reads = sum(number for kind, number in step.each.items() if kind in (READ, LIST))
        writes = sum(step.each.values()) - reads
        passed = now
        for gate, number in ((self.reads, reads), (self.writes, writes)):
            if gate is not None and number:
                passed = max(passed, gate.take(now, number * items))
        return passed


def share_items(cluster: Cluster, step: Step) -> None:
    """Let the lanes of a cluster do the items of a step; its clock then shows when all are done."""
    _Sharing(cluster, step).run()
    cluster.loop.now = max(cluster.loop.now, cluster.driver.free)


class _Sharing:
    """The items of a step, and the lanes that do them. A lane gets its next call when one has ended."""

    def __init__(self, cluster: Cluster, step: Step) -> None:
        self._cluster, self._step = cluster, step
        self._is_on_ray = bool(cluster.setup.workers)
        self._calls = Calls(step, cluster.setup)
        self._again: deque[Call] = deque()
        self._left = step.items
        self._seconds = seconds_an_item(step, cluster.setup)

    def run(self) -> None:
        loop, lanes = self._cluster.loop, self._cluster.lanes
        loop.now += costs.STAGE.value * self._cluster.setup.busy if self._is_on_ray else 0.0
        for number, lane in enumerate(lanes):
            lane.begin(loop.now if self._is_on_ray or not number else loop.now + _LOOK_SECONDS)
        self._lose_some()
        for _ in range(DEPTH if self._is_on_ray else 1):
            for lane in lanes:
                self._feed(lane)
        loop.run()
        if self._left:
            raise AssertionError(f"{self._left} items of {self._step.stage!r} were not done")

    def _lose_some(self) -> None:
        """Let lanes be lost when half of the files are moved."""
        setup, lanes = self._cluster.setup, self._cluster.lanes
        if setup.lost and self._step.are_files:
            half = self._step.items / 2 * self._seconds / (len(lanes) * setup.threads)
            for lane in lanes[-setup.lost :]:
                lane.lost = self._cluster.loop.now + half

    def _feed(self, lane: Lane) -> None:
        """Give a lane its next call, if it has room and there is one."""
        now = self._cluster.loop.now
        depth = DEPTH if self._is_on_ray and lane.slowness <= DEPTH else 1
        if lane.given >= depth or now >= lane.lost:
            return
        call = self._again.popleft() if self._again else self._calls.next()
        if call is None:
            return
        lane.given += 1
        sent = self._cluster.driver.serve(now, self._driver_seconds(call))
        arrives = sent + (costs.CALL_ON_THE_WAY.value if self._is_on_ray else 0.0)
        seconds = self._seconds * lane.slowness * (1 + 2 * call.done)
        begin, end = lane.work(arrives, call.items, seconds)
        passed = self._cluster.pass_gates(begin, self._step, call.items)
        if passed > end:
            lane.wait_until(passed)
            end = passed
        if end > lane.lost:
            call.done = max(0.0, lane.lost - begin) / (end - begin)
            self._cluster.loop.at(lane.lost + costs.LOSS_SEEN.value, partial(self._lose, lane, call))
        else:
            self._cluster.loop.at(end, partial(self._end, lane, call, end - begin))

    def _end(self, lane: Lane, call: Call, seconds: float) -> None:
        lane.given -= 1
        self._left -= call.items
        self._calls.learn(seconds * lane.threads / call.items)
        self._feed(lane)

    def _lose(self, lane: Lane, call: Call) -> None:
        """Give the call of a lost worker to another one, and start a new one in its place."""
        self._again.append(call)
        lane.given -= 1
        if lane.given == 0:
            back = self._cluster.loop.now + costs.WORKER_START.value
            lane.lost = math.inf
            lane.begin(back)
            self._cluster.loop.at(back, partial(self._feed, lane))
        for other in self._cluster.lanes:
            if self._again and other is not lane:
                self._feed(other)

    def _driver_seconds(self, call: Call) -> float:
        a_call = costs.DRIVER_CALL if self._is_on_ray else costs.THREAD_CALL
        seconds = a_call.value * call.calls
        return seconds * self._cluster.setup.busy


def seconds_an_item(step: Step, setup: Setup) -> float:
    """How long an item takes a thread: its requests, and its turn at the processor of its process."""
    weights = setup.store.weights
    requests = sum(number * weights.get(kind, 1) for kind, number in step.each.items())
    waits = requests * (setup.latency + costs.REQUEST.value) if setup.latency else 0.0
    processes = setup.lanes if setup.workers else 1
    threads = setup.threads if setup.workers else setup.lanes
    at_work = min(processes, step.items)
    share = setup.busy * (max(1.0, at_work / setup.cores) if setup.cores else 1.0)
    at_once = min(threads, -(-step.items // processes))
    return waits + turn(at_once, waits, step.processor * share)
