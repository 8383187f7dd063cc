"""Which cases a run has."""

from __future__ import annotations

import pyspark

from tests.integration.spark.matrix import (  # noqa: F401 - they register their cases
    failures,
    frames,
    hive,
    inserts,
    obstacles,
    partitions,
    paths,
    streams,
    tables,
)
from tests.integration.spark.matrix.place import CASES, Case
from tests.integration.spark.matrix.products import pairs, triples

SPARK = int(pyspark.__version__.split(".", maxsplit=1)[0])
ALL = [case for case in CASES.values() if case.least_spark <= SPARK]


def everyday() -> list[Case]:
    """What `make test` tries: of the most used kinds and of the pairs of values one in 24; with another
    version of Spark, others."""
    return [*pairs(), *(case for case in ALL if not case.wide and not case.hive)][SPARK % 24 :: 24]


def _half(cases: list[Case]) -> list[Case]:
    """The cases of this version of Spark, if two versions share them."""
    return cases[SPARK % 2 :: 2]


GROUPS = {
    "everyday": everyday,
    "all": lambda: [*ALL, *pairs()],
    "pairs": pairs,
    "triples": lambda: _half(triples()),
}


def named(names: list[str]) -> list[Case]:
    """The cases of these names and groups."""
    return [
        case
        for name in names or ["all"]
        for case in (GROUPS[name]() if name in GROUPS else [CASES[name]])
    ]
