"""Overwrites of what is not there: Spark does not say that they replace anything, and they must.

Another write puts data there after the tasks have ended and before the commit has looked at anything.
Two overwrites leave the rows of one of them, as if one had come after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ray_committer import history, init_table
from ray_committer.events import Event, StageStarted
from ray_committer.spark import install, uninstall
from tests.integration.spark.tasks import set_up

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

TABLE = "CREATE TABLE t (who STRING, p STRING) USING parquet PARTITIONED BY (p) LOCATION '{dest}'"
LEVELS = (
    "CREATE TABLE t (who STRING, p STRING, q INT) USING parquet PARTITIONED BY (p, q) LOCATION '{dest}'"
)
INTO_P = "INSERT INTO t PARTITION (p = 'new') SELECT '{who}'"
OVER_P = "INSERT OVERWRITE t PARTITION (p = 'new') SELECT '{who}'"


@dataclass
class Meeting:
    """A session whose next write meets another one, which begins and ends before its commit."""

    spark: SparkSession
    dest: Path
    other: Callable[[], object] | None = None
    met: bool = False

    def on_event(self, event: Event) -> None:
        if self.other is not None and isinstance(event, StageStarted):
            other, self.other = self.other, None
            other()
            self.met = True

    def run(self, text: str, who: str) -> None:
        self.spark.sql(text.format(dest=self.dest, who=who))

    def rows(self) -> list[str]:
        """Who wrote the rows that are visible."""
        read = self.spark.read.schema("who STRING").parquet(str(self.dest))
        return sorted(row.who for row in read.collect())


@pytest.fixture
def meeting(spark: SparkSession, tmp_path: Path) -> Iterator[Meeting]:
    found = Meeting(spark, tmp_path / "t")
    install(spark, on_event=found.on_event)
    yield found
    uninstall(spark)
    for name in ("t", "u", "t_first", "t_other"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.mark.parametrize(
    ("before", "write"),
    [
        pytest.param(
            [LEVELS],
            "INSERT OVERWRITE t PARTITION (q = 2, p = 'a b%/é:x=y') SELECT '{who}'",
            id="a partition",
        ),
        pytest.param(
            [LEVELS],
            "INSERT OVERWRITE t PARTITION (p = NULL, q) SELECT '{who}', 2",
            id="partitions",
            marks=pytest.mark.wide,
        ),
        pytest.param(
            [TABLE],
            "INSERT OVERWRITE t SELECT '{who}', 'new'",
            id="a table",
            marks=pytest.mark.wide,
        ),
        pytest.param(
            [TABLE, "CREATE TABLE u USING parquet LOCATION '{dest}-2' AS SELECT 1"],
            "FROM (SELECT '{who}' AS who) INSERT OVERWRITE t PARTITION (p = 'new') SELECT who "
            "INSERT OVERWRITE u SELECT 2",
            id="two tables at once",
            marks=pytest.mark.wide,
        ),
        pytest.param(
            [],
            "INSERT OVERWRITE DIRECTORY '{dest}' USING parquet SELECT '{who}' AS who",
            id="a directory",
            marks=pytest.mark.wide,
        ),
    ],
)
def test_of_two_statements_at_once_one_is_visible(meeting: Meeting, before: list[str], write: str):
    for text in before:
        meeting.run(text, "nobody")
    meeting.other = lambda: meeting.run(write, "other")
    meeting.run(write, "first")
    assert meeting.met
    assert meeting.rows() == ["first"]


def save(meeting: Meeting, who: str) -> None:
    frame = meeting.spark.sql(f"SELECT '{who}' AS who")
    frame.write.mode("overwrite").parquet(str(meeting.dest))


def save_as_table(meeting: Meeting, who: str) -> None:
    frame = meeting.spark.sql(f"SELECT '{who}' AS who, 1 AS p")
    at = frame.write.mode("overwrite").partitionBy("p").option("path", str(meeting.dest))
    at.saveAsTable(f"t_{who}")


def insert_into(meeting: Meeting, who: str) -> None:
    text = f"CREATE TABLE IF NOT EXISTS t (who STRING) USING parquet LOCATION '{meeting.dest}'"
    meeting.spark.sql(text)
    meeting.spark.sql(f"SELECT '{who}' AS who").write.insertInto("t", overwrite=True)


@pytest.mark.parametrize(
    "write",
    [
        save,
        pytest.param(save_as_table, marks=pytest.mark.wide),
        pytest.param(insert_into, marks=pytest.mark.wide),
    ],
)
def test_of_two_calls_at_once_one_is_visible(meeting: Meeting, write: Callable[[Meeting, str], None]):
    meeting.other = lambda: write(meeting, "other")
    write(meeting, "first")
    assert meeting.met
    assert meeting.rows() == ["first"]


@pytest.mark.parametrize(
    ("write", "left"),
    [
        pytest.param(OVER_P, ["first"], id="an overwrite"),
        pytest.param(
            "INSERT OVERWRITE t PARTITION (p = 'new') SELECT '{who}' WHERE false",
            [],
            id="an overwrite with nothing",
            marks=pytest.mark.wide,
        ),
        pytest.param(INTO_P, ["first", "other"], id="an append", marks=pytest.mark.wide),
        pytest.param(
            "INSERT OVERWRITE t PARTITION (p = 'new') IF NOT EXISTS SELECT '{who}'",
            ["first", "other"],
            id="IF NOT EXISTS",
        ),
        pytest.param(
            "FROM (SELECT '{who}' AS who) INSERT OVERWRITE t PARTITION (p = 'old') SELECT who "
            "INSERT INTO t PARTITION (p = 'new') SELECT who",
            ["first", "first", "other"],
            id="two inserts into one table",
            marks=pytest.mark.wide,
        ),
    ],
)
def test_what_another_write_appends_meanwhile_is_replaced_by_overwrites_only(
    meeting: Meeting, write: str, left: list[str]
):
    meeting.run(TABLE, "nobody")
    meeting.other = lambda: meeting.run(INTO_P, "other")
    meeting.run(write, "first")
    assert meeting.met
    assert meeting.rows() == left


@pytest.mark.one_spark
def test_of_two_overwrites_of_a_missing_location_of_a_partition_one_is_visible(meeting: Meeting):
    meeting.run(TABLE, "nobody")
    meeting.run("ALTER TABLE t ADD PARTITION (p = 'new') LOCATION '{dest}-new'", "nobody")
    meeting.other = lambda: meeting.run(OVER_P, "other")
    meeting.run(OVER_P, "first")
    assert [row.who for row in meeting.spark.table("t").collect()] == ["first"]


@pytest.mark.wide
def test_of_a_batch_of_a_stream_and_another_overwrite_one_is_visible(meeting: Meeting, tmp_path: Path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source/one").write_text("first")
    stream = meeting.spark.readStream.text(str(tmp_path / "source"))
    meeting.other = lambda: save(meeting, "other")
    stream.selectExpr("value AS who").writeStream.foreachBatch(
        lambda batch, _: batch.write.mode("overwrite").parquet(str(meeting.dest))
    ).option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert meeting.met
    assert meeting.rows() == ["first"]


@pytest.mark.one_spark
def test_the_log_of_a_table_names_the_new_partition_that_is_replaced(meeting: Meeting):
    meeting.dest.mkdir()
    init_table(str(meeting.dest))
    meeting.run(TABLE, "nobody")
    meeting.other = lambda: meeting.run(OVER_P, "other")
    meeting.run(OVER_P, "first")
    assert meeting.rows() == ["first"]
    assert [(one.mode, one.partitions) for one in history(str(meeting.dest))][1:] == [
        ("overwrite", ("p=new",)),
        ("overwrite", ("p=new",)),
    ]


@pytest.mark.parametrize("query", ["999999999", "no number"])
def test_a_write_whose_plan_cannot_be_read_is_set_up(meeting: Meeting, query: str):
    context = meeting.spark.sparkContext
    context.setLocalProperty("spark.sql.execution.id", query)
    try:
        job = set_up(meeting.spark, meeting.dest)
    finally:
        context.setLocalProperty("spark.sql.execution.id", None)
    assert [path.name.split(".")[1] for path in (job.directory / "state").iterdir()] == ["appends"]
