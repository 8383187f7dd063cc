"""Destinations that are not empty: other layouts, hidden files, files where directories must go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame

from tests.integration.spark.matrix.differences import (
    MARKED,
    NO_FILE_DELETED,
    NO_LINKS,
    NOTHING_DONE,
    OTHERS_JOBS,
    OWN_ERROR,
    READS_ITSELF,
    SAME_DIRECTORIES,
    Difference,
)
from tests.integration.spark.matrix.place import Place, Write, add, case

MODES: dict[str, tuple[str, dict[str, str]]] = {
    "append": ("append", {}),
    "overwrite": ("overwrite", {}),
    "dynamic overwrite": ("overwrite", {"partitionOverwriteMode": "dynamic"}),
}
Before = Callable[[Place], object]


def _rows(*columns: str, file_format: str = "parquet") -> Before:
    def write(place: Place) -> None:
        place.rows(120, tasks=1).write.partitionBy(*columns).format(file_format).save(place.dest)

    return write


def _files(*names: str) -> Before:
    def write(place: Place) -> None:
        for name in names:
            path = Path(place.dest, name)
            place.make_directory(path.parent)
            path.write_text("what was there")
            path.chmod(0o644)

    return write


def _file_in_place_of_the_parent(place: Place) -> None:
    place.make_directory(place.home.parent)
    place.home.write_text("what was there")


def _stream(place: Place) -> None:
    source = f"{place.home}/source"
    place.rows(120, tasks=1).write.json(source)
    stream = place.spark.readStream.schema(place.rows().schema).json(source).writeStream
    stream = stream.option("checkpointLocation", f"{place.home}/checkpoint").partitionBy("p")
    stream.format("parquet").trigger(availableNow=True).start(place.dest).awaitTermination()


def _other_permissions(place: Place) -> None:
    _rows("p")(place)
    Path(place.dest).chmod(0o700)
    Path(place.dest, "p=1").chmod(0o2770)


def _link_to_a_partition(place: Place) -> None:
    place.make_directory(place.home / "real")
    place.make_directory(Path(place.dest))
    Path(place.dest, "p=1").symlink_to(place.home / "real")


MARKED_BEFORE: dict[str, Before] = {
    "rows without partitions": _rows(),
    "rows by another column": _rows("text"),
    "rows by the same column": _rows("p"),
    "rows of another format": _rows("p", file_format="json"),
    "directories with other permissions": _other_permissions,
    "a marker": _files("_SUCCESS"),
    "a directory in place of the marker": _files("_SUCCESS/x"),
    "a file in place of the destination": _files(""),
    "a file in place of the parent": _file_in_place_of_the_parent,
}
BEFORE: dict[str, Before] = MARKED_BEFORE | {
    "a hidden file": _files(".hidden"),
    "an underscored file": _files("_old"),
    "hidden directories": _files("_a/x", ".b/x", "p=1/_c"),
    "a table's log": _files("_delta_log/00000000000000000000.json"),
    "somebody's _temporary": _files("_temporary/0/_temporary/x"),
    "somebody's staging directory": _files(".spark-staging-1/p=1/x"),
    "an empty directory": lambda place: place.make_directory(Path(place.dest, "p=7")),
    "a directory of another kind": _files("notes/today.txt"),
    "a deep directory in a partition": _files("p=1/q=2/today.txt"),
    "a file in place of a partition": _files("p=1"),
    "what a stream wrote": _stream,
    "a link to a partition": _link_to_a_partition,
}
MARKER_REFUSED = replace(
    MARKED, lines=(("errors", "theirs", "0: done"), ("errors", "ours", ".*IOException"))
)
DIFFERS: dict[str, tuple[Difference, ...]] = {
    "append over somebody's _temporary": (OTHERS_JOBS,),
    "overwrite over somebody's _temporary": (OTHERS_JOBS,),
    "overwrite over somebody's staging directory": (OTHERS_JOBS,),
    "overwrite over directories with other permissions": (SAME_DIRECTORIES,),
    "dynamic overwrite over directories with other permissions": (SAME_DIRECTORIES,),
    "append over a directory in place of the marker": (NOTHING_DONE, OWN_ERROR),
    "dynamic overwrite over a directory in place of the marker": (NOTHING_DONE, MARKER_REFUSED),
    **{f"{mode} over a file in place of a partition": (NO_FILE_DELETED,) for mode in MODES},
    "overwrite over a file in place of the destination": (NO_FILE_DELETED,),
    "append over a file in place of the destination": (OWN_ERROR,),
    "dynamic overwrite over a file in place of the destination": (OWN_ERROR,),
    "append over a file in place of the parent": (OWN_ERROR,),
    "overwrite over a file in place of the parent": (OWN_ERROR,),
    "dynamic overwrite over a file in place of the parent": (OWN_ERROR,),
    **{f"{mode} over a link to a partition": (NO_LINKS,) for mode in MODES},
}


def _over(before: Before, mode: str, options: dict[str, str]) -> Write:
    def write(place: Place) -> DataFrame | None:
        before(place)
        rows = place.rows().where("id < 40")
        with place.tried():
            rows.write.mode(mode).options(**options).partitionBy("p").parquet(place.dest)
        return place.files(schema=rows.schema)

    return write


for _name, _before in BEFORE.items():
    for _mode, (_plain, _options) in MODES.items():
        _case = f"{_mode} over {_name}"
        _is_marked = _mode == "dynamic overwrite" and _name not in MARKED_BEFORE
        add(
            _case,
            _over(_before, _plain, _options),
            differs=DIFFERS.get(_case, (MARKED,) if _is_marked else ()),
            commits="of the parent" not in _name and "of the destination" not in _name,
        )


@case()
def an_overwrite_without_partitions(place: Place) -> DataFrame | None:
    _rows("p")(place)
    place.rows().write.mode("overwrite").orc(place.dest)
    return place.files("orc")


@case()
def an_overwrite_with_nothing(place: Place) -> DataFrame | None:
    _rows("p")(place)
    place.rows().where("id < 0").write.mode("overwrite").partitionBy("p").parquet(place.dest)
    return place.files(schema=place.rows().schema)


@case()
def an_overwrite_with_nothing_without_partitions(place: Place) -> DataFrame | None:
    _rows()(place)
    place.rows().where("id < 0").write.mode("overwrite").parquet(place.dest)
    return place.files()


@case()
def a_dynamic_overwrite_with_nothing(place: Place) -> DataFrame | None:
    _rows("p")(place)
    nothing = place.rows().where("id < 0").write.mode("overwrite").partitionBy("p")
    nothing.option("partitionOverwriteMode", "dynamic").parquet(place.dest)
    return place.files()


@case()
def an_overwrite_of_a_partitions_directory(place: Place) -> DataFrame | None:
    _rows("p")(place)
    place.rows().drop("p").write.mode("overwrite").parquet(f"{place.dest}/p=1")
    return place.files()


@case(differs=(READS_ITSELF,))
def an_overwrite_of_what_is_read(place: Place) -> DataFrame | None:
    _rows("p")(place)
    with place.tried():
        place.files().where("id > 130").write.mode("overwrite").partitionBy("p").parquet(place.dest)
    return place.files()


@case()
def a_dynamic_overwrite_of_what_is_read(place: Place) -> DataFrame | None:
    _rows("p")(place)
    some = place.files().where("p = 1").selectExpr("id + 1000 AS id", "text", "p")
    dynamic = some.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    dynamic.partitionBy("p").parquet(place.dest)
    return place.files()


@case()
def an_append_to_what_is_read(place: Place) -> DataFrame | None:
    _rows("p")(place)
    place.files().where("p = 1").write.mode("append").partitionBy("p").parquet(place.dest)
    return place.files()


@case()
def modes_of_a_destination_that_exists(place: Place) -> DataFrame | None:
    _rows()(place)
    for mode in ("error", "errorifexists", "default"):
        with place.refused():
            place.rows().write.mode(mode).parquet(place.dest)
    place.rows().write.mode("ignore").parquet(place.dest)
    return place.files()


@case(commits=False)
def modes_of_a_destination_that_is_a_file(place: Place) -> DataFrame | None:
    _files("")(place)
    with place.refused():
        place.rows().write.mode("error").parquet(place.dest)
    place.rows().write.mode("ignore").parquet(place.dest)
    return None
