"""The answer to a question about a commit: how long, how many requests, for how much, by how many."""

from __future__ import annotations

from dataclasses import dataclass

from ray_committer.estimate.inputs import Job, Setup
from ray_committer.estimate.simulate import Estimate, simulate, simulate_lost_driver
from ray_committer.estimate.workers import Enough, enough_workers


@dataclass(frozen=True, slots=True)
class Answer:
    """An estimate, the price of its requests, if there is one, and how many workers are enough, if there
    are any."""

    estimate: Estimate
    dollars: float | None
    enough: Enough | None


def answer(job: Job, setup: Setup, *, lost_driver: bool = False) -> Answer:
    """Simulate the commit of a job, also with other numbers of workers."""
    found = simulate_lost_driver(job, setup) if lost_driver else simulate(job, setup)
    enough = enough_workers(job, setup) if setup.workers else None
    return Answer(found, dollars(found, setup), enough)


def dollars(found: Estimate, setup: Setup) -> float | None:
    """The list price of the requests; None if the store has none."""
    prices = setup.store.prices
    if prices is None:
        return None
    each = prices.per_thousand
    return sum(each.get(kind, 0.0) * number for kind, number in found.requests.items()) / 1000
