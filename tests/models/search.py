"""Search every interleaving of processes, or some at random, and judge every world that is reached.

A step depends on the store and on the process that makes it, not on where the others are. So steps are
worked out once for each pair of the two, and a world is a whole number made of the numbers of its parts.
Processes that do the same to the same job are the same but for their order, which is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice
from random import Random

from tests.models.commit_steps import CommitSteps
from tests.models.driver_steps import DriverSteps
from tests.models.end_steps import EndSteps
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


@dataclass(frozen=True, slots=True)
class Found:
    """How many worlds there are, and how many of them end wrongly; one of these."""

    worlds: int
    wrong: int
    example: str | None = None


def check(situation: Situation, without: frozenset[Rule] = frozenset()) -> Found:
    """Try every interleaving, with death anywhere, but for the rules `without`."""
    return _search(situation, without).run()


def wander(situation: Situation, steps: int, seed: int, without: frozenset[Rule] = frozenset()) -> Found:
    """Try interleavings at random until there were so many steps, where all would be too many.

    Each process has a pace of its own, so some hardly begin, and some are as good as dead in the middle.
    """
    return _search(situation, without).wander(steps, Random(seed))


def _search(situation: Situation, without: frozenset[Rule]) -> Search:
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


_PACES = (0.01, 0.1, 1.0)
_BITS = 20
_MASK = (1 << _BITS) - 1


class Search:
    """A search from the store `first`, on which `processes` begin."""

    def __init__(
        self,
        model: Model,
        judge: Judge,
        first: Shared,
        processes: Sequence[Process],
    ) -> None:
        self.model = model
        self.judge = judge
        self.stores: list[Shared] = []
        self.store_numbers: dict[Shared, int] = {}
        self.processes: list[Process] = []
        self.process_numbers: dict[Process, int] = {}
        self.stale: dict[tuple[int, int], int] = {}
        self.known: dict[int, tuple[bool, list[tuple[int, int, int]]]] = {}
        self.begin = self._store(first), [self._process(process) for process in processes]

    def run(self) -> Found:
        store, parts = self.begin
        shift = _BITS * len(parts)
        places = range(0, shift, _BITS)
        alike = _alike(parts)
        first = _packed(store, parts)
        seen, waiting, wrong, example = {first}, [first], 0, None
        while waiting:
            world = waiting.pop()
            store = world >> shift
            parts = [(world >> place) & _MASK for place in places]
            is_wrong = False
            for place, part in enumerate(parts):
                found = self._known(store, part)
                is_wrong |= found[0]
                for new_store, new_part, changed in found[1]:
                    after = parts.copy()
                    if changed >= 0:
                        after = [self._outdated(one, changed) for one in parts]
                    after[place] = new_part
                    for one, other in alike:
                        if after[one] > after[other]:
                            after[one], after[other] = after[other], after[one]
                    number = _packed(new_store, after)
                    if number not in seen:
                        seen.add(number)
                        waiting.append(number)
            if is_wrong:
                wrong += 1
                example = example or self._describe(store, parts)
        return Found(len(seen), wrong, example)

    def wander(self, steps: int, random: Random) -> Found:
        seen: set[tuple[int, ...]] = set()
        wrong, example = 0, None
        schedules = chain.from_iterable(self._schedule(random) for _ in count())
        for store, parts in islice(schedules, steps):
            world = (store, *parts)
            if world not in seen:
                seen.add(world)
                if any(self._known(store, part)[0] for part in parts):
                    wrong += 1
                    example = example or self._describe(store, parts)
        return Found(len(seen), wrong, example)

    def _schedule(self, random: Random) -> Iterator[tuple[int, list[int]]]:
        """The worlds of one order of steps at random, until every process has ended."""
        store, parts = self.begin
        moving = list(range(len(parts)))
        paces = [random.choice(_PACES) for _ in moving]
        while moving:
            place = random.choices(moving, [paces[one] for one in moving])[0]
            store, part, changed = random.choice(self._known(store, parts[place])[1])
            after = [self._outdated(one, changed) if changed >= 0 else one for one in parts]
            parts = [*after[:place], part, *after[place + 1 :]]
            moving = [one for one in moving if self.processes[parts[one]].told is None]
            yield store, parts

    def _known(self, store: int, part: int) -> tuple[bool, list[tuple[int, int, int]]]:
        """Whether a process in this world ends wrongly, and what its next request leads to."""
        pair = store << _BITS | part
        found = self.known.get(pair)
        if found is None:
            found = self.known[pair] = self._step(store, part)
        return found

    def _step(self, store: int, part: int) -> tuple[bool, list[tuple[int, int, int]]]:
        shared, process = self.stores[store], self.processes[part]
        steps = [
            (self._store(after), self._process(then), changed)
            for after, then, changed in self.model.steps(shared, process)
        ]
        return self.judge.problem(shared, process) is not None, steps

    def _outdated(self, part: int, changed: int) -> int:
        """Where a process is after another has changed the state of a job."""
        found = self.stale.get((part, changed))
        if found is None:
            process = self.model.outdated(self.processes[part], changed)
            found = self.stale[part, changed] = self._process(process)
        return found

    def _store(self, shared: Shared) -> int:
        found = self.store_numbers.setdefault(shared, len(self.stores))
        if found == len(self.stores):
            self.stores.append(shared)
        return found

    def _process(self, process: Process) -> int:
        found = self.process_numbers.setdefault(process, len(self.processes))
        if found == len(self.processes):
            self.processes.append(process)
        return found

    def _describe(self, store: int, parts: Sequence[int]) -> str:
        shared, processes = self.stores[store], [self.processes[part] for part in parts]
        problems = (self.judge.problem(shared, process) for process in processes)
        problem = next(one for one in problems if one is not None)
        return f"{problem}: {shared} {processes}"


def _packed(store: int, parts: Sequence[int]) -> int:
    number = store
    for one in reversed(parts):
        number = number << _BITS | one
    return number


def _alike(parts: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs of processes that begin as the same, so they do the same to the same job."""
    numbers = range(len(parts))
    return [(a, b) for a in numbers for b in numbers[a + 1 :] if parts[a] == parts[b]]
