"""What the model of directories that are moved whole is made of.

`tests.models.files` has manifests, messages and packs; here packs are as their record. The files of a
job lie in stagings, by the directory that they are for; a directory of the output is there or not, holds
files of this job and of others, and comes by one rename or file by file.
"""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import NamedTuple

from ray_committer.protocol.state import Phase


class Rule(StrEnum):
    """What may be left out."""

    FREEZE = "the files of tasks are frozen before the record"
    LOOK_AFTER = "the files are looked at after the freeze"
    MANIFESTS_FIRST = "manifests are frozen before them"
    MARK = "only the staging with the mark counts"
    STAMPED = "the mark names the set-up"
    MARK_FIRST = "the mark is made before the state"
    UNSAVED = "who was not told the number of tasks first looks for attempts that have not saved"
    ANY_STAGING = "it looks for them wherever the staging is"
    EXCLUSIVE = "a source with anything odd in it goes by file"
    LEFTOVERS = "leftovers go before the move"
    RECORDED = "leftovers go after the record"
    BY_PACKS = "leftovers are what the packs of the record do not name"
    NEVER_OVER = "a directory is moved over nothing"
    NEVER_EMPTY = "nor over an empty directory"
    NEVER_INTO = "nor into one"
    THERE = "a directory that is there by now is no error"
    REFUSED = "a refused directory goes by file"
    FROM_FROZEN = "it does so from the frozen place"
    MADE_AGAIN = "a directory that was taken away is made again"
    OWN_NAMES = "a directory with files in directories of attempts goes by file"
    ONE_SOURCE = "a directory with two sources goes by file"
    NO_PROOF = "that a directory is there proves nothing"
    BY_NAMES = "a directory is proved by its files, and not by their number"
    AMONG_OTHERS = "where the proof fails, each file is looked for"
    NOT_DONE = "a source that is missing is not done"
    NOT_LOST = "nor lost, unless the staging has its name"
    OWN_STAGING = "an error about sources counts only while the staging has its name"
    RENAMED = "who continues renames the staging"
    NEW_NONCE = "to a name that was never requested"
    OVERTAKEN = "who was overtaken never takes over again"
    DECLARED = "an open job is taken over only by who has declared it"
    UNDO_FIRST = "an undo takes the staging before it looks at files"
    UNDO_ALL = "whatever its name"
    UNDO_MARKED = "and looks for it until it has it"
    UNDO_OF_MARK = "which is the one with the mark, and no other"
    UNDO_BY_FILE = "no directory is moved back"
    UNDO_PROVEN = "each file is proved before it is taken back"
    UNDO_EMPTY = "an undo removes only empty directories"
    UNDO_ABSENT = "of which the record says that they were not there"
    LOOK_FIRST = "who replaces lists after it has looked for others"
    NO_HANDLES = "nothing is frozen where files are renamed by handle"
    ONCE = "a directory counts once"


class Option(Enum):
    """What else may happen, or how the job is committed."""

    UNTOLD = auto()
    """The command line was not told how many tasks there are."""
    REFUSES = auto()
    """The store refuses to move directories."""
    UNANSWERED = auto()
    """A request to move a directory may get no answer, and be done at any later time."""
    HANDLES = auto()
    """The store opens the directory of a source before it renames a file."""
    TORN = auto()
    """A listing may miss a staging that is renamed meanwhile."""
    UNMARKED = auto()
    """Hadoop has set the job up."""
    RAY = auto()
    """Workers move the directories; a request may be made twice."""
    REPLACES = auto()
    """The job replaces the directories that it writes."""


class File(NamedTuple):
    """The first three are its name; `content` tells those of one name apart. Task 9 are others; piece -1
    is a directory."""

    task: int
    attempt: int = 0
    piece: int = 0
    content: int = 0

    @property
    def name(self) -> tuple[int, int, int]:
        return self[:3]


OTHERS = 9


