"""What Ray Data's own writers leave, and what `ManifestDatasink` leaves of the same dataset."""

from __future__ import annotations

import datetime
import decimal
import itertools
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
import ray.data
from ray.data import SaveMode
from ray.data.expressions import col

from ray_committer.errors import CommitConflictError
from ray_committer.protocol.partition_names import NULL_PARTITION
from ray_committer.writers.ray_data import ManifestDatasink

pytestmark = [
    pytest.mark.ray,
    pytest.mark.xdist_group("ray"),
    pytest.mark.usefixtures("ray_cluster"),
    # Ray Data's own, of its own settings.
    pytest.mark.filterwarnings("ignore:`use_.*` is deprecated:DeprecationWarning"),
]

ROWS = 60


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_DATA_PARQUET_FOOTER_NUM_ACTORS", "1")  # processes that each read starts
    ray.data.DataContext.get_current().enable_progress_bars = False


@dataclass(frozen=True, slots=True)
class Left:
    """A directory that a writer left."""

    root: Path
    kind: str

    def files(self) -> list[Path]:
        return sorted(path for path in self.root.rglob(f"*.{self.kind}"))

    def directories(self) -> set[str]:
        return {str(path.parent.relative_to(self.root)) for path in self.files()}

    def files_of_each_directory(self) -> Counter[Path]:
        return Counter(path.parent.relative_to(self.root) for path in self.files())

    def rows_of_each_file(self) -> list[int]:
        return sorted(pyarrow.parquet.read_metadata(path).num_rows for path in self.files())

    def table(self) -> pa.Table:
        files = [path for path in self.files() if path.stat().st_size]  # not of JSON without rows
        root = str(self.root)
        found = pyarrow.dataset.dataset(
            list(map(str, files)), format=self.kind, partitioning="hive", partition_base_dir=root
        )
        return found.to_table()

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.table().to_pylist())

    def rows(self) -> list[str]:
        return sorted(map(str, self.table().to_pylist()))

    def schema(self) -> set[str]:
        """Of the files themselves."""
        if self.kind != "parquet":
            return set()
        return {str(pyarrow.parquet.read_schema(path).remove_metadata()) for path in self.files()}

    def compression(self) -> set[str]:
        groups = [pyarrow.parquet.read_metadata(path).row_group(0) for path in self.files()]
        return {group.column(0).compression for group in groups}


@dataclass(frozen=True, slots=True)
class Both:
    """The same writes by Ray Data's writer and by our sink, each to a directory of its own."""

    root: Path
    kind: str = "parquet"

    @property
    def theirs(self) -> Left:
        return Left(self.root / "theirs", self.kind)

    @property
    def ours(self) -> Left:
        return Left(self.root / "ours", self.kind)

    def write(self, dataset: ray.data.Dataset, *columns: str, **options: Any) -> None:
        self.write_theirs(dataset, *columns, **options)
        self.write_ours(dataset, *columns, **options)

    def write_theirs(self, dataset: ray.data.Dataset, *columns: str, **options: Any) -> None:
        if columns:
            options["partition_cols"] = list(columns)
        getattr(dataset, f"write_{self.kind}")(str(self.theirs.root), **options)

    def write_ours(self, dataset: ray.data.Dataset, *columns: str, **options: Any) -> None:
        dest = str(self.ours.root)
        dataset.write_datasink(ManifestDatasink(dest, self.kind, partition_by=columns, **options))


@pytest.fixture
def both(tmp_path: Path) -> Both:
    return Both(tmp_path)


def table(start: int = 0) -> pa.Table:
    """Columns of types that all formats can hold; `text` and `number` have nulls."""
    ids = range(start, start + ROWS)
    return pa.table(
        {
            "id": ids,
            "text": [["x,\"y'", None, "é\t", "😀"][number % 4] for number in ids],
            "number": [None if number % 5 == 0 else number / 8 for number in ids],
            "truth": [number % 2 == 0 for number in ids],
            "p": [number % 3 for number in ids],
            "q": [["a", "b b", None][number % 3] for number in ids],
        }
    )


def in_memory(_: Path) -> ray.data.Dataset:
    return ray.data.from_arrow([table(), table(ROWS)])


def from_files(source: Path) -> ray.data.Dataset:
    """Ray Data fuses the write with this read."""
    source.mkdir()
    for number in range(2):
        pyarrow.parquet.write_table(table(number * ROWS), source / f"{number}.parquet")
    return ray.data.read_parquet(str(source))


