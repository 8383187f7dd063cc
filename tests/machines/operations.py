"""Jobs at one table and operations of processes on them, for `tests.machines.schedules`."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ray_committer.errors import CommitConflictError, CommitRecordExistsError, RayCommitterError
from ray_committer.job_files.job_state import read_state
from ray_committer.jobs.remains import find_remains
from ray_committer.options import CommitOptions, Unfinished
from ray_committer.protocol.paths import JobAttempt, join, new_job_attempt, parent, temporary_directory
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.staging import numbers_of, token_in
from ray_committer.protocol.table_paths import is_in_log
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreOperations
from ray_committer.testing.faults import SimulatedCrash, StoreCall, WrappedStore
from ray_committer.testing.harness import (
    commit_attempt,
    ending,
    put_file,
    run_abort,
    run_commit,
    run_undo,
    set_up_attempt,
    write_attempt,
    write_job,
)

WAIT_SECONDS = 0.05
FAR_FUTURE_MILLISECONDS = 2**53
BY_ANOTHER_RUN = "committed already by another run"

Files = Mapping[str, bytes]
"""The contents of files by their names, relative to the table."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job at a table: the files that it writes, the roots that it replaces, and the directory `below`
    the table where it was set up. Its `id` is its name, unless it is another attempt, with another
    `number`, or set up again.

    `late` is the output with another attempt of its first task, which has written its files unless
    `is_late_written` is false. `is_half`: its commit died after the first file.
    `unfinished`: what it does about a job whose commit died. Of the jobs with one `run_id`, only one is
    committed.
    """

    name: str
    files: Files
    mode: ConflictMode = ConflictMode.APPEND
    replaces: tuple[str, ...] = ()
    below: str = ""
    late: Files = field(default_factory=dict)
    id: str = ""
    number: int = 0
    is_half: bool = False
    unfinished: Unfinished | None = None
    run_id: str | None = None
    is_late_written: bool = True

    @property
    def place(self) -> tuple[str, str, int]:
        """Where it is set up (another job can be set up there later): destination, id and number."""
        return self.below, self.id or self.name, self.number

    @property
    def wants_none(self) -> bool:
        """Whether it is refused where there is data."""
        return self.mode in (ConflictMode.ERROR, ConflictMode.ERROR_PARTITIONS)

    def attempt(self, table: str) -> JobAttempt:
        """The job's attempt at a table."""
        below, job_id, number = self.place
        return new_job_attempt(join(table, below) if below else table, job_id, number)

    def options(self, table: str) -> CommitOptions:
        """The options of its commit."""
        return CommitOptions(
            mode=self.mode,
            replaced_roots=tuple(join(table, root) if root else table for root in self.replaces),
            conflict_wait_seconds=WAIT_SECONDS,
            unfinished=self.unfinished,
            run_id=self.run_id,
            known_jobs=(),  # each of its commits is a session of its own
        )

    def own(self, files: Files) -> Files:
        """Some of its files, named relative to the directory where it was set up."""
        prefix = f"{self.below}/" if self.below else ""
        return {name.removeprefix(prefix): data for name, data in files.items()}

    @property
    def by_task(self) -> dict[int, Files]:
        """Its files by the task in the tokens of their names; the first task has those without one."""
        found: dict[int, dict[str, bytes]] = {0: {}}
        for name, data in self.files.items():
            found.setdefault(_task_in(name), {})[name] = data
        return {task: self.own(files) for task, files in found.items()}

    @property
    def of_late(self) -> Files:
        """The files of the late attempt itself."""
        return self.own({name: data for name, data in self.late.items() if _task_in(name) == 0})

    def with_late(self, late: Files, *, is_written: bool = True) -> Job:
        """The job with another attempt of its first task, which writes the files `late`."""
        others = {name: data for name, data in self.files.items() if _task_in(name) != 0}
        return replace(self, late={**late, **others}, is_late_written=is_written)

    def applied(self, there: Files, files: Files) -> dict[str, bytes] | None:
        """The table after this job committed `files`; None if it could not have been committed."""
        roots = tuple(map(parent, files)) if self.mode.is_of_partitions else self.replaces or ("",)
        met = {name for name in there if any(_is_below(name, root) for root in roots)}
        if self.wants_none and any(not name.startswith(("_", ".")) for name in met):
            return None
        old = met if self.mode.replaces else set()
        kept = {name: content for name, content in there.items() if name not in old}
        return None if kept.keys() & files.keys() else {**kept, **files}


