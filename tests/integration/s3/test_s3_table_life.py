"""A table with a log on moto by the public API: everything that can be done with one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import ray_committer
from ray_committer import CommitOptions, ConflictMode
from ray_committer.cli.main import main
from ray_committer.errors import CommitConflictError, TableVersionGoneError
from tests.integration.snapshots import check_snapshots

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("s3")]

Options = dict[str, Any]


def commit(dest: str, options: Options, number: int, mode: str = "append", days: int = 2) -> int:
    """Commit a job that writes a Parquet file to each of some partitions; its version."""
    named = {"options": CommitOptions(mode=ConflictMode(mode)), "storage_options": options}
    job = ray_committer.setup_job(dest, f"job_{number}", **named)
    with ray_committer.task_attempt(dest, job, 0, storage_options=options) as attempt:
        for day in range(1, days + 1):
            with attempt.open(f"day={day}/p {number}%.parquet") as file:
                pq.write_table(pa.table({"x": [number, number + day]}), file)
    version = ray_committer.commit_job(dest, job, **named).table_version
    assert version is not None
    return version


def rows(dest: str, options: Options) -> list[tuple[int, int]]:
    found = ray_committer.snapshot(dest, storage_options=options).dataset().to_table().to_pylist()
    return sorted((row["day"], row["x"]) for row in found)


@pytest.fixture
def dest(bucket: str) -> str:
    return f"s3://{bucket}/lake/table"


def test_each_version_is_read_whole_and_alone(dest: str, options: Options):
    now = check_snapshots(dest, options)
    assert now.urls("day=1") == [f"{dest}/day=1/part-9.csv"]


@pytest.mark.wide
def test_a_table_is_undone_dropped_and_looked_at(dest: str, bucket: str, s3: Any, options):
    s3.put_object(Bucket=bucket, Key="lake/table/day=1/before.parquet", Body=parquet(0))
    ray_committer.init_table(dest, storage_options=options)
    for number in (1, 2):
        commit(dest, options, number)
    all_rows = rows(dest, options)
    assert all_rows == [(1, 0), (1, 1), (1, 2), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3), (2, 4)]
    third = commit(dest, options, 9)
    assert len(rows(dest, options)) == len(all_rows) + 4
    ray_committer.undo_version(dest, third, storage_options=options)
    assert rows(dest, options) == all_rows
    replaced = commit(dest, options, 7, "overwrite_partitions", days=1)
    assert rows(dest, options) == [(1, 7), (1, 8), (2, 1), (2, 2), (2, 3), (2, 4)]
    with pytest.raises(TableVersionGoneError, match="so it cannot be undone"):
        ray_committer.undo_version(dest, replaced, storage_options=options)
    ray_committer.drop_partition(dest, ["day=2"], storage_options=options)
    assert rows(dest, options) == [(1, 7), (1, 8)]
    found = ray_committer.history(dest, storage_options=options)
    assert [one.mode for one in found] == [
        *("create", "append", "append", "append", "replace", "overwrite", "overwrite")
    ]
    path = f"{dest}/day=1/p%207%25.parquet"
    assert ray_committer.who_wrote(path, storage_options=options).job_id == "job_7"
    changes = list(ray_committer.changes(dest, replaced - 1, storage_options=options))
    assert [len(one.added) for one in changes] == [1, 0]
    scan = ray_committer.scan_table(dest, storage_options=options)
    assert (scan.foreign, scan.missing, scan.changed, scan.claims) == ((), (), (), ())
    assert not s3.list_multipart_uploads(Bucket=bucket).get("Uploads")


@pytest.mark.wide
def test_a_foreign_file_is_imported_and_a_table_is_made_once(dest: str, bucket: str, s3: Any, options):
    ray_committer.init_table(dest, storage_options=options)
    commit(dest, options, 1)
    s3.put_object(Bucket=bucket, Key="lake/table/day=1/foreign.parquet", Body=parquet(5))
    given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    result = CliRunner().invoke(main, ["table", "scan", dest, "--import", *given])
    assert "1 foreign file put into the log" in result.output
    assert rows(dest, options)[-1] == (2, 3)
    assert (1, 5) in rows(dest, options)
    with pytest.raises(CommitConflictError, match="is a table with a log already"):
        ray_committer.init_table(dest, storage_options=options)
    for command in (["log"], ["files"], ["changes", "--since", "0"]):
        shown = CliRunner().invoke(main, ["table", *command, dest, *given])
        assert (shown.exit_code, "Traceback" in shown.output) == (0, False), shown.output


def parquet(number: int) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": [number]}), sink)
    return bytes(sink.getvalue())


@pytest.mark.wide
def test_a_table_is_exported_from_the_same_files(dest: str, options: Options):
    ray_committer.init_table(dest, storage_options=options)
    for number in (1, 2):
        commit(dest, options, number)
        found = ray_committer.export_delta(dest, storage_options=options)
        assert (found.versions, found.added) == (1, 2)
    assert ray_committer.export_delta(dest, storage_options=options).versions == 0
