"""Files that tasks write: their content, how many, and what is refused before there is one."""

from __future__ import annotations

import datetime
import decimal
import json
import threading
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pytest

from ray_committer.writers import files as arrow_files
from ray_committer.writers.files import FileLayout, write_tables

ODD = ["a b", "50%", "x:y", "k=v", "日本", None, "a/b", "{?}"]


class Output:
    """Opens files below a directory and notes them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.opened: list[BinaryIO] = []

    def open(self, relative: str) -> BinaryIO:
        path = self.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        self.opened.append(path.open("xb"))
        return self.opened[-1]

    def write(self, *tables: pa.Table, stem: str = "s", **layout: Any) -> tuple[str, ...]:
        chosen = FileLayout(**{"format": "parquet", **layout})
        return write_tables(tables, chosen, self.open, stem=stem)

    def files(self) -> list[str]:
        return sorted(
            str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()
        )

    def rows(self, kind: str = "parquet") -> list[dict[str, Any]]:
        found = pyarrow.dataset.dataset(self.root, format=kind, partitioning="hive").to_table()
        return sorted(found.to_pylist(), key=lambda row: row["id"])


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return Output(tmp_path)


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_odd_partitions_are_read_back_equal(output: Output, kind: str):
    table = pa.table({"id": range(16), "p": ODD * 2, "text": ["x,\"y'\n"] * 16})
    written = output.write(table, format=kind, partition_by=("p",))
    assert sorted(written) == output.files()
    assert len(written) == 8
    assert output.rows(kind) == table.select(["id", "text", "p"]).to_pylist()
    assert all(not file or file.closed for file in output.opened)


def test_files_have_the_stem_and_a_number(output: Output):
    output.write(pa.table({"id": [1, 2], "p": [1, 2]}), partition_by=("p",), stem="x_1")
    assert output.files() == ["p=1/part-x_1-c000.parquet", "p=2/part-x_1-c001.parquet"]


def test_batches_of_one_directory_share_a_file(output: Output):
    tables = [pa.table({"id": [number]}) for number in range(20)]
    assert output.write(*tables) == ("part-s-c000.parquet",)
    assert pyarrow.parquet.ParquetFile(output.root / "part-s-c000.parquet").num_row_groups == 1


def test_more_directories_than_open_files_lose_nothing(output: Output, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(arrow_files, "OPEN_FILES", 3)
    monkeypatch.setattr(arrow_files, "BUFFER_BYTES", 100)
    table = pa.table({"id": range(40), "p": [number % 8 for number in range(40)]})
    written = output.write(*(table.slice(start, 5) for start in range(0, 40, 5)), partition_by=("p",))
    assert 8 < len(written) == len(output.files())
    assert output.rows() == table.to_pylist()


def test_a_large_directory_is_written_as_it_comes(output: Output, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(arrow_files, "FILE_BYTES", 100)
    output.write(*(pa.table({"id": range(n, n + 20)}) for n in (0, 20, 40)))
    assert len(output.rows()) == 60
    assert pyarrow.parquet.ParquetFile(output.root / "part-s-c000.parquet").num_row_groups == 3


def test_files_of_several_directories_are_written_at_the_same_time():
    both = threading.Barrier(2, timeout=30)

    class Sink(BytesIO):
        def write(self, data: Any) -> int:
            both.wait()
            return super().write(data)

    rows = pa.table({"id": [1, 2], "p": [1, 2]})
    assert len(write_tables([rows], FileLayout("json", ("p",)), lambda _: Sink(), stem="s")) == 2


@pytest.mark.parametrize(("file_bytes", "buffer_bytes"), [(0, 1000), (1000, 0)])
def test_no_more_rows_are_taken_while_a_full_buffer_is_written(
    monkeypatch: pytest.MonkeyPatch, file_bytes: int, buffer_bytes: int
):
    class SlowSink(BytesIO):
        def write(self, data: Any) -> int:
            time.sleep(0.2)
            return super().write(data)

    sink = SlowSink()

    def tables() -> Iterator[pa.Table]:
        yield pa.table({"id": [1]})
        assert sink.getvalue() == b'{"id":1}\n'
        yield pa.table({"id": [2]})

    monkeypatch.setattr(arrow_files, "FILE_BYTES", file_bytes)
    monkeypatch.setattr(arrow_files, "BUFFER_BYTES", buffer_bytes)
    assert len(write_tables(tables(), FileLayout("json"), lambda _: sink, stem="s")) == 1


def test_tables_of_another_schema_get_files_of_their_own(
    output: Output, monkeypatch: pytest.MonkeyPatch
):
    one, other = pa.table({"id": [1]}), pa.table({"id": [2], "more": ["x"]})
    assert len(output.write(one, other, one)) == 3
    monkeypatch.setattr(arrow_files, "FILE_BYTES", 0)  # each is in an open file when the next one comes
    assert len(output.write(one, other, one, stem="t")) == 3
    assert [row["id"] for row in output.rows()] == [1, 1, 1, 1, 2, 2]


def test_columns_without_values_take_their_type_from_the_tables_beside(
    output: Output, monkeypatch: pytest.MonkeyPatch
):
    nothing = pa.table({"id": [1], "text": pa.nulls(1)})
    text = pa.table({"text": ["x"], "id": [2]})
    number = pa.table({"id": [3], "text": [4.5]})
    assert len(output.write(nothing, text, nothing, stem="s")) == 1
    assert len(output.write(text, nothing, number, stem="t")) == 2
    monkeypatch.setattr(arrow_files, "FILE_BYTES", 0)
    assert len(output.write(text, nothing, stem="u")) == 1
    assert len(output.write(nothing, text, stem="v")) == 2
    read = pyarrow.parquet.read_table(output.root / "part-s-c000.parquet")
    assert read.to_pydict() == {"id": [1, 2, 1], "text": [None, "x", None]}


@pytest.mark.parametrize(("at_once", "groups"), [(10**9, 4), (0, 5)])
def test_a_file_has_no_more_rows_than_it_may(
    output: Output, monkeypatch: pytest.MonkeyPatch, at_once: int, groups: int
):
    monkeypatch.setattr(arrow_files, "FILE_BYTES", at_once)
    table = pa.table({"id": range(19)})
    written = output.write(table.slice(0, 7), table.slice(7), max_rows_per_file=5)
    files = [pyarrow.parquet.ParquetFile(output.root / name) for name in written]
    assert [file.metadata.num_rows for file in files] == [5, 5, 5, 4]
    assert sum(file.num_row_groups for file in files) == groups
    assert output.rows() == table.to_pylist()


def test_json_keeps_what_json_can(output: Output):
    row = {
        "id": 1,
        "d": decimal.Decimal("1.50"),
        "t": datetime.datetime(2020, 1, 2, 3, 4, 5, 600000),
        "b": b"\x00\xff",
        "n": float("nan"),
        "m": {"k": [1, None]},
        "u": None,
    }
    output.write(pa.Table.from_pylist([row]), format="json")
    (text,) = (output.root / "part-s-c000.json").read_text().splitlines()
    assert '"d":1.50' in text
    assert json.loads(text) == {
        "id": 1,
        "d": 1.5,
        "t": "2020-01-02T03:04:05.600000",
        "b": "AP8=",
        "n": None,
        "m": {"k": [1, None]},
        "u": None,
    }


def test_the_options_are_the_writers_own(output: Output):
    output.write(pa.table({"id": ["1"]}), options={"compression": "zstd"})
    group = pyarrow.parquet.ParquetFile(output.root / "part-s-c000.parquet").metadata.row_group(0)
    assert group.column(0).compression == "ZSTD"
    output.write(pa.table({"id": ["1"]}), format="csv", options={"include_header": False})
    assert (output.root / "part-s-c000.csv").read_text() == '"1"\n'


@pytest.mark.parametrize("rows", [0, 2])
def test_without_rows_a_file_has_the_columns_if_they_are_known(output: Output, rows: int):
    schema = pa.schema([("id", pa.int64())])
    table = schema.empty_table() if not rows else pa.table({"id": range(rows)})
    written = write_tables([table], FileLayout("parquet"), output.open, stem="s", schema=schema)
    assert written == ("part-s-c000.parquet",)
    assert output.rows() == table.to_pylist()
    layout = FileLayout("parquet", ("id",))
    assert write_tables([], layout, output.open, stem="t", schema=schema) == ()


@pytest.mark.parametrize(
    ("layout", "what"),
    [
        ({"format": "orc"}, "format 'orc': is not one of parquet, csv, json"),
        ({"format": "parquet", "options": {"compresion": "zstd"}}, "compresion"),
        ({"format": "parquet", "options": {"compression": "best"}}, "(?i)best"),
        ({"format": "csv", "options": {"sep": ";"}}, "sep"),
        ({"format": "json", "options": {"sep": ";"}}, "it has no options, but sep was given"),
        ({"format": "csv", "partition_by": ("p", "p")}, "must be a list of different columns"),
        ({"format": "csv", "partition_by": "p"}, "must be a list of different columns"),
        ({"format": "csv", "max_rows_per_file": 0}, "max_rows_per_file 0: must be at least 1"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(layout: dict[str, Any], what: str):
    with pytest.raises(ValueError, match=what):
        FileLayout(**layout)


@pytest.mark.parametrize(
    ("layout", "what"),
    [
        (FileLayout("parquet", ("q",)), "partition column 'q': is not one of id, p, l"),
        (FileLayout("parquet", ("l",)), "partition column 'l': is of type list<item: int64>"),
        (FileLayout("parquet", ("l", "p", "id")), "'l': is of type list"),
        (FileLayout("csv"), "format 'csv' cannot be written like this"),
    ],
)
def test_data_that_cannot_be_written_so_is_refused(output: Output, layout: FileLayout, what: str):
    table = pa.table({"id": [1], "p": ["a"], "l": [[1]]})
    with pytest.raises(ValueError, match=what):
        layout.check(table.schema)
    with pytest.raises(ValueError, match=what):
        write_tables([table], layout, output.open, stem="s")
    assert output.files() == []


def test_partitions_alone_leave_nothing_to_write():
    with pytest.raises(ValueError, match="leaves no column for the files"):
        FileLayout("csv", ("a",)).check(pa.schema([("a", pa.int8())]))


def test_a_failed_write_leaves_no_file_open(output: Output, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(arrow_files, "FILE_BYTES", 0)
    bad = pa.table({"id": [2], "p": [b"\x00"]})
    with pytest.raises(ValueError, match="binary"):
        output.write(pa.table({"id": [1], "p": ["a"]}), bad, partition_by=("p",))
    assert [file.closed for file in output.opened] == [True]


def test_a_file_that_cannot_be_written_fails_the_write():
    class Full(BytesIO):
        def write(self, data: Any) -> int:
            raise OSError("no space left")

    sinks = {"p=1": Full(), "p=2": BytesIO()}
    rows = pa.table({"id": [1, 2], "p": [1, 2]})
    with pytest.raises(OSError, match="no space left"):
        write_tables([rows], FileLayout("json", ("p",)), lambda path: sinks[path[:3]], stem="s")
    assert all(sink.closed for sink in sinks.values())


def test_a_file_that_cannot_be_closed_fails_the_write():
    class Full(BytesIO):
        def close(self) -> None:
            super().close()
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        write_tables([pa.table({"id": [1]})], FileLayout("json"), lambda _: Full(), stem="s")
