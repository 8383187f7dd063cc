"""The stores of `jobs/estimate.py`, with the order and the number of all their requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from ray_committer.jobs.estimate import ABOVE, LIST, OTHER, READ, STORES, WRITE
from ray_committer.jobs.estimate import Store as Kind

OPEN, LOAD, PREPARE, DIRECTORIES, MOVES, VALIDATE, FINISH = (
    "find the job", "load manifests", "check and record", "make directories", "move files", "validate",
    "commit and clean up",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Store(Kind):
    """A kind of store.

    page: the names in one answer to a listing; None if it has them all.
    once: requests of a commit beside those of its files, tasks and directories.
    rounds: how many requests of each stage follow one another, without those of its items.
    listed_a_task, names_a_task: names of a task in a listing of the manifests, and for the clean-up.
    listings: how often the manifests are listed.
    deletes_at_once: how many names one deletion takes in the clean-up; 0 if one takes the whole job.
    weights: how many requests, one after another, a kind takes; 1 if it is not there.
    """

    once: Mapping[str, float]
    rounds: Mapping[str, float]
    page: int | None = None
    listed_a_task: int = 1
    listings: int = 2
    names_a_task: int = 1
    deletes_at_once: int = 0
    deletions_at_once: int = 1
    weights: Mapping[str, int] = field(default_factory=dict)


def like(kind: Kind, **more: object) -> Store:
    """The store of the formulas, with what the simulation knows of it."""
    return Store(**{one.name: getattr(kind, one.name) for one in fields(Kind)} | more)


_ON_FILES = {OPEN: 1, LOAD: 0, PREPARE: 3, DIRECTORIES: 0, MOVES: 0, FINISH: 7}
_ONCE_ON_FILES = {LIST: 5 + ABOVE, READ: 2, WRITE: 3, OTHER: 10}

FILE = like(STORES["file"], once=_ONCE_ON_FILES, rounds=_ON_FILES)
HDFS = like(STORES["hdfs"], once=_ONCE_ON_FILES, rounds=_ON_FILES, page=1000, weights={WRITE: 2})
ADLS = like(STORES["abfs"], once=_ONCE_ON_FILES, rounds=_ON_FILES, page=5000, weights={WRITE: 2})
GCS = like(
    STORES["gs"],
    once={LIST: 6 + ABOVE, READ: 2, WRITE: 2, OTHER: 11},
    rounds={**_ON_FILES, PREPARE: 2, FINISH: 15},
    page=1000,
    names_a_task=3,
    deletes_at_once=100,
    deletions_at_once=4,
)
S3 = like(
    STORES["s3"],
    once={LIST: 4 + ABOVE, READ: 2, WRITE: 1, OTHER: 5},
    rounds={**_ON_FILES, OPEN: 2, PREPARE: 2, FINISH: 5},
    page=1000,
    listed_a_task=2,
    listings=3,
    names_a_task=2,
    deletes_at_once=1000,
)
