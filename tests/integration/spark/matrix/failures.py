"""Writes whose tasks fail, once or for good."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from pyspark.sql import DataFrame, DataFrameWriter

from tests.integration.spark.matrix.differences import OLD_DATA_STAYS, STOPPING_TASKS
from tests.integration.spark.matrix.hive import COLUMNS
from tests.integration.spark.matrix.place import Place, Write, add, case

SIMULATED = "CAST(raise_error('simulated') AS BIGINT)"


def failing(place: Place) -> DataFrame:
    """The task of the last row fails in each of its attempts, after the others are done."""
    return place.rows().selectExpr(f"IF(id = 59, {SIMULATED}, id) AS id", "text", "p")


def failing_once(place: Place) -> DataFrame:
    """The task of the last row fails in its first attempt of this JVM, after most of its rows."""
    is_first = f"java_method('java.lang.System', 'setProperty', '{place.table}', 'failed') = 'null'"
    return place.rows().selectExpr(f"IF(id = 59 AND {is_first}, {SIMULATED}, id) AS id", "text", "p")


WRITES: dict[str, Callable[[DataFrameWriter, str], None]] = {
    "a write": lambda writer, dest: writer.partitionBy("p").parquet(dest),
    "a write of json": lambda writer, dest: writer.json(dest),
    "an append": lambda writer, dest: writer.mode("append").partitionBy("p").parquet(dest),
    "an overwrite": lambda writer, dest: writer.mode("overwrite").partitionBy("p").parquet(dest),
    "a dynamic overwrite": lambda writer, dest: WRITES["an overwrite"](
        writer.option("partitionOverwriteMode", "dynamic"), dest
    ),
}
TABLES: dict[str, tuple[str, ...]] = {
    "INSERT INTO": ("INSERT INTO {t} SELECT * FROM failing",),
    "INSERT OVERWRITE": ("INSERT OVERWRITE {t} SELECT * FROM failing",),
    "INSERT OVERWRITE of a partition": (
        "INSERT OVERWRITE {t} PARTITION (p = 1) SELECT id, text FROM failing",
    ),
    "INSERT OVERWRITE of a partition elsewhere": (
        "ALTER TABLE {t} ADD PARTITION (p = 9) LOCATION '{dest}-elsewhere'",
        "INSERT INTO {t} PARTITION (p = 9) SELECT id, text FROM more",
        "INSERT OVERWRITE {t} PARTITION (p = 9) SELECT id, text FROM failing",
    ),
    "CREATE TABLE AS": ("CREATE TABLE {t}_2 USING parquet AS SELECT * FROM failing",),
}


def _fill(place: Place) -> None:
    place.rows(120, tasks=1).write.mode("append").partitionBy("p").parquet(place.dest)


def _on_files(name: str, rows: Callable[[Place], DataFrame], *, fails: bool) -> Write:
    write = WRITES[name]

    def run(place: Place) -> DataFrame | None:
        if not name.startswith("a write"):
            _fill(place)
        with place.refused() if fails else nullcontext():
            write(rows(place).write, place.dest)
        return place.files("json" if name == "a write of json" else "parquet")

    return run


def _on_a_table(texts: tuple[str, ...]) -> Write:
    def run(place: Place) -> DataFrame | None:
        place.views(*texts)
        failing(place).createOrReplaceTempView("failing")
        place.rows().write.option("path", place.dest).partitionBy("p").saveAsTable(place.table)
        *before, last = texts
        place.sql(*before, f"refused: {last}")
        return place.read_table()

    return run


for _name in WRITES:
    _keeps = (OLD_DATA_STAYS,) if _name == "an overwrite" else ()
    _for_good, _once = _on_files(_name, failing, fails=True), _on_files(_name, failing_once, fails=False)
    add(
        f"a task that fails for good, {_name}",
        _for_good,
        differs=(*_keeps, STOPPING_TASKS),
        commits=not _name.startswith("a write"),
    )
    add(f"a task that fails once, {_name}", _once)
for _name, _texts in TABLES.items():
    _keeps = (OLD_DATA_STAYS,) if "OVERWRITE" in _name else ()
    add(
        f"a task that fails for good, {_name}",
        _on_a_table(_texts),
        differs=(*_keeps, STOPPING_TASKS),
    )


@case(differs=(OLD_DATA_STAYS, STOPPING_TASKS))
def a_task_that_fails_for_good_an_overwrite_of_a_table(place: Place) -> DataFrame | None:
    place.rows().write.option("path", place.dest).partitionBy("p").saveAsTable(place.table)
    rows = failing(place).write.mode("overwrite").option("path", place.dest)
    with place.refused():
        rows.partitionBy("p").saveAsTable(place.table)
    return place.files()


@case(hive=True, differs=(STOPPING_TASKS,))
def a_task_that_fails_for_good_a_table_of_hive(place: Place) -> DataFrame | None:
    place.views("rows")
    failing(place).createOrReplaceTempView("failing")
    place.sql(
        f"CREATE TABLE {{t}} {COLUMNS} STORED AS TEXTFILE LOCATION '{{dest}}'",
        "INSERT INTO {t} PARTITION (p = 1) SELECT id, text FROM rows",
        "refused: INSERT OVERWRITE TABLE {t} PARTITION (p = 1) SELECT id, text FROM failing",
    )
    return place.read_table()


@case(differs=(STOPPING_TASKS,))
def the_write_after_one_that_failed(place: Place) -> DataFrame | None:
    _fill(place)
    with place.refused():
        WRITES["an overwrite"](failing(place).write, place.dest)
    WRITES["an overwrite"](place.rows().write, place.dest)
    return place.files()
