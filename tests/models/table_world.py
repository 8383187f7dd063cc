"""What the model of tables with a log is made of: jobs, the files that readers see, the log, processes.

A world is what is on the store (`Shared`) and where each process is (`Process`), as in `world`. Every
request that others can see is one step. Here each job has an id of its own, and nobody looks at other
jobs but by the log, which is less than what a commit does: what the look keeps apart is not needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from ray_committer.protocol.claims import common_partitions
from ray_committer.protocol.state import Phase
from ray_committer.protocol.table_entry import WriteMode

APPEND, CREATE, OVERWRITE = WriteMode.APPEND, WriteMode.CREATE, WriteMode.OVERWRITE
REPLACE, REWRITE = WriteMode.REPLACE, WriteMode.REWRITE

LEAVES = ("a/b", "p", "q")
"""The directories that hold files; jobs also write to all in ``a``, or in the table."""

WRITES = {"": ("a/b", "p"), "a": ("a/b",), "a/b": ("a/b",), "p": ("p",), "q": ("q",)}
"""Where the files of a job are that claims a directory."""

OLD = -1
"""Who has written the files that were there at first."""


class Rule(StrEnum):
    """What may be left out."""

    LIST_AFTER_CLAIM = "old files are listed after the claim"
    CHECK_IN_FLIGHT = "a claim waits for others in flight"
    TWO_WAY = "it waits also for one that it would refuse, and not only for one that would refuse it"
    HOLD_UNTIL_DONE = "a claim that removes files is in flight until they are gone"
    ABORT_AFTER_STATE = "an abort is in the log only after the job's state says so"
    ABORT_BEFORE_GONE = "an abort is in the log, with a claim or without, before the job is taken away"
    SEAL_APPENDS = "an append, too, is sealed before the log says that it is committed"
    COMMIT_BEFORE_REMOVAL = "old files go only once the log says that the job is committed"
    UNDONE_AT_BASE = "who was committed before the base, and was not done, counts as ended since"
    COUNT_ABORTED = "an aborted claim counts as ended"
    FROM_SNAPSHOT = "a rewrite takes its old files from a snapshot"
    PREFIXES = "a directory is claimed with all that is below it"
    OWN_CLAIM = "a run of a commit goes on with the claim of an earlier one"
    READ_REWRITES = "a rewrite counts as a change of what another job has read"
    REWRITE_ALWAYS = "a rewrite is refused at every level of isolation if its files were replaced"
    JUDGE_DRAFTS = "a draft waits for the claims that its owner has not seen"
    NOT_TWICE = "a draft is not put after a claim or commit of its job that its owner has not seen"
    NOT_AFTER_ABORT = "a draft is not put after an abort of its job that its owner has not seen"
    KNOW_SINCE = "a draft is put only by who knows all entries that its owner has not seen"


class File(NamedTuple):
    """A file that readers see: its directory, the job that wrote it, and whose rows it holds."""

    leaf: str
    writer: int
    rows: tuple[int, ...]

    @property
    def path(self) -> str:
        return f"{self.leaf}/{self.writer}"


Files = frozenset[File]
NO_FILES: Files = frozenset()


class Plan(NamedTuple):
    """What a job does: its mode, the directory that it claims, and those that it has read, one after the
    other or `from_snapshot`.

    reads_early: it has read before it was set up, so that its base is later.
    """

    mode: WriteMode
    where: str
    reads: tuple[str, ...] = ()
    from_snapshot: bool = False
    reads_early: bool = False

    @property
    def all_reads(self) -> tuple[str, ...]:
        """All that its rows come from: also what it replaces by rows that come from there."""
        return (*self.reads, self.where) if self.mode in (REPLACE, REWRITE) else self.reads

    @property
    def replaces(self) -> bool:
        """Whether it replaces all that is where it writes."""
        return self.mode in (OVERWRITE, REPLACE)

    def __str__(self) -> str:
        reads = f" reads {' '.join(one or 'all' for one in self.reads)}" if self.reads else ""
        return (
            f"{self.mode} {self.where or 'all'}{reads}{' from a snapshot' if self.from_snapshot else ''}"
        )


class Entry(NamedTuple):
    """An entry of the log: of which job, and about the claim of which version. `files` are the new ones
    of a claim, or the old ones that a commit removes."""

    kind: str
    job: int
    claim: int = 0
    files: Files = NO_FILES


Log = tuple[Entry, ...]


class Draft(NamedTuple):
    """An entry that its owner has judged by the first `seen` entries of the log. It stays for ever:
    another process can have read it before its owner deleted it."""

    entry: Entry
    seen: int


class Job(NamedTuple):
    """What is on the store of a job; `phase` is None until it is set up.

    base: the version before it was set up. read: what it has read so far, with `unread` to come.
    record: the old files that it removes, and `claim` the version of its claim. taken: the files that
    have left their first place, to the destination or by an undo.
    """

    phase: Phase | None = None
    is_here: bool = False
    base: int = 0
    read: Files = NO_FILES
    unread: tuple[str, ...] = ()
    record: Files | None = None
    claim: int = 0
    taken: Files = NO_FILES


class Shared(NamedTuple):
    """What is on the store: the jobs, the files that readers of directories see, the log, and drafts."""

    jobs: tuple[Job, ...]
    visible: Files
    log: Log
    drafts: frozenset[Draft] = frozenset()


class Process(NamedTuple):
    """What a process does with a job, where it is, and what it knows; `told` is what it said at its end.

    is_current: whether the state of the job that it knows is still the job's. at: the next of its files.
    old: the files that it has listed. claim: the version of the job's claim. waits: its own job, if it
    ends another one that was in its way.
    """

    does: str
    job: int
    step: str = "look"
    is_current: bool = False
    at: int = 0
    old: Files = NO_FILES
    claim: int = 0
    waits: int = -1
    told: str | None = None


Step = tuple[Shared, Process, int]
"""What a request leads to: the store, the process, and the job whose state it has changed, or -1."""


@cache
def new_files(number: int, plan: Plan, read: Files) -> Files:
    """The files that a job writes; those of a rewrite hold the rows that it has `read`."""
    if plan.mode is not REWRITE:
        return frozenset(File(leaf, number, (number,)) for leaf in WRITES[plan.where])
    found = []
    for leaf in LEAVES:
        rows = sorted(row for file in read if file.leaf == leaf for row in file.rows)
        found += [File(leaf, number, tuple(rows))] if rows else []
    return frozenset(found)


def old_files(leaves: Iterable[str] = LEAVES) -> Files:
    return frozenset(File(leaf, OLD, (OLD,)) for leaf in leaves)


def within(files: Files, directories: tuple[str, ...]) -> Files:
    """The files in some directories, or below them."""
    inside = leaves(directories)
    return frozenset(file for file in files if file.leaf in inside)


@cache
def leaves(directories: tuple[str, ...]) -> tuple[str, ...]:
    """The directories with files that are in some directories."""
    found = common_partitions(LEAVES, directories)
    return tuple(leaf for leaf in LEAVES if leaf in found)


def rows(files: Files) -> tuple[tuple[str, int], ...]:
    """The rows in files, with the directory of each; a row that is there twice is there twice."""
    return tuple(sorted((file.leaf, row) for file in files for row in file.rows))


def with_job(shared: Shared, number: int, job: Job) -> Shared:
    jobs = shared.jobs
    return shared._replace(jobs=(*jobs[:number], job, *jobs[number + 1 :]))