SOURCES: dict[str, Callable[[Path], ray.data.Dataset]] = {"memory": in_memory, "files": from_files}
STEPS: dict[str, Callable[[ray.data.Dataset], ray.data.Dataset]] = {
    "nothing": lambda read: read,
    "map": lambda read: read.map_batches(lambda batch: batch, batch_format="pyarrow"),
    "filter": lambda read: read.filter(expr=col("id") < 50),
    "select": lambda read: read.select_columns(["q", "id", "p"]),
    "no rows": lambda read: read.filter(expr=col("id") < 0),
}
LAYOUTS: dict[str, tuple[str, ...]] = {
    "parquet": ("parquet",),
    "parquet by number": ("parquet", "p"),
    "parquet by number and text": ("parquet", "p", "q"),
    "csv": ("csv",),
    "json": ("json",),
}


def product() -> list[Any]:
    """In `make test`, each step with one layout, from memory; each layout with one step."""
    found = []
    steps, layouts = list(STEPS), list(LAYOUTS)
    for source, step, layout in itertools.product(SOURCES, STEPS, LAYOUTS):
        distance = (steps.index(step) - layouts.index(layout)) % len(layouts)
        marks = (pytest.mark.wide,) if source != "memory" or distance else ()
        found.append(pytest.param(source, step, layout, marks=marks, id=f"{source}, {step}, {layout}"))
    return found


@pytest.mark.parametrize(("source", "step", "layout"), product())
def test_the_same_dataset_gives_the_same_rows_files_and_columns(
    tmp_path: Path, source: str, step: str, layout: str
):
    kind, *columns = LAYOUTS[layout]
    both = Both(tmp_path, kind)
    both.write(STEPS[step](SOURCES[source](tmp_path / "source")), *columns)
    assert both.ours.rows() == both.theirs.rows()
    if step == "no rows" and not columns and source == "memory":
        assert len(both.ours.files()) == 1  # so that readers know the columns
        return
    assert len(both.ours.files()) == len(both.theirs.files())
    assert both.ours.schema() == both.theirs.schema()


def test_csv_is_the_same_byte_for_byte_and_parquet_compressed_in_the_same_way(tmp_path: Path):
    csv, parquet = Both(tmp_path / "csv", "csv"), Both(tmp_path / "parquet")
    for both in (csv, parquet):
        both.write(ray.data.from_arrow(table()))
    (ours,), (theirs,) = csv.ours.files(), csv.theirs.files()
    assert ours.read_bytes() == theirs.read_bytes()
    assert parquet.ours.compression() == parquet.theirs.compression() == {"SNAPPY"}


def test_json_has_dates_as_text_and_ray_datas_as_numbers(tmp_path: Path):
    both = Both(tmp_path, "json")
    moment = datetime.datetime(2024, 2, 29, 12, 30, 15, 120000)
    both.write(ray.data.from_arrow(pa.table({"day": [moment.date()], "at": [moment]})))
    (ours,), (theirs,) = both.ours.files(), both.theirs.files()
    assert json.loads(ours.read_text()) == {"day": "2024-02-29", "at": "2024-02-29T12:30:15.120000"}
    assert {type(value) for value in json.loads(theirs.read_text()).values()} == {int}


PARTITIONS = {
    "plain": ("plain", "plain"),
    "a b": ("a b", "a%20b"),
    "50%": ("50%25", "50%25"),
    "x:y=z": ("x%3Ay%3Dz", "x%3Ay%3Dz"),
    "a/b": ("a%2Fb", "a%2Fb"),
    "a+b,c": ("a+b,c", "a%2Bb%2Cc"),
    "{^}": ("%7B%5E}", "%7B%5E%7D"),
    "é": ("é", "%C3%A9"),
    "": (NULL_PARTITION, ""),
    None: (NULL_PARTITION, NULL_PARTITION),
    True: ("true", "true"),
    0.1: ("0.1", "0.1"),
    1e20: ("1e+20", "1e%2B20"),
    float("nan"): ("NaN", "nan"),
    decimal.Decimal("1.50"): ("1.50", "1.50"),
    datetime.date(2024, 2, 29): ("2024-02-29", "2024-02-29"),
    datetime.datetime(2024, 2, 29, 12, 30, 15, 120000): (
        "2024-02-29 12%3A30%3A15.12",
        "2024-02-29%2012%3A30%3A15.120000",
    ),
}
"""A value, and its directory by our sink, which is Spark's, and by Ray Data's writer."""


def test_a_directory_has_sparks_name_and_not_ray_datas(tmp_path: Path):
    by_type: dict[type, list[Any]] = {}
    for value in PARTITIONS:
        by_type.setdefault(str if value is None else type(value), []).append(value)
    found: dict[str, set[str]] = {"ours": set(), "theirs": set()}
    for kind, values in by_type.items():
        both = Both(tmp_path / kind.__name__)
        both.write(ray.data.from_arrow(pa.table({"id": range(len(values)), "p": values})), "p")
        for who in found:
            found[who] |= getattr(both, who).directories()
        assert both.ours.ids() == both.theirs.ids() == list(range(len(values)))
    ours, theirs = ({f"p={names[who]}" for names in PARTITIONS.values()} for who in (0, 1))
    assert found == {"ours": ours, "theirs": theirs}


