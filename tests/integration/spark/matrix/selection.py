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

SPARK = int(pyspark.__version__.split(".", maxsplit=1)[0])


def named(names: list[str]) -> list[Case]:
    """The cases of these names, or all that this version of Spark has."""
    chosen = names or [case.name for case in CASES.values() if case.least_spark <= SPARK]
    return [CASES[name] for name in chosen]
