"""Simulate a commit: its steps, one after another, on a cluster.

Calls are the smallest things that are simulated, not files: 10^8 files are some 10^6 shards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from . import costs
from .cluster import Cluster, share_items
from .inputs import Job, Setup
from .steps import START, Step, requests_of, steps
from .stores import MOVES

SECOND_RUN = "the same command again"


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a commit takes: the seconds of each stage, and the requests of each kind.

    driver: the share of the longest stage in which the driver computes.
    limit: the share of it in which the store's limit lets no more requests pass.
    """

    stages: Mapping[str, float]
    requests: Mapping[str, float]
    driver: float
    limit: float

    @property
    def seconds(self) -> float:
        return sum(self.stages.values())


def simulate(job: Job, setup: Setup, *, moved: float = 0.0) -> Estimate:
    """Simulate a commit; or one that is run again, when a share of the files was `moved` already."""
    cluster, found = Cluster(setup), steps(job, setup, moved=moved)
    stages: dict[str, float] = defaultdict(float)
    computed: dict[str, float] = defaultdict(float)
    limited: dict[str, float] = defaultdict(float)
    if setup.workers and not setup.warm:
        stages[START] = cluster.loop.now = costs.WORKER_START.value * setup.busy
    for step in found:
        begun, busy, full = cluster.loop.now, cluster.driver.busy, cluster.limited()
        _run(cluster, step)
        stages[step.stage] += cluster.loop.now - begun
        computed[step.stage] += cluster.driver.busy - busy
        limited[step.stage] += cluster.limited() - full
    longest, seconds = max(stages.items(), key=lambda one: one[1])
    return Estimate(
        dict(stages), requests_of(found), computed[longest] / seconds, limited[longest] / seconds
    )


def _run(cluster: Cluster, step: Step) -> None:
    """Make the requests of the driver, and then let the lanes do the items."""
    setup = cluster.setup
    a_request = setup.latency + costs.REQUEST.value if setup.latency else 0.0
    cluster.loop.now += step.rounds * a_request + step.driver * setup.busy
    if step.items:
        share_items(cluster, step)


def simulate_lost_driver(job: Job, setup: Setup) -> Estimate:
    """Simulate a commit whose driver dies when half of the files are moved, and that is run again."""
    first, second = simulate(job, setup), simulate(job, setup, moved=0.5)
    names = list(first.stages)
    stages = {name: first.stages[name] for name in names[: names.index(MOVES)]}
    stages[MOVES] = first.stages[MOVES] / 2
    stages[SECOND_RUN] = costs.SILENCE.value + second.seconds
    requests = defaultdict(float, second.requests)
    for kind, number in first.requests.items():
        requests[kind] += number / 2
    return Estimate(stages, requests, second.driver, second.limit)
