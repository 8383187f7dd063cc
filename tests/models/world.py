"""What the model of the states of jobs is made of: jobs at one table, what readers see, processes.

A world is what is on the store (`Shared`) and where each process is (`Process`). Nonces are not
numbered: each is fresh, so all that a process can learn from one is whether it is still the job's. A
process therefore keeps only whether the state that it knows `is_current`, and a change by another ends
that. It makes the worlds finite although committers may withdraw and declare for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, StrEnum, auto
from typing import NamedTuple

from ray_committer.protocol.state import Phase

File = tuple[str, str, str]
"""A file that readers see: its partition, its name there, and who has written it."""

EVERYWHERE = ("p1", "p2", "p3")


class Rule(StrEnum):
    """What may be left out."""

    CONSUME = "a change consumes the state that it was read in"
    READ_BACK = "a change without an answer is read back, by nonce"
    LOOK = "a committer looks at the other jobs"
    LOOK_IN_GONE = "it looks at those that were taken away, too"
    DECLARE_FIRST = "it declares before it looks"
    LIST_AFTER = "old files are listed after the look"
    PAGE_AFTER = "the partitions that a job writes are listed after its declaration, for jobs there"
    ONE_PAGE = "jobs in a partition are looked for before its old files are listed, or by one request"
    PAGE_AGAIN = "it is made again if a job that it has shown is gone"
    FREEZE = "manifests are frozen before the record"
    LIST_AGAIN = "frozen manifests are compared with those that were loaded"
    LOOK_AGAIN = "a task looks again after saving"
    SEAL = "old files go only once every new one is in place"
    SEAL_NAMESAKES = "an old file gives way to a new one of its name only once the job is sealed"
    DELETE_VERSION = "an old file goes only if it is still the one that was listed"
    SOURCE_FIRST = "an undo takes the source away before it looks at the destination"
    NO_UNDO_OF_SEALED = "a sealed job is undone only if its record says that all old files go aside"
    ASIDE_ONCE = "the directory aside is made before the record, and never again"
    NOT_IN_PLACE = "an old file that cannot be put aside is not deleted where it is"
    AWAY_FIRST = "an undo takes the directory aside away before it puts files back"
    BACK_BEFORE_ABORTED = "old files are back before the job is aborted"
    AWAY_BEFORE_COMMITTED = "a committer takes the directory aside away before the job is committed"
    KEPT_UNTIL_COMMITTED = "what is aside is deleted only once the job is committed"
    COMPARE_ASIDE = "what was put aside and is not in the record is moved back"
    WAIT_FOR_SEALED = "a job that replaces data waits for a sealed one"
    LOOK_INSIDE = "clean-up looks inside what it has taken away, and puts back what it did not mean"
    OWN_NAMES = "where nothing can be taken away, clean-up deletes only what was the ended job's"
    SAME_STAMP = "who finds a job of the same id set up again leaves it alone"
    OWN_SUCCESS = "_SUCCESS of another job of the same id says nothing"
    OWN_STATE_IN_GONE = "what was taken away was committed only if its state says so"
    STAMP = "a manifest with the stamp of another job is refused"
    ABORT_OLDER = "a newer attempt aborts the older ones before its record"
    ABORT_OTHERS = "a committed attempt aborts the others before its clean-up"
    LOOK_AT_SUCCESS = "a set-up looks whether _SUCCESS is of another attempt of its job"


class Option(Enum):
    """What else may happen."""

    LOST_ANSWERS = auto()
    """A change of a state is made, and its answer is lost."""
    STALE_OWN = auto()
    """A process may read its own job's state as it was before the latest change."""
    STALE_OTHERS = auto()
    """A look at another job may show it as it was before its latest change."""
    STALE_DATA = auto()
    """A listing of a partition may show it as it was before its latest change."""
    FLAT = auto()
    """The store cannot rename directories: loading copies manifests, and nothing is taken away."""
    PARTS = auto()
    """A listing of a partition takes several requests: none shows both old files and jobs there."""
    ASIDE = auto()
    """An old file is renamed, by its name, to a directory of the job, instead of deleted by version."""


