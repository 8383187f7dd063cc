"""Streams, and writers at the same time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter

from tests.integration.spark.matrix.differences import MARKED
from tests.integration.spark.matrix.place import Place, Write, add, case


def _stream(place: Place) -> DataFrame:
    """A stream of rows that come in files, one per trigger."""
    source = f"{place.home}/source"
    rows = place.rows(tasks=1)
    for _ in range(2):
        with place.by_spark():
            rows.write.mode("append").json(source)
    return place.spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1).json(source)


def _finish(place: Place, writer: DataStreamWriter) -> None:
    writer = writer.option("checkpointLocation", f"{place.home}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


def _batches(mode: str, **options: str) -> Write:
    def run(place: Place) -> DataFrame | None:
        def write(batch: DataFrame, _: int) -> None:
            batch.write.mode(mode).options(**options).partitionBy("p").parquet(place.dest)

        _finish(place, _stream(place).writeStream.foreachBatch(write))
        return place.files()

    return run


add("batches of a stream that append", _batches("append"))
add("batches of a stream that overwrite", _batches("overwrite"))
add(
    "batches of a stream that overwrite partitions",
    _batches("overwrite", partitionOverwriteMode="dynamic"),
    differs=(MARKED,),
)


@case(commits=False)
def the_file_sink_of_a_stream(place: Place) -> DataFrame | None:
    writer = _stream(place).writeStream.format("parquet").option("path", place.dest)
    _finish(place, writer.partitionBy("p"))
    return place.files()


@case(commits=False)
def a_stream_into_a_table(place: Place) -> DataFrame | None:
    stream = _stream(place).writeStream.option("checkpointLocation", f"{place.home}/checkpoint")
    stream.partitionBy("p").trigger(availableNow=True).toTable(place.table).awaitTermination()
    return place.read_table()


@case()
def a_stream_of_what_was_written(place: Place) -> DataFrame | None:
    for start in (0, 120):
        place.rows(start).write.mode("append").partitionBy("p").parquet(place.dest)
    stream = place.spark.readStream.schema(place.rows().schema).parquet(place.dest)
    copied = stream.writeStream.option("checkpointLocation", f"{place.home}/checkpoint")
    copied.trigger(availableNow=True).format("parquet").start(f"{place.home}/copy").awaitTermination()
    return place.spark.read.parquet(f"{place.home}/copy")


def _together(place: Place, *writes: Callable[[], None]) -> None:
    """Do our writes at the same time; Spark's own committer loses files there, so one after another."""
    with ThreadPoolExecutor(len(writes) if place.is_ours else 1) as threads:
        list(threads.map(lambda write: write(), writes))


@case()
def writers_to_different_partitions(place: Place) -> DataFrame | None:
    def write(partition: int) -> Callable[[], None]:
        rows = (
            place.rows()
            .where("p = 1")
            .selectExpr("id", "text", f"{partition} AS p")
            .write.partitionBy("p")
        )
        overwrite = rows.mode("overwrite").option("partitionOverwriteMode", "dynamic")
        return lambda: overwrite.parquet(place.dest)

    place.rows(120, tasks=1).write.partitionBy("p").parquet(place.dest)
    _together(place, *(write(partition) for partition in (1, 2, 3)))
    return place.files()


@case()
def writers_that_append(place: Place) -> DataFrame | None:
    def write(start: int) -> Callable[[], None]:
        return lambda: place.rows(start).write.mode("append").partitionBy("p").parquet(place.dest)

    _together(place, *(write(start) for start in (0, 120, 240)))
    return place.files()


@case()
def writers_to_directories_of_one_table(place: Place) -> DataFrame | None:
    def write(partition: int) -> Callable[[], None]:
        return lambda: (
            place.rows().drop("p").write.mode("overwrite").parquet(f"{place.dest}/p={partition}")
        )

    _together(place, *(write(partition) for partition in (1, 2, 3)))
    return place.files()
