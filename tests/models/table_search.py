"""Search every interleaving of jobs at one table with a log, or some at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from random import Random

from ray_committer.protocol.state import Phase
from ray_committer.protocol.table_entry import Isolation
from tests.models.search import Found, Search
from tests.models.table_judge import TableJudge
from tests.models.table_log import first_log
from tests.models.table_steps import TableSteps
from tests.models.table_world import (
    CREATE,
    Files,
    Job,
    Plan,
    Process,
    Rule,
    Shared,
    leaves,
    old_files,
)

AT_LEVEL = Isolation.SERIALIZABLE
HEALTHY = frozenset({Rule.COMMIT_BEFORE_REMOVAL, Rule.SEAL_APPENDS, Rule.FROM_SNAPSHOT, Rule.PREFIXES})
"""The rules that, left out, are also left out by who brings the jobs to their end."""


@dataclass(frozen=True, slots=True)
class TableSituation:
    """Some jobs at one table, each with its application, and `others`: what else is done to which job.

    promised: the level of isolation by which the ends are judged, if it is not that of the table.
    """

    plans: tuple[Plan, ...]
    others: tuple[tuple[str, int], ...] = ()
    isolation: Isolation = AT_LEVEL
    promised: Isolation | None = None

    @property
    def old(self) -> Files:
        """The files that are there at first, where some job writes or reads; none for one that wants
        none."""
        wanted = [plan.where for plan in self.plans if plan.mode is CREATE]
        touched = {path for plan in self.plans for path in (plan.where, *plan.reads)}
        return old_files(set(leaves(tuple(touched))) - set(leaves(tuple(wanted))))

    def __str__(self) -> str:
        others = "".join(f", {does} {job}" for does, job in self.others)
        return f"{self.isolation}: {' + '.join(map(str, self.plans))}{others}"


def check_table(situation: TableSituation, without: frozenset[Rule] = frozenset()) -> Found:
    """Try every interleaving, with death anywhere, but for the rules `without`."""
    return _search(situation, without).run()


def check_all(situations: Sequence[TableSituation], without: frozenset[Rule] = frozenset()) -> Found:
    """Try every interleaving of each of some situations."""
    worlds = wrong = 0
    example = None
    for situation in situations:
        found = check_table(situation, without)
        worlds, wrong = worlds + found.worlds, wrong + found.wrong
        if example is None and found.example is not None:
            example = f"{situation}: {found.example}"
    return Found(worlds, wrong, example)


def pairs(plans: Sequence[Plan], isolation: Isolation = AT_LEVEL) -> list[TableSituation]:
    """Each two of some jobs; of two situations that differ only in the names ``p`` and ``q``, one."""
    found: dict[tuple[Plan, ...], TableSituation] = {}
    for two in combinations_with_replacement(plans, 2):
        key = min(tuple(sorted(two)), tuple(sorted(map(_swapped, two))))
        found.setdefault(key, TableSituation(two, isolation=isolation))
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Sampled:
    """What has come of schedules at random: how many of the jobs in them were committed, and how many
    worlds there were, and wrong ones; one of these."""

    schedules: int
    committed: int
    worlds: int
    wrong: int
    example: str | None = None


def sample(plans: Sequence[Plan], commits: int, seed: int, isolation: Isolation = AT_LEVEL) -> Sampled:
    """Let three of the jobs, drawn at random, run at random, until so many have been committed.

    A process may stop for ever, after any request, and others may come to the same job: see `_OTHERS`.
    """
    random = Random(seed)
    schedules = committed = worlds = wrong = 0
    example = None
    while committed < commits:
        three = tuple(random.choice(plans) for _ in range(3))
        others = tuple((random.choice(_OTHERS), random.randrange(3)) for _ in range(random.randrange(3)))
        situation = TableSituation(three, others, isolation)
        search = _search(situation)
        for _ in range(_SCHEDULES):
            schedules += 1
            for store, parts in search.schedule(random):
                worlds += 1
                if problem := search.problem(store, parts):
                    wrong += 1
                    example = example or f"{situation}: {problem}"
            end = search.judge.end(search.stores[store])
            committed += sum(job.phase is Phase.COMMITTED for job in end.jobs)
    return Sampled(schedules, committed, worlds, wrong, example)


_OTHERS = ("commit", "abort", "undo")
_SCHEDULES = 100
_SWAP = {"p": "q", "q": "p"}


def _search(situation: TableSituation, without: frozenset[Rule] = frozenset()) -> Search:
    plans, isolation, old = situation.plans, situation.isolation, situation.old
    fresh = TableSteps(plans, isolation, without & HEALTHY, gives_up=True)
    judge = TableJudge(fresh, situation.promised or isolation, old)
    first = Shared(tuple(Job() for _ in plans), old, first_log(old))
    drivers = [Process("drive", number) for number in range(len(plans))]
    others = [Process(does, number) for does, number in situation.others]
    steps = TableSteps(plans, isolation, without, drafts=("pack", 0) in situation.others)
    return Search(steps, judge, first, [*drivers, *others])


def _swapped(plan: Plan) -> Plan:
    where, reads = _SWAP.get(plan.where, plan.where), tuple(_SWAP.get(one, one) for one in plan.reads)
    return plan._replace(where=where, reads=reads)
