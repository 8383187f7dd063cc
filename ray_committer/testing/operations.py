"""Jobs at one table and what processes do to them, for `ray_committer.testing.schedules`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from ray_committer.errors import RayCommitterError
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import JobAttempt, join, new_job_attempt, parent, temporary_directory
from ray_committer.protocol.record import ConflictMode
from ray_committer.stages.job_state import read_state
from ray_committer.stages.setup_job import setup_job
from ray_committer.stages.vacuum_jobs import find_remains
from ray_committer.stores.base import StoreOperations
from ray_committer.testing.harness import (
    commit_attempt,
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

Files = Mapping[str, bytes]
"""The contents of files by their names, relative to the table."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job at a table: what it writes, the roots that it replaces, and the directory `below` the table
    in which it was set up. `late` is what another attempt of its task writes."""

    name: str
    files: Files
    mode: ConflictMode = ConflictMode.APPEND
    replaces: tuple[str, ...] = ()
    below: str = ""
    late: Files = field(default_factory=dict)

    def attempt(self, table: str) -> JobAttempt:
        """The job's attempt at a table."""
        return new_job_attempt(join(table, self.below) if self.below else table, self.name, 0)

    def options(self, table: str) -> CommitOptions:
        """How it is committed."""
        return CommitOptions(
            mode=self.mode,
            replaced_roots=tuple(join(table, root) if root else table for root in self.replaces),
            conflict_wait_seconds=WAIT_SECONDS,
        )

    def own(self, files: Files) -> Files:
        """Some of its files, named relative to where it was set up."""
        prefix = f"{self.below}/" if self.below else ""
        return {name.removeprefix(prefix): data for name, data in files.items()}

    def applied(self, there: Files, files: Files) -> dict[str, bytes] | None:
        """What is there after it has committed `files`; None if it cannot have been committed then."""
        data = {name for name in there if not name.startswith(("_", "."))}
        if self.mode is ConflictMode.ERROR and data:
            return None
        old = {name for name in there if any(_is_below(name, root) for root in self.replaces)}
        kept = {name: content for name, content in there.items() if name not in old}
        return None if kept.keys() & files.keys() else {**kept, **files}


APPEND = Job("append", {"p=1/a": b"a1", "p=3/a": b"a3"}, late={"p=1/late": b"late", "p=3/a": b"a3!"})
OTHER_APPEND = Job("other", {"p=1/o": b"o1", "p=2/o": b"o2"})
OVERWRITE = Job("overwrite", {"p=1/same": b"w-same", "p=4/w": b"w4"}, ConflictMode.OVERWRITE, ("",))
OTHER_OVERWRITE = Job("again", {"p=1/same": b"x-same-", "p=5/x": b"x5"}, ConflictMode.OVERWRITE, ("",))
PARTITION = Job("partition", {"p=1/same": b"q-same--", "p=1/q": b"q1"}, ConflictMode.OVERWRITE, ("p=1",))
EMPTY = Job("empty", {"p=1/e": b"e1"}, ConflictMode.ERROR)
OTHER_EMPTY = Job("empty2", {"p=1/f": b"f1"}, ConflictMode.ERROR)
NESTED = Job("nested", {"p=1/n": b"n1"}, below="p=1")
NESTED_OVERWRITE = Job("nested2", {"p=1/m": b"m1"}, ConflictMode.OVERWRITE, ("p=1",), below="p=1")
OLD: Files = {"p=1/old": b"old1", "p=1/same": b"old-same", "p=2/old": b"old2"}


@dataclass(frozen=True, slots=True)
class Operation:
    """What a process does at a table, and to which job; `run` returns what its user is told."""

    name: str
    job: Job | None
    run: Callable[[StoreOperations, str], str]
    is_commit: bool = False
    is_late_task: bool = False
    must_end_well: bool = False


def commit(job: Job) -> Operation:
    """Commit a job."""

    def run(store: StoreOperations, table: str) -> str:
        return run_commit(store, job.attempt(table), job.options(table)).outcome.value

    return Operation(f"commit {job.name}", job, run, is_commit=True)


def abort(job: Job) -> Operation:
    """Abort a job."""

    def run(store: StoreOperations, table: str) -> str:
        return "aborted" if run_abort(store, job.attempt(table)) else "nothing there"

    return Operation(f"abort {job.name}", job, run)


