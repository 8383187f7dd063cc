"""A snapshot as a Ray Data dataset: the rows, types and values that pyarrow's dataset has."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import ray.data

import ray_committer
from ray_committer.table_jobs.table import init_table
from ray_committer.writers.ray_data import ManifestDatasink
from tests.table_jobs.test_snapshot import keep

pytestmark = [
    pytest.mark.ray,
    pytest.mark.xdist_group("ray"),
    pytest.mark.usefixtures("ray_cluster"),
    # Ray Data's own, of its own settings.
    pytest.mark.filterwarnings("ignore:`use_.*` is deprecated:DeprecationWarning"),
]

DAYS = ["a:b", None, "é", "1"]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_DATA_PARQUET_FOOTER_NUM_ACTORS", "1")  # processes that each read starts
    ray.data.DataContext.get_current().enable_progress_bars = False


@pytest.fixture
def table(dest: Path) -> str:
    """A table of four partitions; the job of a second version has kept the files of one."""
    dest.mkdir()
    init_table(str(dest))
    rows = pa.table({"day": DAYS * 10, "number": list(range(40))})
    ray.data.from_arrow(rows).write_datasink(ManifestDatasink(str(dest), partition_by=["day"]))
    keep(dest, ray_committer.snapshot(str(dest)).files("day=1"))
    return str(dest)


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(zip(*table.to_pydict().values(), strict=True), key=str)


@pytest.mark.parametrize("version", [pytest.param(4, marks=pytest.mark.wide), None])
def test_the_rows_are_those_of_pyarrow(table: str, version: int | None):
    found = ray_committer.snapshot(table, version)
    arrow = found.dataset().to_table()
    on_ray = found.ray_dataset()
    assert on_ray.count() == arrow.num_rows == (40 if version else 30)
    read = pa.concat_tables(ray.get(on_ray.to_arrow_refs()))
    assert read.schema == arrow.schema == pa.schema([("number", pa.int64()), ("day", pa.string())])
    assert rows_of(read) == rows_of(arrow)
    assert {row[1] for row in rows_of(read)} == set(DAYS if version else DAYS[:3])


def test_one_partition_and_an_empty_one(table: str):
    found = ray_committer.snapshot(table, 4)
    assert sorted(row["number"] for row in found.ray_dataset("day=1").take_all()) == list(
        range(3, 40, 4)
    )
    assert found.ray_dataset("day=9").count() == 0


def test_a_file_that_goes_before_it_is_read_is_an_error_that_names_it(table: str):
    found = ray_committer.snapshot(table)
    on_ray = found.ray_dataset("day=é")
    for url in found.urls("day=é"):
        Path(url).unlink()
    with pytest.raises(Exception, match=r"day=é/.*: this file, or one of .* was removed after"):
        on_ray.take_all()
