"""A PySpark application that names our protocol and did not call install; run as a script."""

import sys

from pyspark.sql import SparkSession

from ray_committer.spark import spark_conf

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
for key, value in spark_conf().items():
    builder = builder.config(key, value)
try:
    builder.getOrCreate().range(3).write.parquet(sys.argv[1])
except Exception as e:  # noqa: BLE001 - the type differs between versions
    print(e)
