"""A Spark application whose commit takes long enough to be interrupted; run as a script with the
destination and the save mode."""

import sys
import time

from pyspark.sql import SparkSession

from ray_committer import CommitOptions
from ray_committer.events import Event, FilesRenamed
from ray_committer.protocol import plan
from ray_committer.spark import install


def slowly(event: Event) -> None:
    """Announce the first rename and slow down all others."""
    if isinstance(event, FilesRenamed):
        print("renaming", event.done, flush=True)
        time.sleep(0.2)


plan.SMALLEST_SHARD = plan.LARGEST_SHARD = 1
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
installation = install(spark, options=CommitOptions(threads=1), on_event=slowly)
frame = spark.range(400).selectExpr("id", "id % 100 AS p").repartition(1)
try:
    frame.write.mode(sys.argv[2]).partitionBy("p").parquet(sys.argv[1])
except BaseException as e:  # noqa: BLE001 - an interrupt arrives as one of several
    print("write raised", type(e).__name__, flush=True)
    deadline = time.monotonic() + 12  # it is well before the end of a commit that goes on
    while installation.last_error is None and time.monotonic() < deadline:
        time.sleep(0.05)
    print("commit raised", type(installation.last_error).__name__, flush=True)
    raise SystemExit(7) from None
