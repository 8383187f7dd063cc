"""Processes at one table, stopped or killed at their requests while others run; `serial_oracle` judges.

With two processes, one is stopped before or after each of its requests, and the other runs to its end.
With three processes, they take random turns, one request at a time. Run it as ``python -m
tests.machines.schedules``; it forks, so it must be its own process. With ``--without NAME`` all
processes make the mistake of this mutant (`tests.mutants`), which a schedule must find.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from random import Random

from ray_committer.protocol.paths import join
from ray_committer.protocol.record import ConflictMode
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.registry import open_store, resolve_destination
from ray_committer.testing.faults import LinkingStore, StoreCall, WrappedStore
from ray_committer.work import packs
from tests.machines.operations import OLD, VACUUM, Files, Job, Operation, pairs, prepare
from tests.machines.processes import OPENED, STOPPED, Child, Stop, Told, attempt, done, start
from tests.machines.serial_oracle import judge
from tests.machines.table_operations import begin_log, table_pairs
from tests.machines.task_operations import task_pairs
from tests.mutants.runner import mutants
from tests.mutants.swap import apply

KILLS = 0.02
"""The probability that a process is killed when its turn ends."""
TURNS = (1, 1, 2, 5, 20)
"""The possible numbers of requests in a turn."""
_DIED = Told("crashed", -1, "the process died")
_KILLED = Told("killed", -1, "")


class Fate(StrEnum):
    """What happens to the stopped process."""

    STOPPED = "stopped"
    """It continues after the other has ended; until then, others see that it is alive."""
    ZOMBIE = "zombie"
    """It continues, but was taken for dead until then."""
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class Table:
    """Where schedules run: an empty directory of a store; perhaps it is made a table that `has_log`."""

    spec: StoreSpec
    root: str
    has_log: bool = False

    @property
    def path(self) -> str:
        return join(self.root, "table")

    def pairs(self) -> list[tuple[Operation, Operation]]:
        """Every pair of operations that can meet there."""
        return table_pairs() if self.has_log else [*pairs(), *task_pairs()]


@dataclass(frozen=True, slots=True)
class Schedule:
    """The first operation is stopped before or after one of its requests while the second one runs."""

    first: Operation
    second: Operation
    stop: Stop
    fate: Fate

    def __str__(self) -> str:
        where = f"{self.stop.when} request {self.stop.request}"
        return f"{self.first.name} {self.fate} {where}, {self.second.name} runs"


class WrongEndError(Exception):
    """A schedule had a result that must not happen."""


def schedules(table: Table, part: int = 0, parts: int = 1) -> Iterator[Schedule]:
    """All schedules of two processes, or only those of one part out of `parts` of the pairs."""
    counts: dict[str, int] = {}
    for first, second in table.pairs()[part::parts]:
        begins = f"{first.name} beside {_there((first, second))}"
        if begins not in counts:
            counts[begins] = _count_requests(table, first, second)
        requests = range(1, counts[begins] + 1)
        for fate, when, request in itertools.product(Fate, ("before", "after"), requests):
            yield Schedule(first, second, Stop(request, when), fate)


def run_schedule(table: Table, schedule: Schedule, seed: int) -> None:
    """Run one schedule; `WrongEndError` shows what is wrong."""
    jobs, old = _set_up(table, (schedule.first, schedule.second))
    begin = partial(_begin, table, trusts=schedule.fate is Fate.STOPPED)
    first = begin(schedule.first, schedule.stop)
    word = first.read()  # not stopped if it makes fewer requests than before: some are made at once
    if word == STOPPED and schedule.fate is Fate.KILLED:
        first.kill()
        word = _KILLED
    second = begin(schedule.second, None)
    answers = [(schedule.second, second.read() or _DIED)]
    second.reap()
    if word == STOPPED:
        first.resume()
        word = first.read()
    answers.append((schedule.first, word or _DIED))
    first.reap()
    _judge(table, jobs, old, answers, seed)


def run_random(table: Table, seed: int) -> None:
    """Run three operations by turns; `WrongEndError` shows what is wrong. Only nonces and pauses differ
    in another run with the same seed."""
    random = Random(seed)
    operations = _any_three(random, table.pairs())
    jobs, old = _set_up(table, operations)
    trusts = random.random() < 0.5
    running = [(one, _begin(table, one, Stop(), trusts=trusts)) for one in operations]
    words = {child.pid: child.read() for _, child in running}
    answers: list[tuple[Operation, Told]] = []
    while running:
        operation, child = running[random.randrange(len(running))]
        for _ in range(random.choice(TURNS)):
            if words[child.pid] != STOPPED:
                break
            child.resume()
            words[child.pid] = child.read()
        if words[child.pid] != STOPPED:
            answers.append((operation, words[child.pid] or _DIED))
        elif random.random() < KILLS:
            child.kill()
            answers.append((operation, _KILLED))
        else:
            continue
        child.reap()
        running.remove((operation, child))
    _judge(table, jobs, old, answers, seed)


def _any_three(random: Random, found: list[tuple[Operation, Operation]]) -> tuple[Operation, ...]:
    """Draw three operations from two of some pairs that share one, so that each can meet the next.

    A set-up does not meet the vacuum, which has no minimum age here and removes what was just created.
    Only one operation sets up a job, and one is a late attempt of its task: with two, it would not be
    known whose files are whose.
    """
    first, second = random.choice(found)
    third = random.choice([other for one, other in found if one.name == second.name] or [first])
    three = (first, second, third)
    once = [one.name for one in three if one.must_end_well]
    once += [f"late {one.job.name}" for one in three if one.job and one.is_late_task]
    once += [one.job.name for one in three if one.job and one.instead_of]
    is_swept = VACUUM in three and any(one.must_end_well for one in three)
    return (first, second) if is_swept or len(once) > len(set(once)) else three


def _set_up(table: Table, operations: Sequence[Operation]) -> tuple[list[Job], Files]:
    """Prepare the table; return all jobs, including those that are set up later, and the old files."""
    done(partial(_prepare, table, operations), table.spec)
    return _jobs(operations), _there(operations)[1]


def _prepare(table: Table, operations: Sequence[Operation], store: StoreOperations) -> None:
    store.delete_directory(table.root)
    begin = begin_log if table.has_log else None
    prepare(store, table.path, *_there(operations), begin)


def _there(operations: Sequence[Operation]) -> tuple[list[Job], Files]:
    """The jobs and the old files that exist when the operations begin."""
    jobs, later = _jobs(operations), [one.job for one in operations if one.instead_of is not None]
    old: Files = {} if any(job.mode is ConflictMode.ERROR for job in jobs) else OLD
    return [job for job in jobs if job not in later], old


def _jobs(operations: Sequence[Operation]) -> list[Job]:
    in_order = sorted(operations, key=lambda one: one.is_late_task)  # its job has a late attempt
    found = [job for one in in_order for job in (one.instead_of, one.job) if job is not None]
    jobs = {job.name: job for job in found}
    return sorted(jobs.values(), key=lambda job: (job.number, job.name))


def _begin(table: Table, operation: Operation, stop: Stop | None, *, trusts: bool) -> Child:
    return start(lambda store: operation.run(store, table.path), table.spec, stop, trusts=trusts)


def _judge(
    table: Table, jobs: list[Job], old: Files, answers: list[tuple[Operation, Told]], seed: int
) -> None:
    random = Random(seed)
    judges = partial(judge, has_log=table.has_log)
    wrong = done(lambda store: judges(store, table.path, jobs, old, answers, random), table.spec)
    if wrong is not None:
        raise WrongEndError(wrong)


def _count_requests(table: Table, first: Operation, second: Operation) -> int:
    """How many requests the first operation makes before the second begins."""
    calls: list[StoreCall] = []

    def work(store: StoreOperations) -> int:
        _prepare(table, (first, second), store)
        attempt(lambda one: first.run(one, table.path), WrappedStore(store, after=calls.append))
        return len(calls)

    return int(done(work, table.spec))


def main() -> int:
    """Run schedules; print the wrong ones and the counts; return the exit code, 1 if one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", help="where to create their directory; default: a local one")
    parser.add_argument("--options", default="{}", help="storage options, as JSON")
    parser.add_argument("--only", default="", help="for two processes: a part of the operations' names")
    parser.add_argument(
        "--part", type=_part, default=(0, 1), help="for two processes: 3/20 for a part of the operations"
    )
    parser.add_argument("--stride", type=int, default=1, help="for two processes: one out of so many")
    parser.add_argument("--offset", type=int, default=0, help="the first of them, or the first seed")
    parser.add_argument("--most", type=int, help="the maximum number of schedules")
    parser.add_argument("--random", action="store_true", help="three processes by turns")
    parser.add_argument("--links", action="store_true", help="renames are a link and an unlink")
    parser.add_argument("--log", action="store_true", help="at a table with a log")
    parser.add_argument("--until-wrong", action="store_true", help="end at the first wrong one")
    parser.add_argument(
        "--without", action="append", default=[], choices=mutants(), help="a mutant to make"
    )
    asked = parser.parse_args()
    packs.MOST_ENTRIES = 1  # so that one is full, and is written, after the first task
    for name in asked.without:
        apply(mutants()[name])
    if asked.links:
        OPENED.append(LinkingStore)
    with tempfile.TemporaryDirectory(prefix="schedules-") as local:
        spec, root = resolve_destination(asked.store or local, json.loads(asked.options))
        open_store(spec)  # imports once what every forked process needs
        table = Table(spec, join(root, f"schedules-{uuid.uuid4()}"), asked.log)
        every = _random_runs(table, asked.offset) if asked.random else _pair_runs(table, asked)
        ran, wrong = 0, 0
        for name, run in itertools.islice(every, asked.most):
            ran += 1
            try:
                run()
            except WrongEndError as e:
                wrong += 1
                print(json.dumps({"schedule": name, "wrong": str(e)}), flush=True)
                if asked.until_wrong:
                    break
        done(lambda store: store.delete_directory(table.root), spec)
    print(json.dumps({"ran": ran, "wrong": wrong}))
    return 1 if wrong else 0


def _part(text: str) -> tuple[int, int]:
    """Parse a part, counted from 1, and the number of parts."""
    part, parts = map(int, text.split("/"))
    if not 1 <= part <= parts:
        raise ValueError(text)
    return part - 1, parts


def _pair_runs(table: Table, asked: argparse.Namespace) -> Iterator[tuple[str, Callable[[], None]]]:
    found = enumerate(schedules(table, *asked.part))
    for number, schedule in itertools.islice(found, asked.offset, None, asked.stride):
        if asked.only in str(schedule):
            yield str(schedule), partial(run_schedule, table, schedule, number)


def _random_runs(table: Table, first: int) -> Iterator[tuple[str, Callable[[], None]]]:
    for seed in itertools.count(first):
        yield f"seed {seed}", partial(run_random, table, seed)


if __name__ == "__main__":
    sys.exit(main())
