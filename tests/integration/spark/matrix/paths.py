"""Writes to paths: how many tasks and files, what rows, which options, how the path is spelled."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame

from tests.integration.spark.matrix.differences import NO_SUMMARIES
from tests.integration.spark.matrix.place import Place, Write, add, case

FORMATS = ("parquet", "orc", "csv", "json", "text")

LAYOUTS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "one task": lambda rows: rows.coalesce(1),
    "more tasks than values": lambda rows: rows.repartition(7, "p"),
    "an empty task among others": lambda rows: rows.where("id < 20 OR id >= 40"),
    "tasks that are all empty": lambda rows: rows.where("id < 0"),
    "no task": lambda rows: rows.sparkSession.createDataFrame([], rows.schema),
    "a limit": lambda rows: rows.limit(5),
    "a union": lambda rows: rows.union(rows.where("id < 20")),
    "an aggregation": lambda rows: rows.groupBy("text", "p").count().withColumnRenamed("count", "id"),
    "a cached frame": lambda rows: rows.cache(),
}


def _layout(change: Callable[[DataFrame], DataFrame]) -> Write:
    def write(place: Place) -> DataFrame | None:
        rows = change(place.rows())
        rows.write.parquet(place.dest)
        rows.write.partitionBy("p").orc(f"{place.dest}/nested")
        return place.spark.read.schema(rows.schema).orc(f"{place.dest}/nested")

    return write


for _name, _change in LAYOUTS.items():
    add(_name, _layout(_change))


def _nothing(file_format: str) -> Write:
    def write(place: Place) -> DataFrame | None:
        rows = place.rows().selectExpr("text", "CAST(p AS STRING) AS p").where("text IS NULL")
        rows.drop("p").write.format(file_format).save(place.dest)
        rows.write.format(file_format).partitionBy("p").save(f"{place.dest}-partitioned")
        return place.files(file_format, rows.schema)

    return write


for _format in FORMATS:
    add(f"{_format} of no rows", _nothing(_format))


OPTIONS: dict[str, tuple[str, dict[str, str]]] = {
    "csv with a header": ("csv", {"header": "true", "sep": ";", "nullValue": "-"}),
    "csv in another encoding": ("csv", {"encoding": "UTF-16LE", "header": "true"}),
    "csv with another extension": ("csv", {"extension": "tsv", "sep": "\t"}),
    "csv by its alias": ("com.databricks.spark.csv", {}),
    "json with another line end": ("json", {"lineSep": "\r\n", "ignoreNullFields": "false"}),
    "text with snappy": ("text", {"compression": "snappy"}),
    "text with a codec's class": ("text", {"compression": "org.apache.hadoop.io.compress.GzipCodec"}),
    "parquet by its own option": ("parquet", {"parquet.compression": "gzip"}),
    "parquet with small row groups": ("parquet", {"parquet.block.size": "1024"}),
    "parquet of old": (
        "parquet",
        {"parquet.enable.dictionary": "false", "parquet.writer.version": "v1"},
    ),
    "orc by its own option": ("orc", {"orc.compress": "ZSTD"}),
    "orc of Hive": ("org.apache.spark.sql.hive.orc", {}),
    "few rows per file": ("parquet", {"maxRecordsPerFile": "7"}),
    "no marker": ("json", {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}),
    "the second algorithm": ("json", {"mapreduce.fileoutputcommitter.algorithm.version": "2"}),
    "parquet summaries": ("parquet", {"parquet.summary.metadata.level": "ALL"}),
}


def _options(file_format: str, options: dict[str, str]) -> Write:
    def write(place: Place) -> DataFrame | None:
        rows = place.rows().select("text", "p")
        for mode in ("append", "append", "overwrite"):
            rows.write.mode(mode).format(file_format).options(**options).partitionBy("p").save(
                place.dest
            )
        return (
            place.spark.read.format(file_format).options(**options).schema(rows.schema).load(place.dest)
        )

    return write


for _name, (_format, _given) in OPTIONS.items():
    _differs = (NO_SUMMARIES,) if _name == "parquet summaries" else ()
    add(_name, _options(_format, _given), differs=_differs)


@case(least_spark=4)
def xml(place: Place) -> DataFrame | None:
    rows = place.rows()
    for mode in ("append", "overwrite", "append"):
        rows.write.mode(mode).format("xml").option("rowTag", "row").partitionBy("p").save(place.dest)
    return place.spark.read.schema(rows.schema).option("rowTag", "row").format("xml").load(place.dest)


@case()
def few_rows_per_file_and_partitions_by_the_session(place: Place) -> DataFrame | None:
    with place.setting("spark.sql.files.maxRecordsPerFile", "4"):
        place.rows().write.partitionBy("p").csv(place.dest)
    return place.files("csv", place.rows().schema)


@case()
def columns_of_columns(place: Place) -> DataFrame | None:
    nested = place.rows().selectExpr(
        "id",
        "named_struct('a', id, 'b', named_struct('c', text)) AS s",
        "array(id, NULL) AS l",
        "map(text, array(named_struct('x', p))) AS m",
        "CAST(text AS BINARY) AS bytes",
        "p",
    )
    for file_format in ("parquet", "orc", "json"):
        nested.write.partitionBy("p").format(file_format).save(f"{place.dest}/{file_format}")
    return place.spark.read.parquet(f"{place.dest}/parquet")


@case(commits=False)
def rows_that_a_format_cannot_hold(place: Place) -> DataFrame | None:
    rows = place.rows().selectExpr("id", "array(id) AS l", "text", "p")
    intervals = rows.selectExpr("make_interval(id) AS i")
    for file_format, columns in (
        ("text", ["id"]),
        ("text", ["text", "id"]),
        ("csv", ["l"]),
        ("binaryFile", ["text"]),
        ("nonsense", ["text"]),
        ("text", []),
    ):
        with place.refused():
            rows.select(*columns).write.format(file_format).save(place.dest)
    for file_format in ("parquet", "orc"):
        with place.refused():
            intervals.write.format(file_format).save(place.dest)
        with place.refused():
            rows.select("id", rows["id"].alias("ID")).write.format(file_format).save(place.dest)
    with place.refused():
        rows.select("text").write.option("compression", "nonsense").parquet(place.dest)
    with place.refused():
        rows.select("text").write.bucketBy(2, "text").parquet(place.dest)
    with place.refused():
        rows.select("text").write.mode("nonsense").parquet(place.dest)
    return None


SPELLINGS: dict[str, str] = {
    "a slash at the end": "{dest}/",
    "a path with a scheme": "file:{dest}",
    "a path with a scheme and an authority": "file://{dest}",
    "slashes twice": "{home}//dest//more",
    "a path with dots": "{home}/x/../dest/./more",
    "spaces and percents": "{home}/a b/c %20 100%+d",
    "other letters": "{home}/Ünï/日本/😀",
    "signs": "{home}/it's #1? (x;y) & z=1",
    "a name with brackets": "{home}/[a]{{b}}",
    "a name like a partition's": "{home}/day=2026-01-31",
    "a hidden destination": "{home}/_hidden",
}


def _spelled(spelling: str) -> Write:
    def write(place: Place) -> DataFrame | None:
        path = spelling.format(dest=place.dest, home=place.home)
        for mode in ("error", "append", "overwrite"):
            place.rows().write.mode(mode).partitionBy("p").parquet(path)
        return place.rows()

    return write


for _name, _spelling in SPELLINGS.items():
    add(_name, _spelled(_spelling))


@case()
def a_path_with_a_colon(place: Place) -> DataFrame | None:
    for mode in ("error", "append", "overwrite"):
        with place.tried():
            place.rows().write.mode(mode).parquet(f"{place.home}/a:b")
    return None


@case()
def a_relative_path(place: Place) -> DataFrame | None:
    relative = os.path.relpath(place.dest)
    for mode in ("append", "overwrite"):
        place.rows().write.mode(mode).parquet(relative)
    return place.spark.read.parquet(relative)


@case()
def an_option_for_the_path(place: Place) -> DataFrame | None:
    place.rows().write.option("path", place.dest).format("orc").save()
    return place.files("orc")


@case()
def a_link_to_a_directory(place: Place) -> DataFrame | None:
    real = place.home / "real"
    real.mkdir(parents=True)
    Path(place.dest).symlink_to(real)
    for mode in ("append", "append"):
        place.rows().write.mode(mode).partitionBy("p").parquet(place.dest)
    return place.files()


@case()
def the_second_version_of_file_sources(place: Place) -> DataFrame | None:
    with place.setting("spark.sql.sources.useV1SourceList", ""):
        for file_format in ("parquet", "json"):
            for mode in ("append", "append", "overwrite"):
                rows = place.rows().write.mode(mode).partitionBy("p").format(file_format)
                rows.save(f"{place.dest}/{file_format}")
        read = place.spark.read.parquet(f"{place.dest}/parquet")
        read.schema  # noqa: B018 - analyzed while the setting holds
        return read


@case(commits=False)
def a_text_file_of_an_rdd(place: Place) -> DataFrame | None:
    place.rows()._jdf.toJavaRDD().saveAsTextFile(place.dest)
    return place.files("text")


@case()
def a_model_of_spark_ml(place: Place) -> DataFrame | None:
    from pyspark.ml.feature import StringIndexerModel

    model = StringIndexerModel.from_labels(["a", "b"], inputCol="text", outputCol="number")
    for _ in range(2):
        model.write().overwrite().save(place.dest)
    assert StringIndexerModel.load(place.dest).labels == ["a", "b"]
    return place.spark.read.parquet(f"{place.dest}/data")


@case()
def features_of_spark_ml(place: Place) -> DataFrame | None:
    from pyspark.ml.feature import VectorAssembler

    numbers = place.rows().selectExpr("CAST(id AS DOUBLE) AS label", "CAST(id AS DOUBLE) AS x")
    vectors = VectorAssembler(inputCols=["x"], outputCol="features").transform(numbers)
    vectors.select("label", "features").write.format("libsvm").save(place.dest)
    return place.spark.read.option("numFeatures", "1").format("libsvm").load(place.dest)
