"""Snapshots: exactly the files of a version, and their places after later commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from ray_committer.errors import TableVersionGoneError
from ray_committer.protocol.file_list import ListedFile, inline_set
from ray_committer.protocol.table_entry import TableCommit, WriteMode
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.local import LocalStore
from ray_committer.tables.append import append
from ray_committer.tables.save_checkpoint import save_checkpoint
from ray_committer.tables.snapshot import TableSnapshot
from tests.stages.support import requests
from tests.tables.support import TABLE, abort_of, append_commit, claim_of, commit_of, done_of, table_on

A, B, C = (ListedFile(f"day={day}/{name}", 1) for day, name in ((1, "a"), (1, "b"), (2, "c")))


@pytest.fixture
def table(store: StoreOperations, tmp_path: Path) -> TablePlaces:
    found = TablePlaces(str(tmp_path / "table")) if isinstance(store, LocalStore) else TABLE
    table_on(store, found)
    return found


def replace_files(
    store: StoreOperations,
    table: TablePlaces,
    job_id: str,
    added: Sequence[ListedFile],
    removed: Sequence[ListedFile],
    *,
    kept: bool,
    is_done: bool = True,
) -> int:
    """Append the entries of an overwrite; the version of its claim."""
    claim = claim_of(job_id, added, mode=WriteMode.OVERWRITE, partitions=[""])
    version = append(store, table, claim, 0)
    entry = TableCommit(
        job_id=job_id,
        job_attempt=0,
        claim=version,
        at_milliseconds=2,
        removed=inline_set(removed),
        kept=kept,
    )
    append(store, table, entry, version)
    if is_done:
        append(store, table, done_of(version), version)
    return version


def snapshot(
    store: StoreOperations, version: int | None = None, table: TablePlaces = TABLE
) -> TableSnapshot:
    return TableSnapshot(store, table, "id", version)


def places(found: TableSnapshot, directory: str = "") -> list[str]:
    return found.places(found.files(directory), directory)


def test_a_version_has_the_files_of_the_commits_up_to_it(store, table: TablePlaces):
    claim = append(store, table, claim_of("a", [A]), 0)
    append(store, table, claim_of("aborted", [ListedFile("day=1/x", 1)]), 0)
    append(store, table, commit_of(claim), 0)
    append(store, table, abort_of(2), 0)
    append(store, table, claim_of("in flight", [ListedFile("day=1/y", 1)]), 0)
    overwrite = append(store, table, claim_of("b", [B], mode=WriteMode.OVERWRITE), 0)
    append(store, table, commit_of(overwrite, [A]), 0)
    append(store, table, done_of(overwrite), 0)
    wanted = [[], [], [], [A], [A], [A], [A], [B], [B]]
    for is_saved in (False, True):
        assert [snapshot(store, one, table).files() for one in range(9)] == wanted
        head = snapshot(store, None, table)
        assert (head.files(), head.state.version) == ([B], 8)
        assert [one.version for one in head.state.in_flight] == [5]
        for version in (4, 7) if not is_saved else ():
            save_checkpoint(store, table, "id", version)


def test_a_commit_that_is_not_done_counts(store, table: TablePlaces):
    append_commit(store, "a", [A], table=table)
    replace_files(store, table, "b", [B], [A], kept=False, is_done=False)
    assert snapshot(store, None, table).files() == [B]
    assert places(snapshot(store, None, table)) == [f"{table.destination}/{B.path}"]


@pytest.mark.parametrize("kept", [False, True])
def test_a_name_is_settled_after_the_job_has_replaced_the_old_file(
    store, table: TablePlaces, kept: bool
):
    append_commit(store, "a", [A, C], table=table)
    claim = replace_files(store, table, "b", [ListedFile(A.path, 2), B], [A], kept=kept, is_done=False)
    now = snapshot(store, None, table)
    assert [now.is_settled(directory) for directory in ("", "day=1", "day=2")] == [False, False, True]
    assert snapshot(store, 2, table).is_settled()
    append(store, table, done_of(claim), claim)
    assert not now.is_settled()
    assert now.again().is_settled()


def test_a_job_that_only_removes_other_names_leaves_all_settled(store, table: TablePlaces):
    append_commit(store, "a", [A], table=table)
    replace_files(store, table, "b", [B], [A], kept=False, is_done=False)
    assert snapshot(store, None, table).is_settled()


def test_a_file_that_was_deleted_later_is_an_error_that_names_the_version(store, table: TablePlaces):
    append_commit(store, "a", [A, C], table=table)
    replace_files(store, table, "b", [B], [A], kept=False)
    old = snapshot(store, 2, table)
    assert old.files() == [A, C]
    with pytest.raises(TableVersionGoneError) as caught:
        places(old)
    assert caught.value.what == (
        f"{table.destination}/day=1/a: is a file of version 2 of the table, which job b has deleted "
        f"(version 4)"
    )
    assert "read version 4 or a later one" in caught.value.advice
    assert places(old, "day=2") == [f"{table.destination}/day=2/c"]


def test_a_file_that_was_kept_is_read_where_it_is_kept(store, table: TablePlaces):
    append_commit(store, "a", [A, C], table=table)
    claim = replace_files(store, table, "b", [B], [A], kept=True)
    replace_files(store, table, "c", [], [B], kept=False)
    assert places(snapshot(store, 2, table)) == [
        table.kept(claim, A.path),
        f"{table.destination}/{C.path}",
    ]


def test_the_first_removal_of_a_name_is_the_one_that_counts(store, table: TablePlaces):
    append_commit(store, "a", [A], table=table)
    first = replace_files(store, table, "b", [ListedFile(A.path, 2)], [A], kept=True)
    second = replace_files(
        store, table, "c", [ListedFile(A.path, 3)], [ListedFile(A.path, 2)], kept=True
    )
    assert places(snapshot(store, 2, table)) == [table.kept(first, A.path)]
    assert places(snapshot(store, first + 1, table)) == [table.kept(second, A.path)]
    assert snapshot(store, first + 1, table).files() == [ListedFile(A.path, 2)]
    assert places(snapshot(store, None, table)) == [f"{table.destination}/{A.path}"]


def test_while_old_files_are_moved_each_is_looked_for(kind):
    store = table_on(kind())
    append_commit(store, "a", [A, C, B])
    claim = replace_files(
        store, TABLE, "b", [ListedFile(B.path, 2)], [A, B, C], kept=True, is_done=False
    )
    moved = TABLE.kept(claim, A.path)
    store.mkdirs(moved.rpartition("/")[0])
    store.write(moved, b"1")
    old = snapshot(store, 3 - 1)
    assert places(old, "day=2") == [f"/table/{C.path}"]
    with pytest.raises(TableVersionGoneError, match=r"/table/day=1/b: .* job b is moving now"):
        places(old)  # the job writes another file of that name
    kept = TABLE.kept(claim, B.path)
    store.write(kept, b"2")
    assert places(old) == [moved, kept, f"/table/{C.path}"]


def test_a_snapshot_knows_of_later_commits_when_it_is_taken_again(kind):
    store = table_on(kind())
    append_commit(store, "a", [A])
    found = snapshot(store)
    claim = replace_files(store, TABLE, "b", [], [A], kept=True)
    assert places(found) == ["/table/day=1/a"]
    assert found.again().state.version == 2
    assert places(found.again()) == [TABLE.kept(claim, A.path)]


def test_one_partition_of_the_last_version_takes_four_requests(kind):
    store = table_on(kind())
    append_commit(store, "a", [A, C])
    save_checkpoint(store, TABLE, "id")
    found = requests(store, lambda one: places(snapshot(one), "day=1"))
    assert found == Counter(list_status=2, read=2)
