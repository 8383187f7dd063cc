"""The locks of a file system's namespace, as claims: what conflicts there, conflicts here, and no more.

The operations and locks are those of tables 3.1, 3.2 and 5.2 of a thesis on HopsFS, which
``tests/data/namespace_locks.json`` holds. A row of 3.1 or 3.2 becomes a claim in two ways:

- *Locks.* Each path with a W lock is a partition of a claim with mode `replace`: the operation has read
  it, and changes it. A path below another one meets it as a partition below another one does.
- *Jobs.* What a job of a table does that corresponds. ``create DIR/FILE`` is an append to the partition
  DIR. ``snapshot A to B`` reads the partition A and writes B, where no data is.

What has no meaning for a table:

- R locks on the directories above a path, up to ``/``. They keep these from being removed or renamed.
  No job removes a directory in which another one is at work, and a commit makes missing directories. A
  claim that named ``/`` would be one of the whole table.
- ``mkdir /d1/d4/d7/d9`` as a job: a table has no empty directories. The row counts as the append of a
  first file to that directory.
- The order in which locks are taken. A claim names all its partitions in one entry.
- RC of table 5.2, a read without a lock, is a job that does not name what it reads. No claim shows it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ray_committer.protocol.claims import Obstacle, Verdict, is_in
from ray_committer.protocol.table_entry import Isolation, TableClaim, WriteMode
from ray_committer.tables.claim import Claimant
from ray_committer.testing import MemoryStore
from tests.protocol.test_claims import after_commit, claim, in_flight, verdict_of
from tests.tables.support import DEFINITION, TABLE, table_on

DATA = json.loads((Path(__file__).parents[1] / "data" / "namespace_locks.json").read_bytes())
TABLES = ("table_3_1", "table_3_2")
SERIALIZABLE = Isolation.SERIALIZABLE


@dataclass(frozen=True)
class Operation:
    """A row: its words, and the lock that it takes on each path."""

    op: str
    locks: Mapping[str, str]

    @property
    def written(self) -> list[str]:
        return [in_table(path) for path, lock in self.locks.items() if lock == "W"]


def in_table(path: str) -> str:
    return path.lstrip("/")


def as_locks(operation: Operation) -> TableClaim:
    return claim(WriteMode.REPLACE, operation.written)


def as_job(operation: Operation) -> TableClaim:
    match operation.op.split():
        case ["create", path]:
            return claim(WriteMode.APPEND, [in_table(path).rpartition("/")[0]])
        case ["mkdir", path]:
            return claim(WriteMode.APPEND, [in_table(path)])
        case ["snapshot", source, "to", copy]:
            return claim(WriteMode.CREATE, [in_table(copy)], [in_table(source)])
    raise AssertionError(operation.op)


def operations(table: str) -> list[Operation]:
    return [Operation(**row) for row in DATA[table]["operations"]]


def crossed(one: Operation, other: Operation) -> set[str]:
    """The paths that both lock, at least one of them with W."""
    both = one.locks.keys() & other.locks.keys()
    return {path for path in both if "W" in (one.locks[path], other.locks[path])}


PAIRS = [
    pytest.param(table, *pair, id=f"{pair[0].op} | {pair[1].op}")
    for table in TABLES
    for pair in itertools.permutations(operations(table), 2)
]
pairs = pytest.mark.parametrize(("table", "one", "other"), PAIRS)
ways = pytest.mark.parametrize("as_claim", [as_locks, as_job])
AsClaim = Callable[[Operation], TableClaim]


def assert_within(found: Obstacle | None, conflicts: Iterable[str]) -> None:
    """Two claims are in each other's way exactly at, or below, the paths of a conflict."""
    contested = found.partitions if found is not None else ()
    paths = set(map(in_table, conflicts))
    assert bool(contested) is bool(paths)
    assert all(is_in(path, paths) for path in contested)


@ways
@pairs
def test_operations_at_once_wait_exactly_where_their_locks_conflict(
    table: str, one: Operation, other: Operation, as_claim: AsClaim
):
    conflicts = DATA[table]["conflicts"]
    assert sorted(crossed(one, other)) == conflicts
    found = in_flight(as_claim(one), as_claim(other))
    assert verdict_of(found) is (Verdict.WAITS if conflicts else None)
    assert_within(found, conflicts)


@pairs
def test_an_operation_is_refused_if_another_one_has_changed_what_it_has_locked(
    table: str, one: Operation, other: Operation
):
    found = after_commit(as_locks(one), as_locks(other))
    assert_within(found, DATA[table]["conflicts"])


@pairs
def test_a_job_is_refused_only_if_it_has_read_what_another_one_has_written(
    table: str, one: Operation, other: Operation
):
    found = after_commit(as_job(one), as_job(other))
    is_reader = one.op.startswith("snapshot")
    assert verdict_of(found) is (Verdict.REFUSED if is_reader else None)
    assert_within(found, DATA[table]["conflicts"] if is_reader else ())


@ways
def test_the_log_takes_all_claims_of_a_table_without_a_conflict(as_claim: AsClaim):
    store = table_on(MemoryStore())
    for version, operation in enumerate(operations("table_3_1"), 1):
        assert put(store, operation, as_claim).version == version


@pytest.mark.parametrize("is_turned", [False, True])
@ways
def test_the_log_takes_one_claim_of_two_with_a_conflict(as_claim: AsClaim, is_turned: bool):
    store = table_on(MemoryStore())
    first, second = operations("table_3_2")[:: -1 if is_turned else 1]
    assert put(store, first, as_claim).version == 1
    found = put(store, second, as_claim)
    assert isinstance(found, Obstacle)
    assert found.other.version == 1
    assert_within(found, DATA["table_3_2"]["conflicts"])


def put(store: MemoryStore, operation: Operation, as_claim: AsClaim) -> Any:
    """Put the claim of an operation that has seen the empty table."""
    named = {"job_id": operation.op, "nonce": operation.op}
    found = as_claim(operation)
    return Claimant(store, TABLE, DEFINITION, structs.replace(found, **named)).put()


ROW = {
    "S": claim(WriteMode.APPEND, ["elsewhere/s"], ["row"]),
    "X": claim(WriteMode.OVERWRITE, ["row"]),
    "RC": claim(WriteMode.APPEND, ["elsewhere/rc"]),
}
"""A job that holds a lock of table 5.2 on a partition."""


@pytest.mark.parametrize("isolation", list(Isolation))
@pytest.mark.parametrize("pair", DATA["table_5_2"])
def test_jobs_at_once_are_compatible_as_their_locks(pair: str, isolation: Isolation):
    one, other = pair.split(",")
    locks_reads = isolation is SERIALIZABLE or "S" not in (one, other)
    for found in (
        in_flight(ROW[one], ROW[other], isolation),
        in_flight(ROW[other], ROW[one], isolation),
    ):
        assert (found is None) is (DATA["table_5_2"][pair] or not locks_reads)
