"""The catalog of a session knows the partitions after each commit; its failure is only a notice."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import rmtree

import pytest

from ray_committer import CommitOptions
from ray_committer.protocol.partitions import partition_at
from ray_committer.spark import install, uninstall
from ray_committer.spark.catalog import SparkTable
from ray_committer.table_jobs.partitions import open_partitions, tell_catalog
from tests.cli.commands import run
from tests.integration.spark.catalog_writes import (
    check,
    make_all,
    partitions,
    rows_of,
    table_at,
    write,
)

pytestmark = [pytest.mark.one_spark, pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture
def name(spark) -> Iterator[str]:
    """A table that the test makes."""
    yield "default.known"
    spark.sql("DROP TABLE IF EXISTS default.known")
    uninstall(spark)


def test_the_catalog_knows_what_a_repair_would_find(spark, name: str, tmp_path: Path):
    make_all(spark, tmp_path / "a table", name)


@pytest.mark.wide
def test_hives_metastore_knows_what_a_repair_would_find(tmp_path: Path):
    command = [sys.executable, "-m", "tests.integration.spark.catalog_writes", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path.cwd())
    assert done.returncode == 0, done.stderr


def test_writes_at_once_are_all_known(spark, name: str, tmp_path: Path):
    dest = tmp_path / "t"
    installation = table_at(spark, dest, name)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda p: write(rows_of(spark, str(p)), dest, "append"), range(4)))
    assert check(spark, installation, name, 12) == {f"p={p}/q=x" for p in range(4)}


def test_a_table_without_partitions_is_read_anew(spark, name: str, tmp_path: Path):
    """Spark keeps the list of files of a table that it has read."""
    dest = tmp_path / "t"
    spark.sql(f"CREATE TABLE {name} (id BIGINT) USING parquet LOCATION '{dest}'")
    installation = install(spark, executor="threads", options=CommitOptions(catalog_table=name))
    for number in range(3):
        assert spark.table(name).count() == 5 * number
        spark.range(5).write.mode("append").parquet(str(dest))
    assert installation.last_report is not None
    assert installation.last_report.notices == []


def test_a_table_that_the_session_has_cached_is_read_anew(spark, name: str, tmp_path: Path):
    """Also if another application has written the files, of which Spark's own write knows nothing."""
    dest = tmp_path / "t"
    table_at(spark, dest, name)
    write(rows_of(spark, "1"), dest, "append")
    spark.sql(f"CACHE TABLE {name}")
    before = spark.table(name).count()
    shutil.copytree(dest / "p=1", dest / "p=2")
    table = SparkTable(spark, name)
    with open_partitions(str(dest)) as found:
        tell_catalog(found, table, ["p=2/q=x"])
    table.refresh()
    assert spark.table(name).count() == 2 * before > 0


def test_a_failure_is_a_notice_and_its_command_repeats_it(spark, name: str, tmp_path: Path):
    dest = tmp_path / "it's a table"
    installation = table_at(spark, dest, name)
    spark.sql(f"DROP TABLE {name}")
    write(rows_of(spark, "1", '"it\'s"'), dest, "append")
    report = installation.last_report
    assert report is not None
    assert report.outcome == "committed"
    assert f"{name}: is not a table in the catalog of the Spark session" in report.notices[0]
    assert report.notices[0].endswith(report.catalog_command)
    table_at(spark, dest, name)
    assert partitions(spark, name) == set()
    shown = subprocess.run(
        report.catalog_command.replace("ray-committer", f"{sys.executable} -m ray_committer.cli", 1),
        shell=True,
        capture_output=True,
        text=True,
    )
    for _ in range(2):
        for statement in shown.stdout.split(";\n")[:-1]:
            spark.sql(statement)
        assert partitions(spark, name) == {"p=1/q=it%27s"}


