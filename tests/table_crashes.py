"""Jobs of a table with a log that die, or lose an answer, at each request to the log; on any store.

In each test the log has file lists, a checkpoint from before, and one that the job saves.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import pytest

import ray_committer.tables.checkpoint as checkpoint_module
from ray_committer.errors import (
    RayCommitterError,
    StoreUnavailableError,
)
from ray_committer.limits import waiting
from ray_committer.limits.waiting import Waiting
from ray_committer.options import CommitOptions
from ray_committer.protocol import file_list
from ray_committer.protocol.paths import join, new_job_attempt, temporary_directory
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.table_paths import TablePlaces, is_in_log, number_of
from ray_committer.stores import guarded
from ray_committer.stores.base import StoreOperations
from ray_committer.table_jobs.make_table import make_table
from ray_committer.table_jobs.resolve_claim import resolve_on
from ray_committer.table_jobs.undo_version import plan_undo, undo_version
from ray_committer.tables.checkpoint import listed, read_files
from ray_committer.testing import SimulatedCrash, StoreCall, WrappedStore, run_commit, write_job
from ray_committer.testing.harness import put_file
from tests.commits.test_table_jobs import context as context_of
from tests.commits.test_table_jobs import copy, finish
from tests.machines.table_oracle import data_files, judge_log, replay
from tests.tables.support import DEFINITION
from tests.tiers import RANGE

OLD = {"day=1/a.parquet": b"1", "day=1/b.parquet": b"22", "day=2/c.parquet": b"333"}
NEW = {"day=1/c.parquet": b"new", "day=2/c.parquet": b"of the old name"}
MORE = {"day=1/d.parquet": b"new", "day=3/d.parquet": b"more"}
ONE = {"day=1/d.parquet": b"new", "day=1/e.parquet": b"more"}

UNDONE = 6
"""The version of the commit that an undo takes back."""

Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Work:
    """What a job does to a table with the files `OLD`; an undo has no `mode`.

    visible: the files afterwards.
    """

    mode: ConflictMode | None
    files: Files = field(default_factory=dict)
    visible: Files = field(default_factory=dict)
    reads: tuple[str, ...] = ()

    @property
    def before(self) -> Files:
        """The files before the job."""
        return {**OLD, **self.files} if self.mode is None else OLD

    @property
    def options(self) -> CommitOptions:
        mode = self.mode or ConflictMode.APPEND
        return CommitOptions(mode=mode, reads=self.reads, conflict_wait_seconds=0.0)


WORKS = {
    "append": Work(ConflictMode.APPEND, MORE, {**OLD, **MORE}),
    "overwrite": Work(ConflictMode.OVERWRITE, NEW, NEW),
    "undo": Work(None, ONE, OLD),
    "create": Work(
        ConflictMode.ERROR_PARTITIONS, {"day=3/d.parquet": b"4"}, {**OLD, "day=3/d.parquet": b"4"}
    ),
    "replace": Work(
        ConflictMode.OVERWRITE_PARTITIONS, ONE, {**ONE, "day=2/c.parquet": b"333"}, reads=("day=1",)
    ),
}
FATES = ("before", "after", "torn", "unanswered", "not sent")
"""A process dies before a request, after it, or when half of a file is written; or it goes on without
the answer to a request, or without the request."""


@dataclass
class Hit:
    """Notes the requests to the log, and does something to the one with a number."""

    number: int = 0
    fate: str = ""
    seen: list[StoreCall] = field(default_factory=list)
    hit: StoreCall | None = None
    numbers: Iterator[int] = field(default_factory=partial(itertools.count, 1))

    def on(self, store: StoreOperations) -> WrappedStore:
        return WrappedStore(store, before=self.before, after=self.after, write_data=self.torn)

    def before(self, call: StoreCall) -> None:
        if not any(map(is_in_log, call.paths)):
            return
        self.seen.append(call)
        if next(self.numbers) != self.number:
            return
        self.hit = call
        if self.fate == "before":
            raise SimulatedCrash(call)
        if self.fate == "not sent":
            raise StoreUnavailableError(call.paths[0], "the request was lost")

    def after(self, call: StoreCall) -> None:
        if call is not self.hit:
            return
        if self.fate in ("after", "torn"):
            raise SimulatedCrash(call)
        if self.fate == "unanswered":
            raise StoreUnavailableError(call.paths[0], "the answer was lost")

    def torn(self, call: StoreCall, data: bytes) -> bytes:
        return data[: len(data) // 2] if call is self.hit and self.fate == "torn" else data


WIDE_CASES = [pytest.param(work, fate, 1, marks=pytest.mark.wide) for work in WORKS for fate in FATES]
"""A work, a fate, and the distance between the requests to the log that are hit."""
CASES_ON_FILES = [*itertools.product(("append", "overwrite", "undo"), FATES, (3,)), *WIDE_CASES]
CASES_OF_A_SERVER = [("overwrite", "unanswered", 23), *WIDE_CASES]


def check_finished(store: StoreOperations, root: str, work: str, fate: str, stride: int) -> None:
    """The same command finishes a job, whichever request to the log was hit."""
    with small_table():
        for table in each_hit(store, root, WORKS[work], fate, stride):
            again(store, table, WORKS[work])
            check(store, table, WORKS[work].visible)


def check_resolved(store: StoreOperations, root: str, work: str, fate: str, stride: int) -> None:
    """If the directory of a job that was hit is deleted, a person ends its claim: the job is committed,
    or nothing of it is left."""
    ends = set[bool]()
    with small_table():
        for table in each_hit(store, root, WORKS[work], fate, stride):
            store.delete_directory(temporary_directory(table.destination))
            is_committed = resolve(store, table, WORKS[work])
            ends.add(is_committed)
            expected = WORKS[work].visible if is_committed else WORKS[work].before
            check(store, table, expected)
    assert ends == {True, False}


@contextmanager
def small_table() -> Iterator[None]:
    """Files are in lists, and a checkpoint is due after each two entries; nothing pauses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_list, "MOST_INLINE", 0)
        patch.setattr(checkpoint_module, "ENTRIES", 2)
        patch.setattr(waiting, "REQUEST", waiting.Pauses(0.0, 0.0))
        patch.setattr(guarded, "STATE_SECONDS", 0.0)
        yield


