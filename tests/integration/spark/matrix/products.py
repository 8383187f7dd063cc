"""Cases that combine a format, a codec, a target, what was there before, a mode and partitions.

`covering` chooses few combinations that hold every pair of values, or every three.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from itertools import combinations, product
from pathlib import Path
from random import Random

from pyspark.sql import DataFrame, DataFrameWriter

from tests.integration.spark.matrix.differences import MARKED, Difference
from tests.integration.spark.matrix.place import Case, Place

Combination = dict[str, str]

PARQUET = {"gzip": "gzip", "zstd": "zstd", "lz4": "lz4", "snappy": "snappy", "none": "uncompressed"}
TEXT = {"gzip": "gzip", "zstd": "bzip2", "lz4": "lz4", "snappy": "deflate", "none": "none"}
CODECS = {
    "parquet": PARQUET,
    "orc": PARQUET | {"gzip": "zlib"},
    "csv": TEXT,
    "json": TEXT,
    "text": TEXT,
}
"""What a format has for a codec, or in its place."""

OPTION = "partitionOverwriteMode"
ROWS = ("rows", "rows by Spark's committer")
DYNAMIC = ("overwrite with the option dynamic", "overwrite in a dynamic session")
AXES: dict[str, tuple[str, ...]] = {
    "format": tuple(CODECS),
    "codec": ("default", "none", "gzip", "zstd", "lz4", "snappy"),
    "target": ("path", "table with a path", "managed table", "insertInto", "INSERT"),
    "before": ("nothing", "an empty directory", *ROWS),
    "mode": ("append", "overwrite", *DYNAMIC, "error", "ignore"),
    "columns": ("none", "p", "p q", "odd", "blank", "day flag", "moment", "amount", "long"),
}


def is_valid(combination: Mapping[str, str]) -> bool:
    """Whether Spark has such a write at all."""
    target, mode = combination["target"], combination["mode"]
    if target in ("insertInto", "INSERT"):
        return mode not in ("error", "ignore", DYNAMIC[0])
    return target != "managed table" or combination["before"] != "an empty directory"


def pairs() -> list[Case]:
    return [_case(one) for one in covering(AXES, is_valid, 2)]


def triples() -> list[Case]:
    return [_case(one) for one in covering(AXES, is_valid, 3)]


def covering(
    axes: Mapping[str, Sequence[str]], valid: Callable[[Mapping[str, str]], bool], strength: int
) -> list[Combination]:
    """Choose combinations until each `strength` values that go together are in one, the best first."""
    whole = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    whole = [one for one in whole if valid(one)]
    Random(0).shuffle(whole)
    seen: set[frozenset[tuple[str, str]]] = set()
    best = [(-len(list(_parts(one, strength))), number) for number, one in enumerate(whole)]
    heapq.heapify(best)
    chosen = []
    while best:
        promised, number = best[0]
        new = set(_parts(whole[number], strength)) - seen
        if -promised == len(new):
            chosen.append(whole[number])
            seen |= new
            heapq.heappop(best)
        elif new:
            heapq.heapreplace(best, (-len(new), number))
        else:
            heapq.heappop(best)
    return chosen


def _parts(combination: Combination, strength: int) -> Iterable[frozenset[tuple[str, str]]]:
    return map(frozenset, combinations(combination.items(), strength))


def _case(combination: Combination) -> Case:
    write = _Write(combination)
    return Case(
        ", ".join(combination.values()),
        write,
        differs=write.differences(),
        commits=combination["before"] == "rows" or not write.does_nothing(),
    )


class _Write:
    """The write of a combination."""

    def __init__(self, combination: Combination) -> None:
        self.format, codec = combination["format"], combination["codec"]
        self.codec = CODECS[self.format].get(codec)
        self.target, self.before, self.mode = (
            combination[name] for name in ("target", "before", "mode")
        )
        self.columns = [] if combination["columns"] == "none" else combination["columns"].split()

    def does_nothing(self) -> bool:
        there = self.before in ROWS or (self.before == "an empty directory" and self.target == "path")
        return there and self.mode in ("error", "ignore")

    def differences(self) -> tuple[Difference, ...]:
        is_marked_before = self.before in ROWS and self.target != "managed table"
        return (MARKED,) if self.mode in DYNAMIC and self.columns and not is_marked_before else ()

    def __call__(self, place: Place) -> DataFrame | None:
        old, new = self.rows(place, 120, tasks=1), self.rows(place, 0).where("id < 40")
        if self.format == "text":
            old, new = old.drop("id"), new.drop("id")
        if self.before == "an empty directory":
            place.make_directory(Path(place.dest))
        if self.target in ("insertInto", "INSERT"):
            self.create(place, new)
        if self.before in ROWS:
            with place.by_spark() if self.before == ROWS[1] else nullcontext():
                self.save(place, old, "append")
        with place.refused() if self.mode == "error" and self.does_nothing() else nullcontext():
            self.save(place, new, self.mode)
        return place.files(self.format, new.schema) if self.target == "path" else place.read_table()

    def rows(self, place: Place, start: int, **more: int) -> DataFrame:
        return (
            place.rows(start, *self.columns, **more)
            if self.columns
            else place.rows(start, **more).drop("p")
        )

    def create(self, place: Place, frame: DataFrame) -> None:
        schema = ", ".join(f"{one.name} {one.dataType.simpleString()}" for one in frame.schema)
        by = f"PARTITIONED BY ({', '.join(self.columns)})" if self.columns else ""
        options = f"OPTIONS (compression '{self.codec}')" if self.codec else ""
        place.sql(
            f"CREATE TABLE {{t}} ({schema}) USING {self.format} {options} {by} LOCATION '{{dest}}'"
        )

    def save(self, place: Place, frame: DataFrame, mode: str) -> None:
        writer = frame.write.mode("overwrite" if mode in DYNAMIC else mode)
        if mode == DYNAMIC[0]:
            writer = writer.option(OPTION, "dynamic")
        with place.setting(f"spark.sql.sources.{OPTION}", "dynamic" if mode == DYNAMIC[1] else "static"):
            if self.target == "INSERT":
                frame.createOrReplaceTempView("rows")
                place.sql(
                    f"INSERT {'INTO' if mode == 'append' else 'OVERWRITE'} {{t}} SELECT * FROM rows"
                )
            elif self.target == "insertInto":
                writer.insertInto(place.table)
            else:
                self.save_as(place, writer.format(self.format).partitionBy(*self.columns))

    def save_as(self, place: Place, writer: DataFrameWriter) -> None:
        if self.codec:
            writer = writer.option("compression", self.codec)
        if self.target == "path":
            writer.save(place.dest)
        elif self.target == "managed table":
            writer.saveAsTable(place.table)
        else:
            writer.option("path", place.dest).saveAsTable(place.table)