APPEND = Job("append", {"p=1/a": b"a1", "p=3/a": b"a3"})
OTHER_APPEND = Job("other", {"p=1/o": b"o1", "p=2/o": b"o2"})
OVERWRITE = Job("overwrite", {"p=1/same": b"w-same", "p=4/w": b"w4"}, ConflictMode.OVERWRITE, ("",))
OTHER_OVERWRITE = Job("again", {"p=1/same": b"x-same-", "p=5/x": b"x5"}, ConflictMode.OVERWRITE, ("",))
PARTITION = Job("partition", {"p=1/same": b"q-same--", "p=1/q": b"q1"}, ConflictMode.OVERWRITE, ("p=1",))
OTHER_PARTITION = Job(
    "parts", {"p=1/same": b"r-same", "p=2/r": b"r2"}, ConflictMode.OVERWRITE, ("p=1", "p=2")
)
EMPTY = Job("empty", {"p=1/e": b"e1"}, ConflictMode.ERROR)
OTHER_EMPTY = Job("empty2", {"p=1/f": b"f1"}, ConflictMode.ERROR)
NESTED = Job("nested", {"p=1/n": b"n1"}, below="p=1")
NESTED_OVERWRITE = Job("nested2", {"p=1/m": b"m1"}, ConflictMode.OVERWRITE, ("p=1",), below="p=1")
DYNAMIC = Job("dynamic", {"p=1/same": b"d-same--", "p=3/d": b"d3"}, ConflictMode.OVERWRITE_PARTITIONS)
FRESH = Job("fresh", {"p=3/f": b"f3", "p=4/f": b"f4"}, ConflictMode.ERROR_PARTITIONS)
KINDS = (APPEND, OVERWRITE, PARTITION, EMPTY, NESTED, NESTED_OVERWRITE)
OTHERS = (OTHER_APPEND, OTHER_OVERWRITE, OTHER_PARTITION, OTHER_EMPTY)
"""Another job of each of the first four kinds."""
HALF = Job("half", {"p=1/h": b"h1", "p=3/h": b"h3"}, is_half=True)
HALF_OVERWRITE = Job(
    "half2",
    {"p=1/same": b"h-same", "p=4/h": b"h4", "p=5/h": b"h5"},
    ConflictMode.OVERWRITE,
    ("",),
    is_half=True,
)
SUPERSEDING = Job("superseding", {"p=1/u": b"u1", "p=3/u": b"u3"}, unfinished="supersede")
FINISHING = Job("finishing", {"p=1/i": b"i1", "p=4/i": b"i4"}, unfinished="finish")
OF_ATTEMPT, OF_LATE = "0" * 16, f"{1:016x}"
STAGED = Job("staged", {f"p=1/t-{OF_ATTEMPT}": b"t1", f"p=6/t-{OF_ATTEMPT}": b"t6"})
"""Its files lie beside those of the late attempt, by the tokens in their names."""
STAGED_NEW = Job("staged new", {f"p=7/n-{OF_ATTEMPT}": b"n7", f"p=8/n-{OF_ATTEMPT}": b"n8"})
"""It fills two partitions that are not there yet."""
STAGED_RIVAL = Job("staged rival", {f"p=7/r-{OF_ATTEMPT}": b"r7"})
AGAIN = Job("append again", {"p=1/g": b"g1", "p=3/g": b"g3"}, id="append")
SECOND = Job("append 1", {"p=1/s": b"s1", "p=3/s": b"s3"}, id="append", number=1)
OLD: Files = {"p=1/old": b"old1", "p=1/same": b"old-same", "p=2/old": b"old2"}


@dataclass(frozen=True, slots=True)
class Operation:
    """What a process does at a table, and to which job; `run` returns the answer for its user."""

    name: str
    job: Job | None
    run: Callable[[StoreOperations, str], str]
    is_commit: bool = False
    is_late_task: bool = False
    may_abort: bool = False
    must_end_well: bool = False
    knows_tasks: bool = False
    """It commits exactly the attempts of which it has the results."""
    instead_of: Job | None = None
    """The job that has the id before; this operation sets up its own job with that id."""

    def is_of(self, job: Job) -> bool:
        """Whether it is done to this job; the same job with a late attempt counts."""
        return self.job is not None and self.job.name == job.name


