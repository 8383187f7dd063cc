"""What can go wrong between jobs on one table, in every order of their steps: claims prevent it.

A job reads partitions of the directory as they are at that moment, claims what it writes, and commits.
The end is right if in some order the jobs that were committed, one by one, write the same. Each
scenario also says at which level of isolation it must go wrong: otherwise it would prove nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pytest

from ray_committer.protocol.claims import Verdict, judge
from ray_committer.protocol.file_list import FileSet
from ray_committer.protocol.table_entry import (
    Isolation,
    LogEntry,
    TableAbort,
    TableClaim,
    TableCommit,
    TableDone,
    WriteMode,
)
from ray_committer.protocol.table_state import TableState, ended_since, follow

Table = Mapping[str, int]
Writes = Mapping[str, int | None]
"""What a job leaves in the partitions that it writes; None if it deletes one."""

SERIALIZABLE, SNAPSHOT, NONE = Isolation.SERIALIZABLE, Isolation.SNAPSHOT, Isolation.NONE
ADDS = {WriteMode.APPEND, WriteMode.CREATE}
NEW = "~"
"""What a new file's name ends in while the old file is also there."""


@dataclass(frozen=True)
class Job:
    """A job that reads some directories, one after the other, and writes what `does` makes of them."""

    does: Callable[..., Writes]
    claims: tuple[str, ...]
    reads: tuple[str, ...] = ()
    mode: WriteMode = WriteMode.REPLACE
    is_kept: bool = True
    """False if it is undone after it has moved its files."""

    @property
    def others(self) -> tuple[str, ...]:
        """What it reads besides what it replaces."""
        return tuple(path for path in self.reads if path not in self.claims)


@dataclass(frozen=True)
class Run:
    """How far a job is."""

    base: int = -1
    seen: tuple[Table, ...] = ()
    step: str = "read"
    claim: int = 0
    writes: Writes = field(default_factory=dict)


@dataclass(frozen=True)
class World:
    """A table's directory, its log, and its jobs, between two steps."""

    table: Table
    runs: tuple[Run, ...]
    log: tuple[LogEntry, ...] = ()
    committed: Mapping[int, Writes] = field(default_factory=dict)


def below(table: Table, path: str) -> Table:
    return {name: value for name, value in table.items() if f"{name}/".startswith(f"{path}/")}


def writes_of(job: Job, seen: Iterable[Table], table: Table) -> Writes:
    writes = job.does(*seen)
    is_taken = job.mode is WriteMode.CREATE and any(name in table for name in writes)
    return {} if is_taken else writes  # data is there: the job fails before it has changed anything


def moved(table: Table, writes: Writes, mode: WriteMode) -> Table:
    """The directory while new files are in place, and old ones too."""
    if mode in ADDS:
        return written(table, writes)
    return {**table, **{name + NEW: value for name, value in writes.items() if value is not None}}


def taken_back(table: Table, writes: Writes) -> Table:
    return {name: value for name, value in table.items() if name.removesuffix(NEW) not in writes}


def written(table: Table, writes: Writes) -> Table:
    after = {**table, **{name: value for name, value in writes.items() if value is not None}}
    gone = {name + NEW for name in writes} | {name for name in writes if writes[name] is None}
    return {name: value for name, value in after.items() if name not in gone}


def steps(world: World, jobs: tuple[Job, ...], isolation: Isolation) -> Iterator[World]:
    for number, (job, run) in enumerate(zip(jobs, world.runs, strict=True)):
        after = step_of(world, number, job, run, isolation)
        if after is not None:
            yield after