def test_printed_statements_are_read_by_spark_as_they_are_meant(spark, name: str, tmp_path: Path):
    table_at(spark, tmp_path, name)
    null = "__HIVE_DEFAULT_PARTITION__"
    texts = [
        "a b%25%2F",
        "😀%22",
        "%27",
        "%5C",
        "%5C%27",
        "$%7Benv%3AHOME}",
        "x%3Ay%3Dz",
        "%09;--%0A",
        null,
    ]
    for text in texts:
        path = tmp_path / f"p={null}" / f"q={text}" / "part-0"
        path.parent.mkdir(parents=True)
        path.write_text("x")
    for statement in run("partitions", str(tmp_path), "--table", name).stdout.split(";\n")[:-1]:
        spark.sql(statement)
    assert partitions(spark, name) == {f"p={null}/q={text}" for text in texts}
    gone = [word for text in texts[1:] for word in ("--partition", f"p={null}/q={text}")]
    for text in texts[1:]:
        (tmp_path / f"p={null}" / f"q={text}" / "part-0").unlink()
    for statement in run("partitions", str(tmp_path), "--table", name, *gone).stdout.split(";\n")[:-1]:
        spark.sql(statement)
    assert partitions(spark, name) == {f"p={null}/q={texts[0]}"}


PADDED = ["p=07/q=02", "p=8/q=3.50"]


@pytest.mark.parametrize("by", ["session", "statements"])
def test_values_that_the_catalog_casts_have_their_directories(by: str, spark, name: str, tmp_path: Path):
    table_at(spark, tmp_path, name)

    def tell(*gone: str) -> None:
        if by == "session":
            with open_partitions(str(tmp_path)) as found:
                tell_catalog(found, SparkTable(spark, name), gone or None)
            return
        named = [word for path in gone for word in ("--partition", path)]
        shown = run("partitions", str(tmp_path), "--table", name, *named).stdout
        for statement in shown.split(";\n")[:-1]:
            spark.sql(statement)

    for path in PADDED:
        spark.range(3).coalesce(1).write.parquet(str(tmp_path / path))
    tell()
    spark.catalog.refreshTable(name)
    found = sorted(spark.table(name).select("p", "q").distinct().collect())
    assert found == [(7, "02"), (8, "3.50")]
    if by == "session":
        spark.sql(f"MSCK REPAIR TABLE {name}")
        assert spark.table(name).count() == 6
    rmtree(tmp_path / PADDED[0])
    tell(PADDED[0])
    assert partitions(spark, name) == {PADDED[1]}


@pytest.mark.parametrize(
    ("partition_by", "text"),
    [
        (["p"], "p=1: does not fit table"),
        ([], "has data files, but is not the directory of a partition"),
    ],
)
def test_directories_that_do_not_fit_are_named(
    partition_by: list[str], text: str, spark, name: str, tmp_path: Path
):
    installation = table_at(spark, tmp_path / "t", name)
    rows_of(spark, "1").write.partitionBy(*partition_by).parquet(str(tmp_path / "t"))
    report = installation.last_report
    assert report is not None
    assert (report.outcome, len(report.notices)) == ("committed", 1)
    assert text in report.notices[0]


def test_another_place_is_named_and_a_setting_is_enough(spark, name: str, tmp_path: Path):
    table_at(spark, tmp_path / "t", name)
    installation = install(spark)
    spark.conf.set("spark.ray_committer.catalog_table", name)
    try:
        write(rows_of(spark, "1"), tmp_path / "other", "append")
        report = installation.last_report
        assert report is not None
        assert f"{tmp_path}/other: is not where table {name} is" in report.notices[0]
        write(rows_of(spark, "1"), tmp_path / "t", "append")
        assert check(spark, installation, name, 3) == {"p=1/q=x"}
    finally:
        spark.conf.unset("spark.ray_committer.catalog_table")


def test_a_dropped_partition_of_a_managed_table_keeps_its_directory(spark, name: str):
    spark.sql(f"CREATE TABLE {name} (id BIGINT, p INT) USING parquet PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
    table = SparkTable(spark, name)
    place = Path(table.location.removeprefix("file:"))
    with open_partitions(str(place)) as found:
        table.drop([partition_at("p=1")], found)
    assert partitions(spark, name) == {"p=2"}
    assert list((place / "p=1").iterdir())


def test_a_partition_at_another_place_is_not_dropped(spark, name: str, tmp_path: Path):
    table_at(spark, tmp_path / "t", name)
    spark.sql(f"ALTER TABLE {name} ADD PARTITION (p=1, q='x') LOCATION 'file:{tmp_path}/elsewhere'")
    with open_partitions(str(tmp_path / "t")) as found:
        SparkTable(spark, name).drop([partition_at("p=1/q=x"), partition_at("p=2/q=x")], found)
    assert partitions(spark, name) == {"p=1/q=x"}
