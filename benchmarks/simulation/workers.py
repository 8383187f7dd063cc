"""How many workers are worth it: beyond which number a commit gets no faster, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ray_committer.jobs.estimate import MOST_WORKERS, NEAR

from .inputs import Job, Setup
from .simulate import Estimate, simulate
from .stores import LOAD, MOVES


@dataclass(frozen=True, slots=True)
class Enough:
    """The smallest number of workers that is enough, the time with them, and what is waited for then."""

    workers: int
    seconds: float
    reason: str


def enough_workers(job: Job, setup: Setup) -> Enough:
    """Find the least number of workers, up to 1,024, with which the commit is as good as fastest."""
    known: dict[int, Estimate] = {}

    def seconds(workers: int) -> float:
        if workers not in known:
            known[workers] = simulate(job, replace(setup, workers=workers, slow=0, lost=0))
        return known[workers].seconds

    doubled, number = [1], 1
    while number < MOST_WORKERS and seconds(number) <= 1.5 * min(map(seconds, doubled)):
        number *= 2
        doubled.append(number)
    best = min(map(seconds, doubled))
    high = next(one for one in doubled if seconds(one) <= NEAR * best)
    low = high // 2
    while high - low > max(1, high // 16):
        middle = (low + high) // 2
        low, high = (low, middle) if seconds(middle) <= NEAR * best else (middle, high)
    return Enough(high, seconds(high), _reason(job, setup, known[high], high))


def _reason(job: Job, setup: Setup, found: Estimate, workers: int) -> str:
    """What the commit waits for with that many workers."""
    if workers == MOST_WORKERS:
        return "its workers still: more of them were not tried"
    limit = setup.store.limit
    if limit is not None and found.limit > 0.5:
        return limit.name
    if found.driver > 0.5:
        return "the driver, which hands out the work and adds up the results"
    shared = sum(found.stages.get(name, 0.0) for name in (LOAD, MOVES))
    if shared > found.seconds / 2:
        return f"calls that are too small: {job.files / workers:,.0f} files per worker"
    return "requests that follow one another, which more workers do not make faster"
