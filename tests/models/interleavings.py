"""Search every interleaving of processes, or some at random, and judge every world that is reached.

A step depends on the store and on the process that makes it, not on where the others are. So steps are
worked out once for each pair of the two, and a world is a whole number made of the numbers of its parts.
Processes that do the same to the same job are the same but for their order, which is left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice
from random import Random
from typing import Generic, Protocol, TypeVar


class AnyProcess(Hashable, Protocol):
    """What a process knows; `told` is not None once it has ended."""

    @property
    def told(self) -> str | None: ...


S = TypeVar("S", bound=Hashable)
P = TypeVar("P", bound=AnyProcess)


class Model(Protocol[S, P]):
    """What processes do on a store."""

    def steps(self, shared: S, process: P) -> Iterator[tuple[S, P, int]]:
        """What the next request of a process may lead to, and which job's state it has changed or -1."""

    def outdated(self, process: P, changed: int) -> P:
        """Where a process is after another has changed the state of a job."""


class Judge(Protocol[S, P]):
    """What must not be."""

    def problem(self, shared: S, process: P) -> str | None:
        """What is wrong if all die in this world, in which `process` is one of them."""


@dataclass(frozen=True, slots=True)
class Found:
    """How many worlds there are, and how many of them end wrongly; one of these."""

    worlds: int
    wrong: int
    example: str | None = None


_PACES = (0.01, 0.1, 1.0)
_BITS = 20
_MASK = (1 << _BITS) - 1


class Search(Generic[S, P]):
    """A search from the store `first`, on which `processes` begin."""

    def __init__(
        self,
        model: Model[S, P],
        judge: Judge[S, P],
        first: S,
        processes: Sequence[P],
    ) -> None:
        self.model = model
        self.judge = judge
        self.stores: list[S] = []
        self.store_numbers: dict[S, int] = {}
        self.processes: list[P] = []
        self.process_numbers: dict[P, int] = {}
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

    def _store(self, shared: S) -> int:
        found = self.store_numbers.setdefault(shared, len(self.stores))
        if found == len(self.stores):
            self.stores.append(shared)
        return found

    def _process(self, process: P) -> int:
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
