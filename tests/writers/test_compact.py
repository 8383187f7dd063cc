"""Compaction of Parquet files: the same rows and schemas, in fewer files."""

from __future__ import annotations

import datetime
import decimal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ray_committer
from ray_committer import CancelToken, CommitOptions
from ray_committer.errors import (
    CommitAbortedError,
    CommitCancelledError,
    JobNotFoundError,
    PathError,
    SettingsError,
)
from ray_committer.jobs import open_job
from ray_committer.jobs.partitions import open_partitions
from ray_committer.jobs.table import init_table, table_log
from ray_committer.testing import StoreCall, WrappedStore
from ray_committer.writers import rewrite_parquet
from tests.cli.commands import run

SPARK = {"org.apache.spark.version": "3.5.1", "org.apache.spark.sql.parquet.row.metadata": "{}"}
AS_SPARK: Mapping[str, Any] = {
    "store_schema": False,
    "use_deprecated_int96_timestamps": True,
    "store_decimal_as_integer": True,
}


@pytest.fixture
def table(dest: Path) -> Path:
    dest.mkdir(exist_ok=True)
    init_table(str(dest))
    return dest


def add(dest: Path, name: str, data: pa.Table, metadata: Mapping[str, str] = SPARK, **how: Any) -> None:
    """Commit one file, as Spark writes it."""
    job = ray_committer.setup_job(str(dest))
    with (
        ray_committer.task_attempt(str(dest), job, task=0) as attempt,
        attempt.open(name) as file,
        pq.ParquetWriter(file, data.schema, **{**AS_SPARK, **how}) as writer,
    ):
        if metadata:
            writer.add_key_value_metadata(dict(metadata))
        writer.write_table(data, row_group_size=50)
    ray_committer.commit_job(str(dest), job)


