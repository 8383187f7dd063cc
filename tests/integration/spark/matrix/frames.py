"""Tables of the catalog, by frames: `saveAsTable`, `insertInto`, `writeTo`, buckets."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tests.integration.spark.matrix.place import Place, case


@case()
def a_table_in_every_mode(place: Place) -> DataFrame | None:
    for start, mode in (
        (0, "error"),
        (120, "append"),
        (240, "overwrite"),
        (360, "append"),
        (480, "ignore"),
    ):
        place.rows(start).write.mode(mode).partitionBy("p").saveAsTable(place.table)
    with place.refused():
        place.rows().write.partitionBy("p").saveAsTable(place.table)
    return place.read_table()


@case()
def appends_that_do_not_fit_a_table(place: Place) -> DataFrame | None:
    place.rows().write.partitionBy("p").format("parquet").saveAsTable(place.table)
    append = place.rows(120).write.mode("append")
    with place.refused():
        append.partitionBy("p").format("orc").saveAsTable(place.table)
    with place.refused():
        append.partitionBy("text").saveAsTable(place.table)
    with place.refused():
        append.partitionBy("p").bucketBy(2, "id").saveAsTable(place.table)
    with place.refused():
        place.rows().select("id", "p").write.mode("append").partitionBy("p").saveAsTable(place.table)
    with place.refused():
        place.rows().select("id").write.insertInto(place.table)
    with place.refused():
        place.rows().selectExpr("array(id)", "text", "p").write.insertInto(place.table)
    with place.refused():
        append.partitionBy("p").insertInto(place.table)
    with place.refused():
        place.rows().write.insertInto(f"{place.table}_missing")
    return place.read_table()


@case()
def an_append_by_name(place: Place) -> DataFrame | None:
    place.rows().write.partitionBy("p").saveAsTable(place.table)
    place.rows(120).select("p", "text", "id").write.mode("append").partitionBy("p").saveAsTable(
        place.table
    )
    return place.read_table()


@case()
def an_insert_by_position(place: Place) -> DataFrame | None:
    place.rows().write.partitionBy("p").saveAsTable(place.table)
    place.rows(120).selectExpr("id AS x", "text AS y", "p AS z").write.insertInto(place.table)
    place.rows(240).where("p = 1").write.insertInto(place.table, overwrite=True)
    return place.read_table()


@case()
def a_table_of_another_format_in_its_place(place: Place) -> DataFrame | None:
    place.rows().write.partitionBy("p").format("parquet").saveAsTable(place.table)
    place.rows(120).write.mode("overwrite").format("orc").saveAsTable(place.table)
    return place.read_table()


@case()
def an_overwrite_of_the_table_that_is_read(place: Place) -> DataFrame | None:
    place.rows().write.partitionBy("p").saveAsTable(place.table)
    read = place.spark.table(place.table)
    with place.refused():
        read.where("id > 9").write.mode("overwrite").partitionBy("p").saveAsTable(place.table)
    with place.refused():
        read.where("id > 9").write.insertInto(place.table, overwrite=True)
    read.where("p = 1").write.mode("append").partitionBy("p").saveAsTable(place.table)
    return place.read_table()


@case()
def a_managed_table_where_files_are(place: Place) -> DataFrame | None:
    place.rows().write.saveAsTable(place.table)
    location = place.spark.table(place.table).inputFiles()[0].removeprefix("file://").rsplit("/", 1)[0]
    with place.refused():
        place.rows(120).write.saveAsTable(f"{place.table}_2", path=location)
    place.rows(120).write.mode("overwrite").saveAsTable(f"{place.table}_2", path=location)
    return place.read_table(f"{place.table}_2")


@case()
def the_second_version_of_the_api(place: Place) -> DataFrame | None:
    from pyspark.sql.functions import col

    place.rows().writeTo(place.table).using("parquet").partitionedBy(col("p")).create()
    for write in ("append", "overwritePartitions", "createOrReplace"):
        with place.refused():
            getattr(place.rows(120).writeTo(place.table), write)()
    return place.read_table()


@case()
def buckets(place: Place) -> DataFrame | None:
    place.rows().write.bucketBy(3, "id").saveAsTable(place.table)
    place.rows(120).write.mode("append").bucketBy(3, "id").saveAsTable(place.table)
    return place.read_table()


@case()
def sorted_buckets_with_partitions(place: Place) -> DataFrame | None:
    writer = place.rows().write.option("path", place.dest).partitionBy("p").bucketBy(2, "id")
    writer.sortBy("text", "id").format("orc").saveAsTable(place.table)
    place.rows(120).write.insertInto(place.table)
    with place.setting("spark.sql.sources.partitionOverwriteMode", "dynamic"):
        place.rows(240).where("p = 1").write.insertInto(place.table, overwrite=True)
    return place.read_table()


@case()
def buckets_with_few_rows_per_file(place: Place) -> DataFrame | None:
    writer = place.rows().write.option("maxRecordsPerFile", "3").bucketBy(2, "p", "text")
    writer.sortBy("id").saveAsTable(place.table)
    return place.read_table()


@case()
def statistics_of_a_table(place: Place) -> DataFrame | None:
    for _ in range(2):
        place.rows().write.mode("append").partitionBy("p").format("orc").saveAsTable(place.table)
    place.sql("ANALYZE TABLE {t} COMPUTE STATISTICS")
    described = place.spark.sql(f"DESCRIBE TABLE EXTENDED {place.table}").collect()
    place.seen.extend(row["data_type"] for row in described if row["col_name"] == "Statistics")
    return place.read_table()
