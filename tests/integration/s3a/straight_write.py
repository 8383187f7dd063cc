"""An application of Spark that writes to S3A and fails in its last task; see `test_without_cloud`.

Arguments: the URL of the table, its format, and Hadoop's settings as one JSON object.
"""

from __future__ import annotations

import json
import sys

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def main(url: str, format_: str, settings: str) -> None:
    """Write two rows and fail at the third, each in a task of its own, one after the other."""
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    for name, value in json.loads(settings).items():
        builder = builder.config(f"spark.hadoop.{name}", value)
    spark = builder.getOrCreate()
    rows = spark.range(3, numPartitions=3)
    rows = rows.selectExpr("IF(id < 2, id, CAST(raise_error('on purpose') AS LONG)) AS id")
    try:
        rows.write.format(format_).save(url)
    except (PySparkException, Py4JJavaError) as e:
        print("failed", "on purpose" in str(e))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
