"""Changes, history and the writer of a file, of real commits."""

from __future__ import annotations

from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import JobNotFoundError
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.table_jobs.table import init_table
from ray_committer.tables.append import append
from tests.table_jobs.test_snapshot import commit, keep, paths
from tests.tables.support import abort_of, claim_of


@pytest.fixture
def table(dest: Path) -> str:
    dest.mkdir()
    (dest / "old").write_text("old")
    init_table(str(dest))
    return str(dest)


def test_changes_are_the_files_of_each_job(table: str):
    commit(table, "a", ["day=1/a", "day=2/a"])
    commit(table, "b", ["day=1/b"], "overwrite_partitions")
    found = list(ray_committer.changes(table, 2))
    assert [(one.version, one.job_id, one.mode) for one in found] == [
        (4, "job_a", "append"),
        (6, "job_b", "overwrite"),
    ]
    assert [(paths(one.added), paths(one.removed)) for one in found] == [
        (["day=1/a", "day=2/a"], []),
        (["day=1/b"], ["day=1/a"]),
    ]
    assert [one.version for one in ray_committer.changes(table)] == [2, 4, 6]
    assert list(ray_committer.changes(table, since=6)) == []
    assert {one.table_id for one in found} == {ray_committer.snapshot(table).table_id}


def test_the_history_has_one_row_per_committed_job(table: str):
    commit(table, "a", ["day=1/a", "day=2/a"])
    store, places = LocalStore(StoreSpec("file")), TablePlaces(table)
    append(store, places, abort_of(append(store, places, claim_of("aborted"), 0)), 0)
    commit(table, "b", ["day=1/b"], "overwrite")
    append(store, places, claim_of("in flight", partitions=["day=3"]), 0)
    first, second, third = ray_committer.history(table)
    assert first.job_id.startswith("import-")
    assert (second.version, second.claim, second.job_id, second.mode) == (4, 3, "job_a", "append")
    assert (second.partitions, second.files, second.bytes) == (("day=1", "day=2"), 2, 14)
    assert (third.version, third.removed_files, third.removed_bytes) == (8, 3, 17)
    assert third.at_milliseconds > second.at_milliseconds > 1_600_000_000_000


def test_the_writer_of_a_file_is_found_also_after_the_file_is_gone(table: str):
    commit(table, "a", ["day=1/a", "day=2/a"])
    removed = commit(table, "b", ["day=1/b"], "overwrite_partitions")
    gone = ray_committer.who_wrote(f"{table}/day=1/a")
    assert (gone.job_id, gone.job_attempt, gone.version) == ("job_a", 0, 4)
    assert (gone.table, gone.path, gone.removed) == (table, "day=1/a", removed)
    there = ray_committer.who_wrote(f"{table}/day=2/a")
    assert (there.job_id, there.removed) == ("job_a", None)
    assert ray_committer.who_wrote(f"{table}/old").job_id.startswith("import-")


def test_of_several_jobs_with_a_file_of_one_name_it_is_the_last_one(table: str):
    commit(table, "a", ["day=1/a"])
    commit(table, "b", ["day=1/a"], "overwrite")
    found = ray_committer.who_wrote(f"{table}/day=1/a")
    assert (found.job_id, found.version, found.removed) == ("job_b", 6, None)


def test_the_writer_of_a_kept_file_is_not_that_of_a_later_namesake(table: str):
    commit(table, "a", ["day=1/a"])
    claim = keep(Path(table), ray_committer.snapshot(table).files("day=1"))
    commit(table, "c", ["day=1/a"])
    kept = TablePlaces(table).kept(claim, "day=1/a")
    found = ray_committer.who_wrote(kept)
    assert (found.job_id, found.path, found.removed) == ("job_a", "day=1/a", claim + 1)
    assert ray_committer.who_wrote(f"{table}/day=1/a").job_id == "job_c"
    with pytest.raises(JobNotFoundError, match="no entry of the log"):
        ray_committer.who_wrote(TablePlaces(table).kept(claim + 1, "day=1/a"))


def test_a_file_that_no_job_has_added_is_an_error(table: str, tmp_path: Path):
    store, places = LocalStore(StoreSpec("file")), TablePlaces(table)
    with pytest.raises(JobNotFoundError, match=r"day=1/x: no entry of the log of the table at .* names"):
        ray_committer.who_wrote(f"{table}/day=1/x")
    with pytest.raises(JobNotFoundError, match="not in a table with a log"):
        ray_committer.who_wrote(str(tmp_path / "other" / "x"))
    added = [ray_committer.ListedFile("day=1/x", 1)]
    version = append(store, places, claim_of("aborted", added), 0)
    append(store, places, abort_of(version), 0)
    with pytest.raises(JobNotFoundError, match=rf"only by job aborted \(version {version}\)"):
        ray_committer.who_wrote(f"{table}/day=1/x")
