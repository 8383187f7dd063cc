"""`write_records` into PostgreSQL, in Spark 3.5 and 4: each row once, or nothing."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from ray_committer.errors import CommitConflictError, TableColumnsError
from ray_committer.records.spark import write_records
from tests.docs.blocks import all_blocks
from tests.integration.spark.test_spark_writes import fail_task
from tests.records.places import PAGE_URL, Place
from tests.servers.postgresql import PASSWORD

pytestmark = [
    pytest.mark.one_spark,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    # Spark 3.5's own, when it looks at the version of PyArrow.
    pytest.mark.filterwarnings("ignore:distutils Version classes are deprecated:DeprecationWarning"),
]

AT = datetime.datetime(2024, 2, 29, 12, 30, 15, 120003)


@pytest.fixture
def place(postgres_place: Place) -> Place:
    return postgres_place


@pytest.fixture
def ids(spark: SparkSession) -> DataFrame:
    return spark.range(40).repartition(3, "id")


@pytest.mark.wide
def test_rows_of_all_types_are_there_once_and_each_mode_does_what_it_says(
    spark: SparkSession, ids: DataFrame, place: Place
):
    schema = "id long, s string, n int, d decimal(12,3), b binary, t timestamp, u timestamp_ntz, y date"
    schema += ", o boolean"
    values = (decimal.Decimal("1.250"), b"\0", AT.astimezone(datetime.UTC), AT, AT.date(), True)
    df = spark.createDataFrame([(1, "é", 7, *values), (2, *[None] * 8)], schema)
    report = write_records(df, place.url, place.table, mode="error")
    assert report is not None
    assert (report.write_id, report.rows) == (1, 2)
    assert PASSWORD not in repr(report)
    found = place.query("SELECT s, n, d::text, b, t, u, y, o FROM {t} ORDER BY id")
    assert found[1] == (None,) * 8
    assert found[0] == ("é", 7, "1.250", b"\0", found[0][4], AT, AT.date(), True)
    assert found[0][4].astimezone(datetime.UTC) == values[2]
    assert write_records(df, place.url, place.table, mode="ignore") is None
    with pytest.raises(CommitConflictError, match="has rows"):
        write_records(df, place.url, place.table, mode="error")
    write_records(ids, place.url, place.table, mode="overwrite")
    write_records(ids, place.url, place.table)
    assert place.ids() == sorted([*range(40)] * 2)
    assert place.staging() == []


def test_a_task_that_fails_once_is_counted_once(ids: DataFrame, place: Place, tmp_path: Path):
    fail = fail_task(str(tmp_path / "ran"), times=1)
    df = ids.select("id", fail("id").alias("same"))
    report = write_records(df, place.url, place.table)
    assert (tmp_path / "ran-0-1").exists()
    assert report is not None
    assert (report.rows, place.ids()) == (40, [*range(40)])


def test_a_write_that_fails_leaves_nothing(ids: DataFrame, place: Place, tmp_path: Path):
    fail = fail_task(str(tmp_path / "ran"), times=9)
    with pytest.raises(Exception, match="simulated failure of a task"):
        write_records(ids.select(fail("id").alias("id")), place.url, place.table)
    place.query("CREATE TABLE {t} (id bigint CHECK (id < 39))")
    with pytest.raises(Exception, match="violates check constraint"):
        write_records(ids, place.url, place.table)
    with pytest.raises(TableColumnsError, match="column 'odd' is list"):
        write_records(ids.selectExpr("id", "array(id) AS odd"), place.url, place.table)
    assert place.states() == [(1, "aborted"), (2, "aborted")]
    assert (place.ids(), place.staging()) == ([], [])


@pytest.mark.wide
def test_the_block_of_the_page_runs_as_printed(ids: DataFrame, place: Place, capsys):
    place.query(f'CREATE TABLE "{place.schema}"."orders" (id bigint)')
    text = all_blocks()["docs/records/README.md: Spark"].text
    text = text.replace(PAGE_URL, place.url).replace("public.orders", f"{place.schema}.orders")
    exec(compile(text, "page", "exec"), {"df": ids})
    assert capsys.readouterr().out == "1 40 3\n"