def undo(job: Job) -> Operation:
    """Give a job's commit up."""

    def run(store: StoreOperations, table: str) -> str:
        return "aborted" if run_undo(store, job.attempt(table)) else "nothing there"

    return Operation(f"undo {job.name}", job, run)


def late_task(job: Job) -> Operation:
    """Commit another attempt of the job's first task, as late as can be."""

    def run(store: StoreOperations, table: str) -> str:
        stamp = store.read(_stamp_path(table, job)).decode()
        attempt_id = f"attempt_{job.name}_m_000000_1"
        commit_attempt(store, job.attempt(table), 0, attempt_id, stamp=stamp)
        return "task committed"

    return Operation(f"late task of {job.name}", job, run, is_late_task=True)


def vacuum(store: StoreOperations, table: str) -> str:
    """Remove whatever is not decided, however young it is."""
    found = find_remains(store, table, older_than_seconds=0, now_milliseconds=FAR_FUTURE_MILLISECONDS)
    for remains in list(found):
        if remains.is_gone:
            store.delete_directory(remains.directory)
        elif remains.attempt is not None and remains.kept is None:
            with suppress(RayCommitterError):
                run_abort(store, remains.attempt)
        elif remains.kept is None:
            store.remove_empty_directory(remains.directory)
    store.remove_empty_directory(temporary_directory(table))
    return "swept"


VACUUM = Operation("vacuum", None, vacuum)


def _set_up(store: StoreOperations, table: str) -> str:
    setup_job(store, new_job_attempt(table, "new", 0))
    return "set up"


SET_UP = Operation("set-up", None, _set_up, must_end_well=True)


def prepare(store: StoreOperations, table: str, jobs: list[Job], old: Files) -> None:
    """Write old data, and jobs whose tasks have committed; a late attempt has written, and no more."""
    for name, data in old.items():
        put_file(store, join(table, name), data)
    store.mkdirs(table)
    for job in jobs:
        attempt = job.attempt(table)
        write_job(store, attempt, {0: job.own(job.files)}, mode=job.mode)
        if job.late:
            late = set_up_attempt(store, attempt, 0, 1)
            write_attempt(store, attempt, late, job.own(job.late))
            seen = read_state(store, attempt)
            put_file(store, _stamp_path(table, job), (seen.state.stamp if seen else "").encode())


def pairs() -> list[tuple[Operation, Operation]]:
    """Every pair of operations that may meet, each as the one that is stopped."""
    ours = [commit(APPEND), abort(APPEND), undo(APPEND), VACUUM, late_task(APPEND)]
    found = [
        (one, other)
        for one, other in itertools.product(ours, ours)
        if not one.is_late_task or one != other
    ]
    for job in (OTHER_APPEND, OVERWRITE, PARTITION, NESTED, NESTED_OVERWRITE):
        found += _both(commit(APPEND), commit(job))
    found += [pair for one in (commit(APPEND), abort(APPEND)) for pair in _both(one, SET_UP)]
    for job in (OVERWRITE, PARTITION):
        found.append((commit(job), commit(job)))
        for other in (undo(job), VACUUM, abort(job)):
            found += _both(commit(job), other)
    found += [(commit(OVERWRITE), commit(OTHER_OVERWRITE)), *_both(commit(OVERWRITE), commit(PARTITION))]
    for job in (NESTED, NESTED_OVERWRITE):
        found += _both(commit(OVERWRITE), commit(job))
    found += [(commit(EMPTY), commit(OTHER_EMPTY)), *_both(commit(EMPTY), commit(APPEND))]
    found += _both(commit(EMPTY), undo(EMPTY))
    return list({(one.name, other.name): (one, other) for one, other in found}.values())


def _both(one: Operation, other: Operation) -> list[tuple[Operation, Operation]]:
    return [(one, other), (other, one)]


def _is_below(name: str, root: str) -> bool:
    return not root or name.startswith(f"{root}/")


def _stamp_path(table: str, job: Job) -> str:
    """Where the stamp is kept that the late attempt was given, beside the table."""
    return join(parent(table), f"stamp-{job.name}")
