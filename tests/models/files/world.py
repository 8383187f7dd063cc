"""What the model of the files of a job is made of: what tasks stage and save, and what is made of it.

`tests.models.world` has the states of jobs and what they replace; here are the files of one job, and of
a later one that is set up under its id: sources staged beside those of other task attempts, manifests,
messages to the driver, packs, the record. Nonces are not numbered, as there.
"""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import NamedTuple

from ray_committer.protocol.state import Phase


class Rule(StrEnum):
    """What may be left out."""

    UNIQUE = "the name of a staged file is unique to the task attempt"
    OF_ONE_JOB = "what is staged is of one job, even if another has its id"
    BY_NAME = "an attempt that is aborted deletes its own files, by name"
    TRIED = "an attempt that has tried to save its manifest deletes nothing"
    LOOK_AGAIN = "a task looks at the job again after it has saved"
    STAMP = "a manifest with the stamp of another job is refused"
    LISTING = "after the freeze the listing decides, whatever was loaded before"
    NO_MORE = "a manifest of which no message came stops the commit"
    LISTED_FIRST = "a manifest is listed before it is read, and counts as it was listed"
    FREEZE = "the manifests are frozen before the record"
    REPLACED = "the record names no pack of an attempt that another has replaced"
    PACKS_FIRST = "packs are written before the record that names them"
    OWN_NAMES = "a pack is named for its writer"
    OWN_PACKS = "a record names only packs that its writer has made"
    BESIDE = "packs lie beside the state, and not in it"
    FROM_PACKS = "who moves files reads the packs of the record, and no manifest"
    SOURCES = "the sources are looked at before the record"
    AFTER_FREEZE = "they are looked at after the freeze"
    TOKENS = "a file of an attempt that counts, but in no pack, stops the commit"
    UNSAVED = "who was not told the number of tasks stops at files of a task without a manifest"
    UNSAVED_FIRST = "and looks for them before the freeze"
    SOURCE_FIRST = "an undo takes each source by its name before it looks at the destination"
    LOOK_INSIDE = "clean-up looks inside what it has taken away, and puts back what it did not mean"


class Option(Enum):
    """What else may happen, or how the job is committed."""

    FLAT = auto()
    """The store cannot rename directories: the packs are the copies that freeze the job."""
    REFUSES = auto()
    """The driver refuses a manifest that is not the one of its message; else it reads that again."""
    PARTIAL = auto()
    """The driver commits as soon as it has a message, though others may be lost."""
    UNTOLD = auto()
    """The command line was not told how many tasks there are."""
    HADOOPS = auto()
    """The tasks are Hadoop's, which do not look at the job again."""
    FROZEN_TASKS = auto()
    """The files of tasks are frozen, too, after the manifests."""


class Path(NamedTuple):
    """Where a file is: its place in the staging, and at the destination, by the names in it."""

    job: int
    task: int
    attempt: int
    piece: int


Rows = tuple[int, int, int, int]
"""The rows of a file: job, task, attempt and piece that they are of."""
File = tuple[Path, Rows]


class Manifest(NamedTuple):
    """What a task attempt has saved; `job` is the stamp. Its files show their size, time and identity,
    so that two with other rows differ."""

    job: int
    task: int
    attempt: int
    files: frozenset[File]


PackName = tuple[str, int, int, int]
"""Whose pack it is, and the job, task and attempt of the one manifest in it: the digest."""


class Record(NamedTuple):
    """The packs that make a job. For the judge: which files lay `beside` theirs then, in no pack."""

    packs: frozenset[PackName]
    beside: frozenset[Path] = frozenset()


class Job(NamedTuple):
    """What is in the directory of a job attempt; `saved` is None once `manifests/` is renamed. A pack is
    None from its creation until its content is there. What is written after the files were frozen is
    `late`, and None before."""

    number: int
    phase: Phase = Phase.OPEN
    saved: frozenset[Manifest] | None = frozenset()
    frozen: frozenset[Manifest] | None = None
    staged: frozenset[File] = frozenset()
    late: frozenset[File] | None = None
    packs: frozenset[tuple[PackName, frozenset[File] | None]] = frozenset()
    record: Record | None = None


class Shared(NamedTuple):
    """What is on the store, and `messages` under way to the driver. `here` is the job in the directory
    of the attempt, `gone` those that were taken away, `ends` those that were deleted. Without a job
    there may be a directory for a state, but with no state in it: `is_unclear`.
    """

    here: Job | None
    gone: tuple[Job, ...] = ()
    ends: tuple[Job, ...] = ()
    visible: frozenset[File] = frozenset()
    success: int = -1
    messages: tuple[Manifest, ...] = ()
    is_unclear: bool = False


class Process(NamedTuple):
    """What a process does with which job, where it is, and what it knows; `told` is what it said when it
    ended. `writer` names its packs."""

    does: str
    job: int = 0
    step: str = "look"
    writer: str = ""
    task: int = 0
    attempt: int = 0
    is_current: bool = False
    at: int = 0
    after: str = ""
    has_tried: bool = False
    has_messages: bool = False
    listed: frozenset[Manifest] | None = None
    loaded: frozenset[Manifest] = frozenset()
    packed: frozenset[PackName] = frozenset()
    entries: frozenset[File] = frozenset()
    told: str | None = None


class Plan(NamedTuple):
    """How many tasks each job has, and how many files each of their attempts."""

    tasks: int = 2
    pieces: int = 1


Step = tuple[Shared, Process, int]
"""What a request leads to: the store, the process, and the job whose state it has changed, or -1."""


def replaced(manifests: frozenset[Manifest], manifest: Manifest) -> frozenset[Manifest]:
    """The manifests after one was saved in the place of its task's."""
    return frozenset({*(one for one in manifests if one.task != manifest.task), manifest})


def files_of(manifests: frozenset[Manifest]) -> frozenset[File]:
    return frozenset[File]().union(*(one.files for one in manifests))