class Place(Enum):
    """Where the directory of a job attempt is."""

    NOWHERE = auto()
    """Not set up yet."""
    HERE = auto()
    GONE = auto()
    """Taken away, under a name at which nobody looks for a job."""
    SWEPT = auto()
    """Taken away once more, by who sweeps."""
    DELETED = auto()


class Plan(NamedTuple):
    """What a job is, which does not change: whose `attempt` it is, what it writes, what it replaces or
    wants to be empty (`excludes`). In the partitions `namesakes` its files have the names of old ones.

    Of two plans of one id and attempt the second is of a job that is set up later, `is_later`. A job is
    set up in the directory of the table, or of its only partition, `is_below`, where it is found only by
    who lists that.
    """

    writes: tuple[str, ...]
    excludes: tuple[str, ...] = ()
    wants_none: bool = False
    namesakes: tuple[str, ...] = ()
    id: str = ""
    attempt: int = 0
    is_later: bool = False
    is_below: bool = False


class Record(NamedTuple):
    """What is recorded of a job, and `since` which others it can only come: they were committed."""

    manifests: str
    old: frozenset[File]
    since: frozenset[int] = frozenset()


class Job(NamedTuple):
    """What is on the store of a job attempt: `moved` and `taken` are the files that left their first
    place, to the destination and by an undo; `was` is the phase before the latest change. `aside` are
    the old files in the directory aside, and `away` those in it after it was taken away.
    """

    phase: Phase = Phase.OPEN
    place: Place = Place.HERE
    manifests: str | None = None
    frozen: str | None = None
    record: Record | None = None
    moved: frozenset[File] = frozenset()
    taken: frozenset[File] = frozenset()
    was: Phase | None = None
    aside: frozenset[File] | None = None
    away: frozenset[File] | None = None


class Shared(NamedTuple):
    """What is on the store; `success` is the job that ``_SUCCESS`` names, `before` what a stale listing
    of a partition shows.
    """

    jobs: tuple[Job, ...]
    visible: frozenset[File]
    success: int = -1
    before: tuple[tuple[str, frozenset[File]], ...] = ()


class Process(NamedTuple):
    """What a process does with the directory of a job attempt (`slot`: the first job that is set up
    there), where it is, and what it knows; `told` is what it said when it ended.

    `job` is the one that it has seen there, -1 before, and `meant` the first such; `kept` is one that it
    took away. A listing of a partition has `shown` jobs there.
    """

    does: str
    slot: int
    step: str = "look"
    job: int = -1
    is_current: bool = False
    loaded: str | None = None
    at: int = 0
    old: frozenset[File] = frozenset()
    after: str = ""
    kept: int = -1
    meant: int = -1
    shown: tuple[int, ...] = ()
    told: str | None = None


Step = tuple[Shared, Process, int]
"""What a request leads to: the store, the process, and the job whose state it has changed, or -1."""


def with_job(shared: Shared, number: int, job: Job) -> Shared:
    jobs = shared.jobs
    return shared._replace(jobs=(*jobs[:number], job, *jobs[number + 1 :]))


def files(number: int, plan: Plan, manifests: str) -> list[File]:
    """The files that a job's manifests name."""
    return [(root, "old" if root in plan.namesakes else manifests, manifests) for root in plan.writes]


def in_root(visible: frozenset[File], root: str) -> frozenset[File]:
    return frozenset(file for file in visible if file[0] == root)


def old_files(roots: Sequence[str] = EVERYWHERE) -> frozenset[File]:
    return frozenset((root, "old", "old") for root in roots)


def is_own(number: int, manifests: str) -> bool:
    """Whether manifests are of the tasks of this job."""
    return manifests.startswith(str(number))


def hinders(one: Plan, other: Plan) -> bool:
    """Whether two jobs must not be committed at once."""
    return bool(set(one.excludes) & set(other.writes) or set(other.excludes) & set(one.writes))
