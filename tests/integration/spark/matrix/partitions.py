"""Values and columns by which rows are partitioned: written, then overwritten in part."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tests.integration.spark.matrix.differences import STOPPING_TASKS
from tests.integration.spark.matrix.place import GROUP, Place, Write, add, case, one_of

VALUES = {
    "spaces": one_of("' a'", "'b '", "'c  d'", "' '"),
    "percents": one_of("'100%'", "'%41'", "'%2F'", "'%'"),
    "separators": one_of("'x:y'", "'a=b'", "'c/d'", "'/'"),
    "quotes": one_of("'it''s'", "'\"so\"'", "'back\\\\slash'", "'`'"),
    "glob characters": one_of("'[a]'", "'{b,c}'", "'*'", "'?'"),
    "other escaped characters": one_of("'#'", "'^'", "char(127)", "']'"),
    "control characters": one_of("char(1)", "char(10)", "char(9)", "char(31)"),
    "dots": one_of("'.'", "'..'", "'.hidden'", "'a.'"),
    "names of hidden files": one_of("'_SUCCESS'", "'_temporary'", "'_x'", "'.spark-staging-1'"),
    "the name of null": one_of("'__HIVE_DEFAULT_PARTITION__'", "'null'", "'NULL'", "NULL"),
    "nothing": one_of("''", "' '", "'\u00a0'", "NULL"),
    "letters": one_of("'é'", "'e\u0301'", "'日本'", "'Ω'"),
    "emoji": one_of("'😀'", "'👩‍👩‍👧'", "'\u200f\u05d0'", "'\ufeff'"),
    "upper and lower case": one_of("'a'", "'A'", "'b'", "'B'"),
    "digits": one_of("'007'", "'1e3'", "'-0'", "'+1'"),
    "long names": one_of("repeat('x', 200)", "repeat('日', 66)", "repeat('%', 60)", "'x'"),
    "dates": f"date_add(DATE'2026-02-27', {GROUP})",
    "timestamps": f"TIMESTAMP'2026-02-28 23:59:58.000001' + make_interval(0, 0, 0, 0, 0, 0, {GROUP})",
    "timestamps without a zone": f"TIMESTAMP_NTZ'2026-02-28 23:59:58' + make_interval(0, 0, 0, {GROUP})",
    "decimals": f"CAST({GROUP} - 1.50 AS DECIMAL(38, 10))",
    "booleans": f"{GROUP} < 2",
    "doubles": one_of("CAST('NaN' AS DOUBLE)", "-0.0D", "1e300D", "CAST('-Infinity' AS DOUBLE)"),
    "small integers": f"CAST({GROUP} - 128 AS TINYINT)",
    "binary": "CAST(" + one_of("'a'", "'b/c'", "'é'", "''") + " AS BINARY)",
    "broken text": "CAST(" + one_of("X'ff'", "X'fe41'", "X'c3'", "X'41'") + " AS STRING)",
}
NAMES = ("a b", "a%b", "_hidden", ".dot", "日本", "a:b", "a=b", "a/b", "CASE", "p.q", "x'y", "[1]")


def _by(expression: str, name: str = "p") -> Write:
    def write(place: Place) -> DataFrame | None:
        rows = place.rows().withColumnRenamed("p", "was").selectExpr("*", f"{expression} AS `{name}`")
        rows.write.partitionBy(name).parquet(place.dest)
        some = rows.where("id < 20").write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
        some.partitionBy(name).parquet(place.dest)
        return place.files()

    return write


for _name, _expression in VALUES.items():
    add(f"partitions of {_name}", _by(_expression))
for _name in NAMES:
    add(f"a partition column {_name}", _by(GROUP, _name))


@case()
def partition_columns_that_differ_in_case(place: Place) -> DataFrame | None:
    with place.setting("spark.sql.caseSensitive", "true"):
        rows = place.rows(0, "p", "q").withColumnRenamed("q", "P")
        rows.write.partitionBy("p", "P").parquet(place.dest)
        rows.where("id < 20").write.mode("append").partitionBy("p", "P").parquet(place.dest)
        read = place.files()
        read.schema  # noqa: B018 - analyzed while the setting holds
        return read


@case()
def a_partition_column_in_another_case(place: Place) -> DataFrame | None:
    for mode in ("append", "overwrite"):
        place.rows().write.mode(mode).partitionBy("P").parquet(place.dest)
    return place.files()


@case()
def three_partition_columns_in_another_order(place: Place) -> DataFrame | None:
    place.rows(0, "p", "q", "day").write.partitionBy("day", "q", "p").parquet(place.dest)
    return place.files()


@case()
def rows_that_are_sorted_by_partition(place: Place) -> DataFrame | None:
    rows = place.rows(0, "p", "q").repartition(2, "p").sortWithinPartitions("p", "id")
    rows.write.partitionBy("p", "q").parquet(place.dest)
    return place.files()


@case()
def rows_in_ranges_of_partitions(place: Place) -> DataFrame | None:
    place.rows().repartitionByRange(4, "p").write.partitionBy("p").parquet(place.dest)
    return place.files()


@case()
def two_tasks_at_one_partition_each(place: Place) -> DataFrame | None:
    with place.setting("spark.sql.maxConcurrentOutputFileWriters", "2"):
        place.rows(0, "odd").write.partitionBy("odd").parquet(place.dest)
    return place.files()


@case(commits=False)
def partitions_that_spark_refuses(place: Place) -> DataFrame | None:
    rows = place.rows(0, "p", "q")
    for columns in (["missing"], ["p", "p"], ["id", "text", "p", "q"]):
        with place.refused():
            rows.write.partitionBy(*columns).parquet(place.dest)
    with place.refused():
        rows.selectExpr("id", "array(p) AS p").write.partitionBy("p").parquet(place.dest)
    return rows


@case(differs=(STOPPING_TASKS,))
def a_partition_of_a_name_that_is_too_long(place: Place) -> DataFrame | None:
    with place.refused():
        place.rows().selectExpr("id", "repeat('x', 300) AS p").write.partitionBy("p").parquet(place.dest)
    return place.rows()