def step_of(world: World, number: int, job: Job, run: Run, isolation: Isolation) -> World | None:
    def to(run: Run, **changes: object) -> World:
        runs = (*world.runs[:number], run, *world.runs[number + 1 :])
        return replace(world, runs=runs, **changes)

    head = len(world.log)
    step = {"job_id": str(number), "job_attempt": 0, "at_milliseconds": 0}
    if run.step == "read" and len(run.seen) < len(job.reads):
        seen = (*run.seen, below(world.table, job.reads[len(run.seen)]))
        return to(replace(run, base=head if run.base < 0 else run.base, seen=seen))
    if run.step == "read":
        base = head if run.base < 0 else run.base
        claim = TableClaim(
            **step,
            nonce="",
            mode=job.mode,
            base=base,
            partitions=list(job.claims),
            reads=list(job.others),
        )
        state, _ = follow(TableState(), enumerate(world.log[:base], 1))
        ended, state = ended_since(state, enumerate(world.log[base:], base + 1))
        obstacle = judge(claim, ended, state.in_flight, isolation)
        if obstacle is not None and obstacle.verdict is Verdict.WAITS:
            return None
        if obstacle is not None:
            return to(replace(run, step="refused"))
        return to(replace(run, step="claimed", claim=head + 1), log=(*world.log, claim))
    if run.step == "claimed":
        writes = writes_of(job, run.seen, world.table)
        return to(replace(run, step="moved", writes=writes), table=moved(world.table, writes, job.mode))
    if run.step == "moved" and not job.is_kept:
        return to(
            replace(run, step="done"),
            table=taken_back(world.table, run.writes),
            log=(*world.log, TableAbort(**step, claim=run.claim)),
        )
    if run.step == "moved":
        removed = FileSet(files=int(job.mode not in ADDS))
        return to(
            replace(run, step="committed" if removed.files else "done"),
            log=(*world.log, TableCommit(**step, claim=run.claim, removed=removed)),
            committed={**world.committed, number: run.writes},
        )
    if run.step == "committed":
        return to(
            replace(run, step="done"),
            table=written(world.table, run.writes),
            log=(*world.log, TableDone(**step, claim=run.claim)),
        )
    return None


def ends(start: Table, jobs: tuple[Job, ...], isolation: Isolation) -> list[World]:
    """All ends that the jobs can come to."""
    return ends_of(World(start, (Run(),) * len(jobs)), jobs, isolation)


def ends_of(world: World, jobs: tuple[Job, ...], isolation: Isolation) -> list[World]:
    found, left = [], [world]
    while left:
        after = list(steps(one := left.pop(), jobs, isolation))
        left += after
        found += [] if after else [one]
    return found


def is_serial(start: Table, jobs: tuple[Job, ...], end: World) -> bool:
    """Whether the jobs that were committed write the same one by one, in some order."""
    return any(
        one_by_one(start, jobs, order) == (end.table, end.committed)
        for order in itertools.permutations(end.committed)
    )


def one_by_one(
    table: Table, jobs: tuple[Job, ...], order: Iterable[int]
) -> tuple[Table, Mapping[int, Writes]]:
    committed: dict[int, Writes] = {}
    for number in order:
        job, before = jobs[number], table
        committed[number] = writes_of(job, (below(before, path) for path in job.reads), before)
        table = written(before, committed[number])
    return table, committed


def add(path: str, number: int) -> Job:
    return Job(lambda seen: {path: seen.get(path, 0) + number}, (path,), (path,))


def put(path: str, value: int, mode: WriteMode = WriteMode.OVERWRITE) -> Job:
    return Job(lambda: {path: value}, (path,), mode=mode)


def put_both(value: int) -> Job:
    return Job(lambda: {"x": value, "y": value}, ("x", "y"), mode=WriteMode.OVERWRITE)


def report(*paths: str) -> Job:
    """A job that reads several directories, and writes whether they hold the same."""
    return Job(
        lambda *seen: {"report": int(len({tuple(one.values()) for one in seen}) == 1)},
        ("report",),
        paths,
    )


def copy(source: str, dest: str) -> Job:
    return Job(lambda seen: {dest: hash(tuple(seen.items()))}, (dest,), (source,))


def undone(path: str) -> Job:
    return replace(put(path, 3, WriteMode.APPEND), is_kept=False)


def if_zero(read: str, written: str) -> Job:
    return Job(lambda seen: {} if seen.get(read, 0) else {written: 1}, (written,), (read,))


def within_quota(name: str) -> Job:
    return Job(lambda seen: {} if sum(seen.values()) else {f"d/{name}": 1}, (f"d/{name}",), ("d",))


def make(path: str, value: int) -> Job:
    """Make a file if its directory is there and its name is free."""
    above = path.rpartition("/")[0]

    def does(seen: Table) -> Writes:
        return {path: value} if f"{above}/" in seen and path not in seen else {}

    return Job(does, (path,), (above,))


def make_directory(path: str) -> Job:
    """Make a directory, and count it in the one above, which is made if it is not there."""
    above = path.rpartition("/")[0] + "/"

    def does(seen: Table) -> Writes:
        return {path: 0, above: seen.get(above, 0) + 1}

    return Job(does, (above.rstrip("/"),), (above.rstrip("/"),))


