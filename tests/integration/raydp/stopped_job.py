"""A RayDP job whose Spark is stopped while its commit runs: ``python stopped_job.py DEST``."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import ray
import raydp
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[3]))
from ray_committer import CommitOptions
from ray_committer.events import Event, FilesRenamed, StageStarted
from ray_committer.spark import install, spark_conf

TASKS = 8


def main() -> None:
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    conf = {
        **spark_conf(),
        "spark.ui.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "false",
    }
    spark = raydp.init_spark("stopped", 2, 1, "500M", configs=conf)
    spark.sparkContext.setLogLevel("OFF")
    stop_while_it_commits(spark, sys.argv[1])
    ray.shutdown()


def stop_while_it_commits(spark: SparkSession, dest: str) -> None:
    renaming = threading.Event()

    def on_event(event: Event) -> None:
        if isinstance(event, StageStarted) and event.stage == "job_stage_rename_files":
            renaming.set()
            time.sleep(3)
        elif isinstance(event, FilesRenamed):
            print("renamed", event.done, "of", event.total, flush=True)

    options = CommitOptions(workers=2)
    install(spark, executor="ray", options=options, on_event=on_event)
    frame = spark.range(0, 80, numPartitions=TASKS).selectExpr("id", "id % 2 AS p")

    def write() -> None:
        try:
            frame.write.partitionBy("p").parquet(dest)
            print("written", flush=True)
        except Exception as e:  # noqa: BLE001 - whatever a stopped Spark raises
            print("raised", type(e).__name__, flush=True)

    writing = threading.Thread(target=write)
    writing.start()
    assert renaming.wait(60)
    raydp.stop_spark()
    writing.join(60)


if __name__ == "__main__":
    main()
