"""A pyarrow dataset has exactly the rows of a snapshot's files, with the values of their directories."""

from __future__ import annotations

import datetime
import decimal
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from ray_committer.errors import SettingsError, StoreRefusedError
from ray_committer.interop.readers.arrow import PlacedFile, reader_of
from ray_committer.protocol.table_entry import PartitionColumn
from ray_committer.stores.base import StoreSpec

LOCAL = StoreSpec("file")


def written(root: Path, files: Mapping[str, str]) -> list[PlacedFile]:
    """Parquet files at places below `root`, by their paths in the log; each row has its file's path."""
    for path, place in files.items():
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(pa.table({"from": [path]}), root / place)
    return [PlacedFile(path, str(root / place)) for path, place in files.items()]


def in_place(root: Path, *paths: str) -> list[PlacedFile]:
    return written(root, {path: path for path in paths})


def read(files: Sequence[PlacedFile], *columns: PartitionColumn, **options: object) -> pa.Table:
    reader = reader_of(LOCAL, files, columns, **options)  # type: ignore[arg-type]
    return reader.dataset(files).to_table()


def test_the_files_that_are_named_are_read_and_no_others(tmp_path: Path):
    files = in_place(tmp_path, "day=1/a.parquet", "day=1/b.parquet", "day=2/a.parquet")
    found = read(files[1:])
    assert found.to_pydict() == {"from": ["day=1/b.parquet", "day=2/a.parquet"], "day": [1, 2]}
    assert found.schema.field("day").type == pa.int32()


def test_old_files_that_were_kept_have_the_same_values(tmp_path: Path):
    """The table itself is in a directory that is named as a partition is."""
    root = tmp_path / "env=prod" / "table"
    files = written(
        root,
        {
            "day=1/a.parquet": "day=1/a.parquet",
            "day=2/b.parquet": "_ray_committer/removed/7/day=2/b.parquet.kept",
        },
    )
    found = read(files)
    assert found.to_pydict() == {"from": ["day=1/a.parquet", "day=2/b.parquet"], "day": [1, 2]}


@pytest.mark.parametrize(
    ("texts", "kind", "values"),
    [
        (["1", "-2"], pa.int32(), [1, -2]),
        (["1", str(2**31)], pa.int64(), [1, 2**31]),
        (["1", str(2**63)], pa.string(), ["1", str(2**63)]),
        (["01", "2"], pa.string(), ["01", "2"]),
        (["1", "a"], pa.string(), ["1", "a"]),
        (["-0", "+1"], pa.string(), ["-0", "+1"]),
        (["٣", "1"], pa.string(), ["٣", "1"]),
        (["__HIVE_DEFAULT_PARTITION__", "1"], pa.int32(), [None, 1]),
        (["__HIVE_DEFAULT_PARTITION__"], pa.string(), [None]),
        (["a%3Ab%2Fc", "é%20"], pa.string(), ["a:b/c", "é "]),
        (["2024-01-02"], pa.string(), ["2024-01-02"]),
    ],
)
def test_columns_without_a_type_hold_integers_or_strings(
    tmp_path: Path, texts: list[str], kind: pa.DataType, values: list[object]
):
    found = read(in_place(tmp_path, *(f"day={text}/a.parquet" for text in texts)))
    assert found.schema.field("day").type == kind
    assert found["day"].to_pylist() == values


@pytest.mark.parametrize(
    ("declared", "text", "value"),
    [
        ("string", "1", "1"),
        ("varchar(3)", "1", "1"),
        ("boolean", "true", True),
        ("tinyint", "1", 1),
        ("smallint", "1", 1),
        ("int", "01", 1),
        ("bigint", "1", 1),
        ("float", "0.5", 0.5),
        ("double", "-Infinity", float("-inf")),
        ("date", "2024-01-02", datetime.date(2024, 1, 2)),
        ("timestamp", "2024-01-02 03%3A04%3A05.5", datetime.datetime(2024, 1, 2, 3, 4, 5, 500_000)),
        ("decimal(5, 2)", "1.50", decimal.Decimal("1.50")),
        ("int", "__HIVE_DEFAULT_PARTITION__", None),
    ],
)
def test_columns_of_the_definition_have_their_types(
    tmp_path: Path, declared: str, text: str, value: object
):
    files = in_place(tmp_path, f"day={text}/a.parquet")
    assert read(files, PartitionColumn("day", declared))["day"].to_pylist() == [value]