def numbers(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def files(dest: Path) -> list[Path]:
    found = ray_committer.snapshot(str(dest)).files()
    assert sorted(file.p for file in found) == sorted(
        str(path.relative_to(dest)) for path in dest.rglob("*.parquet") if "_temporary" not in path.parts
    )
    return [dest / file.p for file in found]


def rows(dest: Path) -> list[int]:
    return ray_committer.snapshot(str(dest)).dataset().to_table().column("x").to_pylist()


def test_rows_stay_in_the_order_of_the_files(table: Path):
    for number in range(4):
        add(table, f"day=1/{number}.parquet", numbers(number, number + 10))
    add(table, "day=2/4.parquet", numbers(4))
    report = ray_committer.compact(str(table))
    assert report is not None
    assert (report.files, report.replaced, report.notices) == (1, 4, [])
    assert rows(table) == [0, 10, 1, 11, 2, 12, 3, 13, 4]
    assert len(files(table)) == 2
    assert ray_committer.compact(str(table)) is None
    assert [one.kind for one in table_log(str(table), since=12)] == ["claim", "commit", "done"]


EVERY_TYPE = pa.table(
    {
        "int96": pa.array(
            [datetime.datetime(1, 1, 1, 3, 4, 5, 6), datetime.datetime(9999, 12, 31), None],
            pa.timestamp("us"),
        ),
        "small": pa.array(
            [decimal.Decimal("1.23"), None, decimal.Decimal("-9.99")], pa.decimal128(9, 2)
        ),
        "long": pa.array([1, 2, None], pa.decimal128(18, 0)),
        "large": pa.array([1, 2, None], pa.decimal128(38, 5)),
        "list": pa.array([[1], None, []], pa.list_(pa.int32())),
        "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int32())),
        "struct": pa.array([{"y": "z"}, None, {"y": None}], pa.struct([("y", pa.string())])),
        "text": pa.array(["a", None, ""], pa.string()),
        "bytes": pa.array([b"a", None, b""], pa.binary()),
        "date": pa.array([datetime.date(1, 1, 1), None, datetime.date(2000, 1, 1)]),
        "float": pa.array([1.5, float("nan"), None], pa.float32()),
        "byte": pa.array([1, None, -1], pa.int8()),
    },
    pa.schema(
        [
            pa.field("int96", pa.timestamp("us")),
            pa.field("small", pa.decimal128(9, 2)),
            pa.field("long", pa.decimal128(18, 0)),
            pa.field("large", pa.decimal128(38, 5)),
            pa.field("list", pa.list_(pa.int32())),
            pa.field("map", pa.map_(pa.string(), pa.int32())),
            pa.field("struct", pa.struct([("y", pa.string())])),
            pa.field("text", pa.string()),
            pa.field("bytes", pa.binary()),
            pa.field("date", pa.date32()),
            pa.field("float", pa.float32()),
            pa.field("byte", pa.int8()),
        ]
    ),
)


def test_schemas_metadata_compression_and_values_stay(table: Path):
    codecs = {name: "zstd" if name == "text" else "gzip" for name in EVERY_TYPE.column_names}
    for number in range(2):
        add(table, f"{number}.parquet", EVERY_TYPE, compression=codecs)
    (before, _) = map(pq.ParquetFile, files(table))
    old = pq.read_table(files(table)[0], coerce_int96_timestamp_unit="us")
    assert ray_committer.compact(str(table)) is not None
    (path,) = files(table)
    after = pq.ParquetFile(path)
    assert str(after.schema).split("\n", 2)[2] == str(before.schema).split("\n", 2)[2]
    assert "int96" in str(after.schema)
    assert "required" in str(after.schema)
    assert after.metadata.metadata == before.metadata.metadata
    assert codecs_of(after) == codecs_of(before)
    new = pq.read_table(path, coerce_int96_timestamp_unit="us")
    assert str(new.to_pylist()) == str(old.to_pylist() * 2)


def codecs_of(file: pq.ParquetFile) -> list[str]:
    group = file.metadata.row_group(0)
    return [group.column(number).compression for number in range(group.num_columns)]


def test_columns_that_cannot_be_null_stay_so(table: Path):
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    for number in range(2):
        add(table, f"{number}.parquet", pa.table({"x": [number]}, schema))
    ray_committer.compact(str(table))
    (path,) = files(table)
    assert not pq.read_schema(path).field("x").nullable


def test_files_of_arrow_keep_their_types(table: Path):
    data = pa.table(
        {"x": pa.array(["a", "b"]).dictionary_encode(), "y": pa.array(["c", "d"], pa.large_string())}
    )
    for number in range(2):
        add(table, f"{number}.parquet", data, {}, store_schema=True)
    ray_committer.compact(str(table))
    (path,) = files(table)
    assert pq.read_schema(path) == data.schema
    assert pq.read_table(path).to_pylist() == data.to_pylist() * 2


def test_files_with_different_schemas_or_metadata_are_not_mixed(table: Path):
    other = pa.table({"x": pa.array([7], pa.int64()), "y": ["z"]})
    add(table, "0.parquet", numbers(0))
    add(table, "1.parquet", other)
    add(table, "2.parquet", numbers(2))
    add(table, "3.parquet", other)
    add(table, "4.parquet", numbers(4), {"org.apache.spark.version": "4.0.0"})
    report = ray_committer.compact(str(table))
    assert report is not None
    assert (report.files, report.replaced) == (2, 4)
    found = [pq.read_table(path) for path in files(table)]
    assert sorted((one.column_names, one.column("x").to_pylist()) for one in found) == [
        (["x"], [0, 2]),
        (["x"], [4]),
        (["x", "y"], [7, 7]),
    ]


def test_files_that_would_change_are_left(table: Path):
    for number in range(2):
        add(table, f"{number}.parquet", EVERY_TYPE, {})
    assert ray_committer.compact(str(table)) is None
    assert len(files(table)) == 2
    assert not (table / "_temporary").exists()
    assert [entry.kind for entry in table_log(str(table), since=6)] == ["abort"]


def test_files_whose_schema_pyarrow_would_write_in_another_way_are_left(table: Path):
    data = pa.table({"x": pa.array([[1]], pa.list_(pa.int32()))})
    for number in range(2):
        add(table, f"{number}.parquet", data, use_compliant_nested_type=False)
    before = [path.read_bytes() for path in files(table)]
    assert ray_committer.compact(str(table)) is None
    assert [path.read_bytes() for path in files(table)] == before


def test_rows_are_streamed_into_row_groups(table: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rewrite_parquet, "ROW_GROUP_BYTES", 8 * 1000)
    monkeypatch.setattr(rewrite_parquet, "BATCH_ROWS", 100)
    for number in range(3):
        add(table, f"{number}.parquet", numbers(*range(number * 1000, number * 1000 + 1000)))
    ray_committer.compact(str(table))
    (path,) = files(table)
    found = pq.ParquetFile(path).metadata
    assert [found.row_group(number).num_rows for number in range(found.num_row_groups)] == [1000] * 3
    assert rows(table) == list(range(3000))


def test_empty_files_go_too(table: Path):
    for number in range(2):
        add(table, f"{number}.parquet", numbers())
    ray_committer.compact(str(table))
    (path,) = files(table)
    assert pq.read_table(path).num_rows == 0
    assert pq.read_schema(path).names == ["x"]


@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_bins_are_rewritten_on_any_executor(table: Path, executor: str):
    for day in range(3):
        for number in range(2):
            add(table, f"day={day}/{number}.parquet", numbers(day))
    report = ray_committer.compact(str(table), executor=executor)
    assert report is not None
    assert (report.files, report.replaced) == (3, 6)
    assert rows(table) == [0, 0, 1, 1, 2, 2]


def test_a_damaged_file_is_named(table: Path):
    add(table, "0.parquet", numbers(0))
    job = ray_committer.setup_job(str(table))
    with ray_committer.task_attempt(str(table), job, task=0) as attempt:
        Path(attempt.path("1.parquet")).write_text("no Parquet")
    ray_committer.commit_job(str(table), job)
    with pytest.raises(CommitAbortedError, match=r"/1\.parquet: cannot be read as Parquet"):
        ray_committer.compact(str(table))
    assert [entry.kind for entry in table_log(str(table), since=6)] == ["abort"]
    assert not (table / "_temporary").exists()


def test_only_small_files_of_named_partitions_are_rewritten(table: Path):
    for day in range(2):
        for number in range(2):
            add(table, f"day={day}/{number}.parquet", numbers(day))
    assert ray_committer.compact(str(table), target_bytes=10) is None
    assert ray_committer.compact(str(table), ["day=1"]).replaced == 2
    assert len(files(table)) == 3
    with pytest.raises(PathError, match="has no files in day=7"):
        ray_committer.compact(str(table), ["day=7"])
    with pytest.raises(SettingsError, match="target_bytes=0"):
        ray_committer.compact(str(table), target_bytes=0)


@pytest.mark.parametrize("partition", ["", "/", "..", "day=1/../..", "_temporary", "_ray_committer/log"])
def test_what_is_no_partition_is_named(table: Path, partition: str):
    with pytest.raises(PathError, match="is not a partition"):
        ray_committer.compact(str(table), [partition])
    with pytest.raises(PathError, match="is not a partition"):
        ray_committer.drop_partition(str(table), [partition])


def test_a_destination_without_a_log_is_named(dest: Path):
    dest.mkdir(exist_ok=True)
    for call in (ray_committer.compact, lambda one: ray_committer.drop_partition(one, ["day=1"])):
        with pytest.raises(JobNotFoundError, match="is not a table with a log"):
            call(str(dest))


def test_a_cancelled_compaction_leaves_nothing(table: Path, monkeypatch: pytest.MonkeyPatch):
    for number in range(2):
        add(table, f"{number}.parquet", numbers(number))
    token = CancelToken()
    opened = open_job.open_store

    def begins(call: StoreCall) -> None:
        if "/tasks/" in call.paths[0]:
            token.cancel()

    monkeypatch.setattr(
        open_job, "open_store", lambda spec, **_: WrappedStore(opened(spec), before=begins)
    )
    with pytest.raises(CommitCancelledError, match="nothing was changed, and this job was given up"):
        ray_committer.compact(str(table), cancel=token)
    assert rows(table) == [0, 1]
    assert not (table / "_temporary").exists()
    assert [entry.kind for entry in table_log(str(table), since=6)] == ["abort"]


def test_appends_while_a_table_is_compacted_stay(table: Path):
    for number in range(6):
        add(table, f"day={number % 2}/{number}.parquet", numbers(number))

    def append() -> None:
        for number in range(6, 10):
            add(table, f"day={number % 2}/{number}.parquet", numbers(number))

    thread = threading.Thread(target=append)
    thread.start()
    report = ray_committer.compact(str(table))
    thread.join()
    assert report is not None
    assert sorted(rows(table)) == list(range(10))


def test_options_of_another_job_are_not_used(table: Path):
    for number in range(2):
        add(table, f"{number}.parquet", numbers(number))
    options = CommitOptions(mode=ray_committer.ConflictMode.OVERWRITE, expected_tasks=7)
    assert ray_committer.compact(str(table), options=options).replaced == 2
    assert rows(table) == [0, 1]


def test_the_commands_do_the_same(table: Path):
    for number in range(2):
        add(table, f"day=1/{number}.parquet", numbers(number))
    done = run("table", "compact", str(table))
    assert done.exit_code == 0
    assert "2 files rewritten as 1" in done.stdout
    assert "version 8 of the table" in done.stdout
    again = run("table", "compact", str(table), "--partition", "day=1", "--target-bytes", "1000000")
    assert (again.exit_code, again.stdout) == (0, f"{table}: there is nothing to compact\n")
    add(table, "day=2/2.parquet", numbers(2))
    undone = run("table", "undo", str(table), "11")
    assert "version 11 is undone: 0 files restored, 1 removed" in undone.stdout
    gone = run("table", "undo", str(table), "8")
    assert gone.exit_code == 1
    assert "has deleted day=1/0.parquet | day=1/1.parquet, so it cannot be undone" in gone.stderr
    dropped = run("table", "drop-partition", str(table), "day=1")
    assert (dropped.exit_code, "1 file removed from day=1" in dropped.stdout) == (0, True)
    wrong = run("table", "drop-partition", str(table), "day=1")
    assert wrong.exit_code == 1
    assert "is not a partition with files" in wrong.stderr
    assert run("table", "compact", str(table)).exit_code == 0


def test_a_compaction_neither_adds_nor_removes_a_partition(table: Path):
    add(table, "day=1/a.parquet", numbers(1))
    add(table, "day=1/b.parquet", numbers(2))
    add(table, "day=2/a.parquet", numbers(3))
    version = ray_committer.snapshot(str(table)).version
    assert ray_committer.compact(str(table)) is not None
    with open_partitions(str(table)) as found:
        now = found.now(found.touched_since(version).directories)
    assert [one.path for one in now.there] == ["day=1"]
    assert now.gone == ()