def file_or_directory(name: str) -> Job:
    """Make ``x``, or a name below it: the one excludes the other."""
    return Job(lambda seen: {} if seen else {name: 7}, (name,), ("x",))


def delete(path: str) -> Job:
    return Job(lambda seen: dict.fromkeys(seen), (path,), (path,))


def move(source: str, dest: str) -> Job:
    """Rename a directory with all that is below it, if it is there and its new name is free."""

    def does(there: Table, taken: Table) -> Writes:
        if not there or taken:
            return {}
        moved = {dest + name.removeprefix(source): value for name, value in there.items()}
        return {**dict.fromkeys(there), **moved}

    return Job(does, (source, dest), (source, dest))


D = {"d/": 0}
SCENARIOS: dict[str, tuple[Table, tuple[Job, ...], set[Isolation]]] = {
    "lost update": ({"x": 1}, (add("x", 1), add("x", 2)), {NONE}),
    "fuzzy read": ({"x/a": 1}, (report("x", "x"), put("x/a", 2)), {NONE, SNAPSHOT}),
    "phantom": ({"x/a": 1}, (report("x", "x"), put("x/b", 2, WriteMode.APPEND)), {NONE, SNAPSHOT}),
    "read skew": ({"x": 1, "y": 1}, (report("x", "y"), put_both(2)), {NONE, SNAPSHOT}),
    "write skew": ({}, (if_zero("y", "x"), if_zero("x", "y")), {NONE, SNAPSHOT}),
    "quota": (D, tuple(map(within_quota, "ab")), {NONE, SNAPSHOT}),
    "create and create": (D, (make("d/a", 1), make("d/a", 2)), {NONE}),
    "mkdirs and mkdirs": ({}, (make_directory("a/b"), make_directory("a/c")), {NONE}),
    "file and directory": ({}, (file_or_directory("x"), file_or_directory("x/a")), {NONE}),
    "delete and create in it": (D, (delete("d"), make("d/a", 1)), {NONE}),
    "move into each other": ({"a/": 1, "b/": 2}, (move("a", "b/a"), move("b", "a/b")), {NONE}),
    "move to one name": ({"a": 1, "b": 2}, (move("a", "c"), move("b", "c")), {NONE}),
    "move and create in it": (D, (move("d", "e"), make("d/a", 1)), {NONE}),
    "dirty read": ({"x/a": 1}, (copy("x", "y"), put("x/a", 2)), {NONE, SNAPSHOT}),
    "undone append": ({}, (copy("x", "y"), undone("x/a")), {NONE, SNAPSHOT}),
    "mode error twice": ({}, (put("x", 1, WriteMode.CREATE), put("x", 2, WriteMode.CREATE)), set()),
}


@pytest.mark.parametrize("isolation", list(Isolation))
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_an_anomaly_is_prevented_at_the_levels_that_promise_it(scenario: str, isolation: Isolation):
    start, jobs, goes_wrong = SCENARIOS[scenario]
    found = ends(start, jobs, isolation)
    wrong = [end for end in found if not is_serial(start, jobs, end)]
    assert bool(wrong) is (isolation in goes_wrong), wrong[:1]


@pytest.mark.parametrize("isolation", list(Isolation))
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_jobs_never_wait_for_each_other_for_ever(scenario: str, isolation: Isolation):
    start, jobs, _ = SCENARIOS[scenario]
    for end in ends(start, jobs, isolation):
        assert {run.step for run in end.runs} <= {"done", "refused"}
        assert end.committed or not all(job.is_kept for job in jobs)


@pytest.mark.parametrize("isolation", list(Isolation))
@pytest.mark.parametrize("others", list(itertools.product(("x", "y", ""), repeat=2)))
def test_jobs_that_say_nothing_of_what_they_read_are_never_refused(
    others: tuple[str, str], isolation: Isolation
):
    jobs = tuple(put(path, value) for value, path in enumerate(others))
    assert {run.step for end in ends({}, jobs, isolation) for run in end.runs} == {"done"}


def test_a_quota_of_one_is_used_by_one_of_four():
    jobs = tuple(map(within_quota, "abcd"))
    have_looked = World(D, (Run(base=0, seen=(D,)),) * 4)
    assert {sum(end.table.values()) for end in ends_of(have_looked, jobs, SERIALIZABLE)} == {1}