def commit(job: Job) -> Operation:
    """Commit a job."""

    def run(store: StoreOperations, table: str) -> str:
        result = run_commit(store, job.attempt(table), job.options(table))
        return result.outcome.value if result.committed_by is None else BY_ANOTHER_RUN

    return Operation(f"commit {job.name}", job, run, is_commit=True)


def abort(job: Job) -> Operation:
    """Abort a job."""

    def run(store: StoreOperations, table: str) -> str:
        return "aborted" if run_abort(store, job.attempt(table)) else "nothing there"

    return Operation(f"abort {job.name}", job, run, may_abort=True)


def undo(job: Job) -> Operation:
    """Give up a job's commit."""

    def run(store: StoreOperations, table: str) -> str:
        return "aborted" if run_undo(store, job.attempt(table)) else "nothing there"

    return Operation(f"undo {job.name}", job, run, may_abort=True)


def late_task(job: Job) -> Operation:
    """Commit another attempt of the job's first task, as late as possible."""
    name, data = next(iter(job.files.items()))
    name = name.replace(OF_ATTEMPT, OF_LATE)
    job = job.with_late({name: data.upper(), join(parent(name), f"late-{job.name}"): b"late"})

    def run(store: StoreOperations, table: str) -> str:
        stamp = store.read(_stamp_path(table, job)).decode()
        attempt = job.attempt(table)
        attempt_id = f"attempt_{attempt.job_id}_m_000000_1"
        commit_attempt(store, attempt, 0, attempt_id, stamp=stamp, files=job.of_late)
        return "task committed"

    return Operation(f"late task of {job.name}", job, run, is_late_task=True)


def run_again(job: Job, *, commits: bool = True) -> Operation:
    """End the existing job with this id and attempt, and run its application, or its tasks, again."""

    def run(store: StoreOperations, table: str) -> str:
        attempt = job.attempt(table)
        try:
            run_abort(store, attempt)
        except CommitRecordExistsError:
            run_commit(store, attempt, job.options(table))
        write_job(store, attempt, {0: job.own(job.files)}, mode=job.mode)
        return run_commit(store, attempt, job.options(table)).outcome.value if commits else "written"

    name = f"{'run' if commits else 'tasks'} of {job.name}"
    return Operation(name, job, run, is_commit=commits, instead_of=APPEND)


def vacuum(store: StoreOperations, table: str) -> str:
    """Remove every undecided job, at any age."""
    for destination in (table, join(table, NESTED.below)):
        _vacuum(store, destination)
    return "swept"


def _vacuum(store: StoreOperations, table: str) -> None:
    found = find_remains(store, table, older_than_seconds=0, now_milliseconds=FAR_FUTURE_MILLISECONDS)
    for remains in list(found):
        if remains.status.job.is_gone:
            store.delete_directory(remains.status.job.directory)
        elif remains.attempt is not None and remains.kept is None:
            with suppress(RayCommitterError):
                run_abort(store, remains.attempt)
        elif remains.kept is None:
            store.remove_empty_directory(remains.status.job.directory)
    store.remove_empty_directory(temporary_directory(table))


VACUUM = Operation("vacuum", None, vacuum, may_abort=True)


def _set_up(store: StoreOperations, table: str) -> str:
    """Set a job up, and give up every job whose commit died."""
    job = new_job_attempt(table, "new", 0)
    setup_job(store, job, unfinished="supersede", end=ending(store))
    return "set up"


SET_UP = Operation("set-up", None, _set_up, must_end_well=True)


