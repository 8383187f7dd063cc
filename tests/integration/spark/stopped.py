"""A write whose Spark is stopped while its commit runs; ``python stopped.py DEST`` prints its end."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[3]))
from ray_committer.events import Event, StageStarted
from ray_committer.spark import install, spark_conf


def main(dest: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]")
    for key, value in {**spark_conf(), "spark.ui.enabled": "false"}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    contexts = getattr(getattr(spark._jvm.org.apache.spark, "SparkContext$"), "MODULE$")
    renaming, stopped = threading.Event(), threading.Event()

    def on_event(event: Event) -> None:
        if isinstance(event, StageStarted) and event.stage == "job_stage_rename_files":
            renaming.set()
            stopped.wait(30)

    install(spark, executor="threads", on_event=on_event)

    def write() -> None:
        try:
            spark.range(0, 8, numPartitions=2).write.parquet(dest)
            print("written", flush=True)
        except Exception as e:  # noqa: BLE001 - whatever a stopped Spark raises
            print("raised", type(e).__name__, flush=True)

    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    assert renaming.wait(60)
    spark.stop()
    stopped.set()
    writing.join(60)
    print("ended" if not writing.is_alive() else "goes on", flush=True)
    print("stopped" if contexts.getActive().isEmpty() else "started again", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
