"""The classes of Spark, parsed and verified once for all JVMs of the tests (class data sharing).

Nearly half of what a short Spark session computes is loading classes. ``python -m
tests.servers.class_archive`` writes them to a file, for the Java and the PySpark of its environment; a
JVM that is given the file maps it. One with other jars or of another version passes it over.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache" / "classes"
SECONDS = 240

# Short-lived JVMs: an optimizing compiler takes two fifths of what they compute and repays nothing.
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_WRITES = """
import os, sys
from pyspark.sql import SparkSession
from ray_committer.spark import install

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.catalogImplementation", "hive")
spark = builder.config("spark.sql.sources.partitionOverwriteMode", "dynamic").getOrCreate()
install(spark)
rows = spark.range(20, numPartitions=2).selectExpr("id", "id % 2 AS p", "CAST(id AS STRING) AS text")
for kind in ("parquet", "orc", "csv", "json"):
    for mode in ("append", "overwrite"):
        rows.write.mode(mode).partitionBy("p").format(kind).save(kind)
    spark.read.schema(rows.schema).format(kind).load(kind).distinct().count()
rows.createOrReplaceTempView("rows")
spark.sql("CREATE TABLE t USING parquet PARTITIONED BY (p) AS SELECT * FROM rows")
spark.sql("INSERT OVERWRITE t PARTITION (p = 1) SELECT id, text FROM rows")
spark.sql("SELECT count(*), sum(id) FROM t").collect()
gateway = spark.sparkContext._gateway
spark.stop()
gateway.shutdown()
gateway.proc.stdin.close()
sys.exit(gateway.proc.wait())
"""


def java_tool_options() -> str:
    """What the JVMs of the tests are given in JAVA_TOOL_OPTIONS."""
    path = _path()
    # Without a log: a JVM of other jars would say on standard output that it passes the file over.
    return (
        f"{_SHORT_LIVED} -XX:SharedArchiveFile={path} -Xlog:disable" if path.exists() else _SHORT_LIVED
    )


def make() -> Path:
    """Write the file of this environment, unless it is there."""
    path = _path()
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        made = Path(scratch, "made.jsa")
        options = f"{_SHORT_LIVED} -XX:ArchiveClassesAtExit={made} -Xlog:disable"
        result = subprocess.run(
            [sys.executable, "-c", _WRITES],
            cwd=scratch,
            env={**os.environ, "JAVA_TOOL_OPTIONS": options, "PYTHONPATH": str(CACHE.parents[1])},
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        if result.returncode or not made.exists():
            raise RuntimeError(f"{path}: no classes were archived: {result.stdout}{result.stderr}")
        made.rename(path)
    return path


def _path() -> Path:
    return CACHE / f"pyspark-{importlib.metadata.version('pyspark')}-java-{_java_version()}.jsa"


def _java_version() -> str:
    """The version of the `java` that is found first; "none" if it does not say so."""
    java = shutil.which("java")
    release = Path(java).resolve().parents[1] / "release" if java else Path()
    found = re.search(r'JAVA_VERSION="([^"]+)"', release.read_text()) if release.is_file() else None
    return found.group(1) if found else "none"


if __name__ == "__main__":
    print(make())