def blocks_of(rows: int, blocks: int) -> ray.data.Dataset:
    return ray.data.range(rows, override_num_blocks=blocks).materialize()


@pytest.mark.wide
@pytest.mark.parametrize(
    ("blocks", "options"),
    [
        (10, {"min_rows_per_file": 30}),
        (10, {"min_bytes_per_file": 240}),
        (2, {"max_rows_per_file": 20}),
        (10, {"min_rows_per_file": 30, "max_rows_per_file": 35}),
    ],
)
def test_files_have_as_many_rows(both: Both, blocks: int, options: dict[str, int]):
    both.write(blocks_of(100, blocks), **options)
    assert len(both.ours.files()) > 1
    assert both.ours.rows_of_each_file() == both.theirs.rows_of_each_file()
    assert both.ours.ids() == list(range(100))


@pytest.mark.parametrize(
    "options",
    [
        {"min_rows_per_file": 9, "max_rows_per_file": 8},
        {"min_rows_per_file": 9, "min_bytes_per_file": 9},
    ],
)
def test_numbers_that_exclude_each_other_are_refused(both: Both, options: dict[str, int]):
    for write in (both.write_theirs, both.write_ours):
        with pytest.raises(ValueError, match="min_rows_per"):
            write(blocks_of(10, 1), **options)
    assert not both.ours.root.exists()


@pytest.mark.parametrize(
    "mode", [*(mode for mode in SaveMode if mode is not SaveMode.UPSERT), "overwrite", "ignore"]
)
@pytest.mark.alternate
@pytest.mark.parametrize("there", ["nothing", "data"])
def test_a_mode_leaves_the_same_rows(both: Both, there: str, mode: str):
    if there == "data":
        both.write(blocks_of(8, 2))
    if mode in ("error", "create") and there == "data":
        with pytest.raises(ValueError, match="already exists"):
            both.write_theirs(blocks_of(3, 1), mode=mode)
        with pytest.raises(CommitConflictError, match="holds data already"):
            both.write_ours(blocks_of(3, 1), mode=mode)
    else:
        both.write(blocks_of(3, 1), mode=mode)
    assert both.ours.ids() == both.theirs.ids()


@pytest.mark.parametrize(("mode", "theirs"), [("ignore", []), ("error", ValueError)])
def test_an_empty_directory_is_no_data_for_us(both: Both, mode: str, theirs: Any):
    both.theirs.root.mkdir()
    both.ours.root.mkdir()
    if theirs is ValueError:
        with pytest.raises(ValueError, match="already exists"):
            both.write_theirs(blocks_of(3, 1), mode=SaveMode(mode))
    else:
        both.write_theirs(blocks_of(3, 1), mode=SaveMode(mode))
    both.write_ours(blocks_of(3, 1), mode=mode)
    assert (both.theirs.ids(), both.ours.ids()) == ([], [0, 1, 2])


def test_a_column_without_values_in_one_block_has_the_type_of_the_next(both: Both):
    first = pa.table({"id": [1], "text": pa.nulls(1), "number": [1]})
    second = pa.table({"number": [2], "text": ["x"], "id": [2]})
    both.write(ray.data.from_arrow([first, second]), min_rows_per_file=2)
    assert len(both.ours.files()) == len(both.theirs.files()) == 1
    assert both.ours.rows() == both.theirs.rows()
    assert both.ours.schema() == both.theirs.schema()


def test_blocks_with_different_columns_get_files_of_their_own(both: Both):
    """Ray Data's writer fails."""
    blocks = [pa.table({"id": [1]}), pa.table({"id": [2], "more": ["x"]})]
    with pytest.raises(Exception, match="more"):
        both.write_theirs(ray.data.from_arrow(blocks), min_rows_per_file=2)
    both.write_ours(ray.data.from_arrow(blocks), min_rows_per_file=2)
    assert len(both.ours.files()) == 2
    assert both.ours.ids() == [1, 2]


def fails_at(number: int) -> Any:
    def fail(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] == number:
            raise RuntimeError("simulated failure of a task")
        return row

    return fail


def test_a_failed_overwrite_leaves_the_old_data_and_ray_datas_a_part_of_the_new(both: Both):
    both.write(blocks_of(8, 2))
    failing = blocks_of(40, 4).map(fails_at(39))
    for write in (both.write_theirs, both.write_ours):
        with pytest.raises(Exception, match="simulated failure of a task"):
            write(failing, mode="overwrite")
    assert both.ours.ids() == list(range(8))
    assert not (both.ours.root / "_temporary").exists()
    assert both.theirs.ids() != list(range(8))