def prepare(
    store: StoreOperations,
    table: str,
    jobs: list[Job],
    old: Files,
    begin_log: Callable[[StoreOperations, str], None] | None = None,
) -> None:
    """Write old data, and jobs whose tasks have committed; a late attempt has only written its files.
    With `begin_log` the table gets a log before the jobs are set up."""
    for name, data in old.items():
        put_file(store, join(table, name), data)
    store.mkdirs(table)
    if begin_log is not None:
        begin_log(store, table)
    for job in jobs:
        attempt = job.attempt(table)
        results = write_job(store, attempt, job.by_task, mode=job.mode, run_id=job.run_id)
        put_file(store, results_path(table, job), pickle.dumps(results))
        if job.late and job.is_late_written:
            late = set_up_attempt(store, attempt, 0, 1)
            write_attempt(store, attempt, late, job.of_late)
            seen = read_state(store, attempt)
            put_file(store, _stamp_path(table, job), (seen.state.stamp if seen else "").encode())
    for job in jobs:
        if job.is_half:
            _commit_half(store, table, job)


def _commit_half(store: StoreOperations, table: str, job: Job) -> None:
    """Commit a job, and die before its second file; beside another half overwrite it stays open."""
    renames = itertools.count()

    def die(call: StoreCall) -> None:
        if call.operation == "rename" and not is_in_log(call.paths[1]) and next(renames) > 0:
            raise SimulatedCrash(call)

    with suppress(SimulatedCrash, CommitConflictError):
        run_commit(WrappedStore(store, before=die), job.attempt(table), job.options(table))


def pairs() -> list[tuple[Operation, Operation]]:
    """Every pair of operations that can meet; each operation is once the one that is stopped."""
    found = list(itertools.product(_of_job(APPEND), repeat=2))
    found += each_with(_of_job(APPEND)[:2], [SET_UP])
    for job in KINDS[1:]:
        found += each_with([commit(job)], _of_job(job))
    found += itertools.permutations(map(commit, KINDS), 2)
    for job, other in zip(KINDS, OTHERS, strict=False):
        found += each_with([commit(job)], [commit(other)])
    for job, met in ((DYNAMIC, [APPEND, PARTITION, FRESH]), (FRESH, [APPEND, OVERWRITE])):
        found += each_with([commit(job)], [*map(commit, met), undo(job), late_task(job)])
    for job in (APPEND, NESTED):
        others = [commit(other) for other in (*KINDS, OTHER_APPEND) if other is not job]
        found += each_with([abort(job), late_task(job)], others)
    found += each_with([commit(STAGED)], [*_of_job(STAGED), commit(OVERWRITE)])
    found += each_with([commit(STAGED_NEW)], [*_of_job(STAGED_NEW), commit(STAGED_RIVAL)])
    found += each_with([undo(STAGED_NEW)], [commit(STAGED_NEW), undo(STAGED_NEW), commit(STAGED_RIVAL)])
    for job in (HALF, HALF_OVERWRITE):
        found += each_with([undo(job)], [*_of_job(job), *map(commit, KINDS), SET_UP])
    for job in (SUPERSEDING, FINISHING):
        others = [*map(commit, (APPEND, OVERWRITE, PARTITION, NESTED)), undo(HALF), undo(HALF_OVERWRITE)]
        found += each_with([commit(job)], others)
    for job in (AGAIN, SECOND):
        others = [*_of_job(APPEND), commit(OVERWRITE)]
        found += each_with([run_again(job)], others)
        found += itertools.product(others, [run_again(job, commits=False)])
    found += each_with([commit(SECOND), abort(SECOND)], [commit(APPEND), abort(APPEND)])
    unique = {(one.name, other.name): (one, other) for one, other in found}.values()
    return [(one, other) for one, other in unique if not one.is_late_task or one.name != other.name]


def _of_job(job: Job) -> list[Operation]:
    return [commit(job), abort(job), undo(job), late_task(job), VACUUM]


def each_with(some: list[Operation], others: list[Operation]) -> list[tuple[Operation, Operation]]:
    """Each operation of `some` with each of `others`, in both orders."""
    return [*itertools.product(some, others), *itertools.product(others, some)]


def _is_below(name: str, root: str) -> bool:
    return not root or name.startswith(f"{root}/")


def _task_in(name: str) -> int:
    token = token_in(name)
    return 0 if token is None else numbers_of(token)[0]


def results_path(table: str, job: Job) -> str:
    """The path, beside the table, of what the tasks of a job have returned."""
    return join(parent(table), f"results-{job.name}")


def _stamp_path(table: str, job: Job) -> str:
    """The path, beside the table, of the stamp that the late attempt got."""
    return join(parent(table), f"stamp-{job.name}")