class Entry(NamedTuple):
    """A file, the source directory where it is staged, and the directory that it is for. Keys that begin
    with "own" are directories of attempts."""

    key: str
    place: str
    file: File


class Manifest(NamedTuple):
    """What a task attempt has saved; `job` is the stamp."""

    job: int
    task: int
    attempt: int
    entries: frozenset[Entry]


class Staging(NamedTuple):
    """Where files of tasks are: `tasks`, or a name with a nonce. `marks` are of the set-ups that made
    one in it."""

    name: str
    marks: frozenset[int] = frozenset()
    files: frozenset[tuple[str, File]] = frozenset()


class Record(NamedTuple):
    """The entries that make a job, the places that were not there, and what it replaces. For the judge:
    the tasks with files, but without a manifest, when its writer began to load, that are not in it. And
    the name of the staging then, which no process needs to know."""

    entries: frozenset[Entry]
    absent: frozenset[str] = frozenset()
    old: frozenset[tuple[str, File]] = frozenset()
    beside: frozenset[int] = frozenset()
    staging: str = "tasks"


class Job(NamedTuple):
    """What is in the directory of a job attempt; `place` is where the undo puts stagings, `undone`."""

    number: int
    phase: Phase = Phase.OPEN
    saved: frozenset[Manifest] | None = frozenset()
    frozen: frozenset[Manifest] | None = None
    stagings: frozenset[Staging] = frozenset()
    record: Record | None = None
    place: str = ""
    undone: frozenset[Staging] = frozenset()


class Request(NamedTuple):
    """A request to move a directory, that is under way."""

    staging: str
    key: str
    place: str


class Shared(NamedTuple):
    """What is on the store. `there` are the directories of the output; `dropped` what was removed with
    them; `flying` requests without an answer, `answers` those of workers. `over` is what another job
    that replaces "a" has come to."""

    here: Job | None
    gone: tuple[Job, ...] = ()
    ends: tuple[Job, ...] = ()
    there: frozenset[str] = frozenset()
    visible: frozenset[tuple[str, File]] = frozenset()
    success: int = -1
    dropped: frozenset[tuple[str, File]] = frozenset()
    flying: frozenset[Request] = frozenset()
    answers: tuple[tuple[str, str], ...] = ()
    over: str = ""


class Process(NamedTuple):
    """What a process does with which job, where it is, and what it knows; `told` is what it said when it
    ended. `writer` is its nonce, `taken` how many it has used. Of `entries` those of `whole` go by
    directory; `extras` are leftovers."""

    does: str
    job: int = 0
    step: str = "look"
    writer: str = ""
    task: int = 0
    attempt: int = 0
    place: str = ""
    is_named: bool = False
    is_current: bool = False
    has_declared: bool = False
    pending: frozenset[str] = frozenset()
    at: int = 0
    after: str = ""
    staging: str = ""
    found: str = ""
    taken: int = 0
    loaded: frozenset[Manifest] = frozenset()
    entries: frozenset[Entry] = frozenset()
    whole: frozenset[str] = frozenset()
    extras: frozenset[tuple[str, File]] = frozenset()
    absent: frozenset[str] = frozenset()
    seen: frozenset[str] = frozenset()
    beside: frozenset[int] = frozenset()
    old: frozenset[tuple[str, File]] = frozenset()
    told: str | None = None


class Layout(NamedTuple):
    """For each task, the sources and places of its files; each of them has this many `pieces`."""

    tasks: tuple[tuple[tuple[str, str], ...], ...]
    pieces: int = 1

    def entries(self, task: int, attempt: int) -> list[Entry]:
        return [
            Entry(key, place, File(task, attempt, piece + 10 * number))
            for number, (key, place) in enumerate(self.tasks[task])
            for piece in range(self.pieces)
        ]


Step = tuple[Shared, Process, int]
"""What a request leads to: the store, the process, and the job whose state it has changed, or -1."""