def each_hit(
    store: StoreOperations, root: str, work: Work, fate: str, stride: int
) -> Iterator[TablePlaces]:
    """Tables in each of which something has happened to one request to the log of the job's commit."""
    whole = Hit()
    run(whole.on(store), begin(store, f"{root}/whole", work), work)
    assert any("/checkpoint/" in call.paths[-1] for call in whole.seen)
    assert len(whole.seen) > 15
    met = [at for at, call in enumerate(whole.seen, 1) if fate != "torn" or call.operation == "write"]
    for number in met[RANGE % stride :: stride]:
        table, hit = begin(store, f"{root}/{number}", work), Hit(number, fate)
        with suppress(SimulatedCrash, RayCommitterError, OSError):
            run(hit.on(store), table, work)
        assert len(hit.seen) >= number
        yield table


def begin(store: StoreOperations, destination: str, work: Work) -> TablePlaces:
    """A table with old files, the checkpoint of a job before, and a job whose tasks are committed."""
    table = TablePlaces(destination)
    before = new_job_attempt(destination, "before", 0)
    for name, data in OLD.items():
        put_file(store, join(destination, name), data)
    make_table(store, table, DEFINITION, 1)
    write_job(store, before, {0: {}})
    run_commit(store, before)
    tasks = {task: {name: data} for task, (name, data) in enumerate(work.files.items())}
    write_job(store, new_job_attempt(destination, "job_1", 0), tasks, mode=work.options.mode)
    if work.mode is None:
        assert run_commit(store, new_job_attempt(destination, "job_1", 0)).table_version == UNDONE
    return table


def run(store: StoreOperations, table: TablePlaces, work: Work) -> None:
    if work.mode is None:
        undo(store, "undo-1", table)
    else:
        run_commit(store, new_job_attempt(table.destination, "job_1", 0), work.options)


def undo(store: StoreOperations, job_id: str, table: TablePlaces) -> None:
    context = context_of(store, new_job_attempt(table.destination, job_id, 0))
    undo_version(context, plan_undo(store, table, DEFINITION.table_id, UNDONE), copy=copy)


def again(store: StoreOperations, table: TablePlaces, work: Work) -> None:
    if work.mode is None:
        is_undone = replay(store, table).files.keys() == OLD.keys()
        finish(store, lambda store: is_undone or undo(store, "undo-2", table), table.destination)
    else:
        run(store, table, work)


def resolve(store: StoreOperations, table: TablePlaces, work: Work) -> bool:
    """End the claim in flight; whether the job is committed."""
    for claim in replay(store, table).in_flight.values():
        resolve_on(store, table.destination, claim.job_id, waiting=Waiting(0.0))
    jobs = [one.claim.job_id for one in replay(store, table).commits]
    return ("undo-1" if work.mode is None else "job_1") in jobs


def check(store: StoreOperations, table: TablePlaces, visible: Files) -> None:
    """Each file is there once; the log and its checkpoints have the same; no job is left."""
    wrong = judge_log(store, table)
    assert wrong is None, wrong
    assert data_files(store, table) == visible
    versions = [number_of(status.name) for status in listed(store, table.checkpoints)]
    for version in (None, *filter(None, versions)):
        _, files = read_files(store, table, DEFINITION.table_id, version)
        sizes = {file.path: file.size for partition in files.values() for file in partition.values()}
        assert sizes == replay(store, table, version).files
    assert store.get_status(temporary_directory(table.destination)) is None
