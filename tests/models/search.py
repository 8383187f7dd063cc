"""Search the interleavings of processes that commit jobs, and end them otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.models.commit_steps import CommitSteps
from tests.models.driver_steps import DriverSteps
from tests.models.end_steps import EndSteps
from tests.models.interleavings import Found, Search
from tests.models.judge import Judge
from tests.models.world import (
    EVERYWHERE,
    File,
    Job,
    Option,
    Place,
    Plan,
    Process,
    Rule,
    Shared,
    old_files,
)


class Model(CommitSteps, EndSteps, DriverSteps):
    """All that processes do."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Some jobs at one table, and `processes`: what each does, and to which job."""

    plans: tuple[Plan, ...]
    processes: tuple[tuple[str, int], ...]
    options: frozenset[Option] = frozenset()
    old: frozenset[File] = old_files(EVERYWHERE[:2])


def check(situation: Situation, without: frozenset[Rule] = frozenset()) -> Found:
    """Try every interleaving, with death anywhere, but for the rules `without`."""
    return _search(situation, without).run()


def wander(situation: Situation, steps: int, seed: int, without: frozenset[Rule] = frozenset()) -> Found:
    """Try interleavings at random until there were so many steps, where all would be too many.

    Each process has a pace of its own, so some hardly begin, and some are as good as dead in the middle.
    """
    return _search(situation, without).wander(steps, Random(seed))


def _search(situation: Situation, without: frozenset[Rule]) -> Search[Shared, Process]:
    model = Model(situation.plans, situation.options, without)
    healthy = without - {Rule.LOOK, Rule.DECLARE_FIRST}
    calm = situation.options & {Option.FLAT, Option.ASIDE}
    judge = Judge(Model(situation.plans, calm, healthy), situation.old)
    jobs = tuple(
        Job(place=Place.NOWHERE) if plan.is_later else Job(manifests=f"{number}a")
        for number, plan in enumerate(situation.plans)
    )
    processes = []
    for does, job in situation.processes:
        knows = job if does in ("task", "setup") else -1
        processes.append(Process(does, model.slot(job), job=knows, meant=knows))
    return Search(model, judge, Shared(jobs, situation.old), processes)
