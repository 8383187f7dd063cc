"""A RayDP job that loses an executor, and one whose Spark is stopped while its commit runs.

``python faults.py LOST STOPPED [KEY=VALUE ...]`` writes both, in one session, to these destinations.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import ray
import raydp
from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).parents[3]))
from ray_committer import CommitOptions
from ray_committer.events import Event, FilesRenamed, StageStarted
from ray_committer.spark import install, spark_conf

TASKS = 8
OPTIONS = CommitOptions(workers=2)


def main() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    lost, stopped, *given = sys.argv[1:]
    conf = {**spark_conf(), "spark.ui.enabled": "false", **dict(pair.split("=", 1) for pair in given)}
    spark = raydp.init_spark("faults", 2, 1, "500M", configs=conf)
    spark.sparkContext.setLogLevel("OFF")
    lose_an_executor(spark, lost)
    stop_while_it_commits(spark, stopped)
    ray.shutdown()


def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(0, 80, numPartitions=TASKS).selectExpr("id", "id % 2 AS p")


def lose_an_executor(spark: SparkSession, dest: str) -> None:
    marker = f"{dest}-lost"

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if 35 in batch.column("id").to_pylist() and not os.path.exists(marker):
                Path(marker).touch()
                os.kill(executor_of_this_worker(), signal.SIGKILL)

    install(spark, executor="ray", options=OPTIONS)
    frame = numbers(spark)
    frame.mapInArrow(rows, frame.schema).write.partitionBy("p").parquet(dest)
    print("lost" if os.path.exists(marker) else "none lost", spark.read.parquet(dest).count())


def executor_of_this_worker() -> int:
    """The process that started PySpark's daemon, which started this one."""
    with open(f"/proc/{os.getppid()}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])


def stop_while_it_commits(spark: SparkSession, dest: str) -> None:
    renaming, stopped = threading.Event(), threading.Event()

    def on_event(event: Event) -> None:
        if isinstance(event, StageStarted) and event.stage == "job_stage_rename_files":
            renaming.set()
            stopped.wait(30)
        elif isinstance(event, FilesRenamed):
            print("renamed", event.done, "of", event.total, flush=True)

    install(spark, executor="ray", options=OPTIONS, on_event=on_event)

    def write() -> None:
        try:
            numbers(spark).write.partitionBy("p").parquet(dest)
            print("written", flush=True)
        except Exception as e:  # noqa: BLE001 - whatever a stopped Spark raises
            print("raised", type(e).__name__, flush=True)

    writing = threading.Thread(target=write)
    writing.start()
    assert renaming.wait(60)
    raydp.stop_spark()
    stopped.set()
    writing.join(60)


if __name__ == "__main__":
    main()