def test_a_value_that_is_not_of_its_type_and_an_unknown_type_are_errors(tmp_path: Path):
    files = in_place(tmp_path, "day=a/a.parquet")
    with pytest.raises(SettingsError, match="partition column 'day': 'a' is not a value of type int32"):
        read(files, PartitionColumn("day", "int"))
    with pytest.raises(SettingsError, match="type interval is not known"):
        read(files, PartitionColumn("day", "interval"))
    schema = pa.schema([("from", pa.string()), ("day", pa.string())])
    assert read(files, PartitionColumn("day", "int"), schema=schema)["day"].to_pylist() == ["a"]


def test_files_of_several_depths_and_without_a_partition_are_one_dataset(tmp_path: Path):
    files = in_place(tmp_path, "a.parquet", "day=1/a.parquet", "day=1/hour=x/a.parquet")
    found = read(files)
    assert found["day"].to_pylist() == [None, 1, 1]
    assert found["hour"].to_pylist() == [None, None, "x"]


def test_a_filter_by_partition_opens_no_other_file(tmp_path: Path):
    files = in_place(tmp_path, "day=1/a.parquet", "day=2/a.parquet")
    dataset = reader_of(LOCAL, files, ()).dataset(files)
    Path(files[1].place).unlink()
    found = dataset.to_table(filter=pa.compute.field("day") == 1)
    assert found["day"].to_pylist() == [1]


def test_a_column_that_files_also_have_is_that_of_the_directory(tmp_path: Path):
    (tmp_path / "day=1").mkdir()
    pyarrow.parquet.write_table(pa.table({"day": ["x"], "a": [1]}), tmp_path / "day=1/a.parquet")
    files = [PlacedFile("day=1/a.parquet", str(tmp_path / "day=1/a.parquet"))]
    assert read(files).schema == pa.schema([("a", pa.int64()), ("day", pa.int32())])


def test_no_files_are_a_dataset_without_rows():
    found = read([], PartitionColumn("day", "date"))
    assert (found.num_rows, found.schema) == (0, pa.schema([("day", pa.date32())]))


@pytest.mark.parametrize(("name", "is_compressed"), [("a.csv", False), ("a.csv.gz", True)])
def test_csv_is_read_by_its_suffix(tmp_path: Path, name: str, is_compressed: bool):
    (tmp_path / "day=1").mkdir()
    with pa.output_stream(tmp_path / "day=1" / name) as out:
        pyarrow.csv.write_csv(pa.table({"a": [1, 2]}), out)
    files = [PlacedFile(f"day=1/{name}", str(tmp_path / "day=1" / name))]
    assert read(files).to_pydict() == {"a": [1, 2], "day": [1, 1]}
    kept = [PlacedFile(f"day=1/{name}", f"{tmp_path}/day=1/{name}.kept")]
    Path(files[0].place).rename(kept[0].place)
    if is_compressed:
        with pytest.raises(SettingsError, match=r"a\.csv\.gz\.kept: is a compressed csv file"):
            read(kept)
    else:
        assert read(kept).num_rows == 2


def test_files_of_several_formats_need_to_be_told_apart(tmp_path: Path):
    files = in_place(tmp_path, "a.parquet", "b.pq")
    with pytest.raises(SettingsError, match="files with the suffixes parquet, pq"):
        read(files)
    assert read(files, format="parquet").num_rows == 2
    with pytest.raises(SettingsError, match="format 'pq': is not one of parquet, orc"):
        read(files[1:])


def test_a_reader_can_be_sent_to_other_processes(tmp_path: Path):
    files = in_place(tmp_path, "day=1/a.parquet")
    reader = reader_of(LOCAL, files, ())
    reader.dataset(files)
    assert pickle.loads(pickle.dumps(reader)).dataset(files).to_table() == read(files)


def test_a_store_of_fsspec_is_read_through_fsspec():
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    with memory.open("/table/day=1/a%3A.parquet", "wb") as out:
        pyarrow.parquet.write_table(pa.table({"a": [1]}), out)
    files = [PlacedFile("day=1/a%3A.parquet", "/table/day=1/a%3A.parquet")]
    reader = reader_of(StoreSpec("memory"), files, ())
    assert reader.dataset(files).to_table().to_pydict() == {"a": [1], "day": [1]}
    memory.rm("/table", recursive=True)


def test_a_store_that_fsspec_does_not_know_is_an_error():
    files = [PlacedFile("a.parquet", "/a.parquet")]
    with pytest.raises(StoreRefusedError, match="none://host: fsspec cannot read there"):
        reader_of(StoreSpec("none", "host"), files, ()).dataset(files)
