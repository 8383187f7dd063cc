"""Snapshots for people: of real commits, on local files and on a store of fsspec."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import ray_committer
from ray_committer.errors import JobNotFoundError, TableVersionGoneError
from ray_committer.protocol.file_list import inline_set
from ray_committer.protocol.table_entry import TableCommit
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.table_jobs.snapshot import definition_of
from ray_committer.table_jobs.table import init_table
from ray_committer.tables.append import append
from ray_committer.tables.snapshot import TableSnapshot
from ray_committer.testing import MemoryStore
from tests.commits.tables import OVERWRITE
from tests.table_jobs.tables_in_use import stopped_after_commit
from tests.tables.support import TABLE, claim_of, done_of


def commit(
    dest: str, name: str, files: Sequence[str], mode: str = "append", content: str | None = None
) -> int:
    """Commit a job whose files hold their own paths, or `content`."""
    options = ray_committer.CommitOptions(mode=ray_committer.ConflictMode(mode))
    job = ray_committer.setup_job(dest, f"job_{name}", options=options)
    with ray_committer.task_attempt(dest, job, task=0) as attempt:
        for path in files:
            with attempt.open(path) as file:
                file.write((content or path).encode())
    version = ray_committer.commit_job(dest, job, options=options).table_version
    assert version is not None
    return version


@pytest.fixture(params=["local", "fsspec"])
def table(request: pytest.FixtureRequest, dest: Path) -> Iterator[str]:
    """A table with a log."""
    if request.param == "local":
        found = str(dest)
        dest.mkdir()
    else:
        request.getfixturevalue("fsspec_stores")
        found = "memory://here/table"
        fsspec.filesystem("memory").makedirs("/here/table")
    init_table(found)
    yield found
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def paths(files: Sequence[ray_committer.ListedFile]) -> list[str]:
    return [file.path for file in files]


def content(url: str) -> str:
    with fsspec.open(url, "r") as file:
        return str(file.read())


def test_a_snapshot_has_the_files_of_its_version(table: str):
    first = commit(table, "a", ["day=1/a", "day=2/a", "b"])
    commit(table, "b", ["day=1/b"])
    old, now = ray_committer.snapshot(table, first), ray_committer.snapshot(table)
    assert paths(old.files()) == ["b", "day=1/a", "day=2/a"]
    assert paths(now.files("day=1")) == paths(now.files("/day=1/")) == ["day=1/a", "day=1/b"]
    assert (old.partitions(), now.partitions()) == (["", "day=1", "day=2"],) * 2
    assert (old.version, now.version) == (4, 6)
    assert now.files("day=1")[0].size == len("day=1/a")
    assert [content(url) for url in now.urls()] == paths(now.files())
    assert now.urls("day=2") == [f"{table}/day=2/a"]


def test_a_dataset_has_the_rows_of_its_files_and_none_of_hidden_ones(table: str):
    commit(table, "a", ["day=1/a.csv", "day=2/a.csv"], content="number\n7\n")
    old = ray_committer.snapshot(table)
    commit(table, "b", ["day=1/b.csv", "day=1/_b.csv", "day=1/.b"], content="number\n8\n")
    now = ray_committer.snapshot(table)
    assert now.dataset().to_table().to_pydict() == {"number": [7, 8, 7], "day": [1, 1, 2]}
    assert now.dataset("day=1").to_table().to_pydict() == {"number": [7, 8], "day": [1, 1]}
    assert old.dataset().to_table().num_rows == 2
    schema = pa.schema([("number", pa.string()), ("day", pa.string())])
    assert now.dataset("day=2", schema=schema).to_table().to_pylist() == [{"number": "7", "day": "2"}]
    read = now.to_polars("day=1").filter(number=8).collect().to_dict(as_series=False)
    assert read == {"number": [8], "day": [1]}


def test_a_version_whose_files_were_deleted_is_an_error(table: str):
    first = commit(table, "a", ["day=1/a"])
    old = ray_committer.snapshot(table)
    assert old.is_in_place()
    last = commit(table, "b", ["day=1/b"], "overwrite")
    assert not old.is_in_place()
    assert paths(old.refresh().files()) == ["day=1/a"]
    for again in (old.refresh(), ray_committer.snapshot(table, first)):
        with pytest.raises(TableVersionGoneError) as caught:
            again.urls()
        assert caught.value.what.startswith(f"{table}/day=1/a: ")
        assert f"job job_b has deleted (version {last})" in caught.value.what
    assert ray_committer.snapshot(table).is_in_place()


@pytest.mark.parametrize("kept", [False, True])
def test_an_old_file_whose_name_a_committed_job_has_still_to_take_is_not_read_as_its_own(kept: bool):
    options = replace(OVERWRITE, keep_replaced=kept)
    store = stopped_after_commit(MemoryStore(), options, {"day=1/old": b"new"})
    found = TableSnapshot(store, TABLE, "id")
    snapshot = ray_committer.Snapshot(store, definition_of(store, TABLE), found)
    assert [store.read(path) for path in found.places(found.files())] == [b"1"]
    assert not snapshot.is_in_place()


def test_a_file_that_was_kept_is_where_the_job_keeps_it(dest: Path):
    init_table(str(dest))
    commit(str(dest), "a", ["day=1/a"])
    found = ray_committer.snapshot(str(dest))
    keep(dest, found.files())
    assert not found.is_in_place()
    (place,) = found.refresh().urls()
    assert place == f"{dest}/_ray_committer/removed/5/day=1/a.kept"
    assert Path(place).read_text() == "day=1/a"
    assert ray_committer.snapshot(str(dest)).files() == []


def keep(dest: Path, removed: Sequence[ray_committer.ListedFile]) -> int:
    """Remove files as a job does that keeps them; the version of its claim."""
    store, table = LocalStore(StoreSpec("file")), TablePlaces(str(dest))
    version = append(store, table, claim_of("keeps", partitions=[""]), 0)
    entry = TableCommit(
        job_id="keeps",
        job_attempt=0,
        claim=version,
        at_milliseconds=2,
        removed=inline_set(removed),
        kept=True,
    )
    append(store, table, entry, version)
    for file in removed:
        kept = Path(table.kept(version, file.path))
        kept.parent.mkdir(parents=True, exist_ok=True)
        (dest / file.path).rename(kept)
    append(store, table, done_of(version), version)
    return version


def test_a_destination_without_a_log_is_named(dest: Path):
    with pytest.raises(JobNotFoundError, match="is not a table with a log"):
        ray_committer.snapshot(str(dest))


def test_a_version_that_is_not_there_is_named(table: str):
    with pytest.raises(TableVersionGoneError, match="has no version 9, the last one is 2"):
        ray_committer.snapshot(table, 9)
