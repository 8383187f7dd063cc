"""How long does the commit of a Spark job of 2,000 files on RayDP take, after the end of its last task?

An append of 200 partitions of ten files to the local file system, which asks no price for a request. The
workers are those of a pool that is there; or the commit's own, which start while the tasks run.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import harness
import ray
import raydp
from pyspark.sql import DataFrame, SparkSession

import ray_committer
from ray_committer import CommitOptions
from ray_committer.executors.base import CommitPool
from ray_committer.executors.choose import ExecutorName
from ray_committer.spark import install, spark_conf, uninstall

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.integration.spark.metered import compiled, last_task_ended

PARTITIONS, FILES = 200, 10
ROWS = PARTITIONS * FILES * 10
OPTIONS = CommitOptions(workers=2)


def start_spark(classes: Path) -> SparkSession:
    spark: SparkSession = raydp.init_spark(
        "raydp_job",
        num_executors=2,
        executor_cores=1,
        executor_memory="1g",
        configs={
            **spark_conf(),
            "spark.ui.enabled": "false",
            "spark.sql.adaptive.enabled": "false",
            "spark.driver.extraClassPath": str(compiled(classes)),
            "spark.extraListeners": "LastTask",
        },
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def frame_of(spark: SparkSession) -> DataFrame:
    """Ten rows for each file."""
    rows = spark.range(0, ROWS, numPartitions=FILES)
    return rows.selectExpr("id", f"id % {PARTITIONS} AS p")


def measure(spark: SparkSession, root: Path, executor: CommitPool | ExecutorName) -> dict[str, float]:
    """One write: all of it, and what came after the last task."""
    installation = install(spark, executor=executor, options=OPTIONS)
    begun = time.time()
    frame_of(spark).write.partitionBy("p").parquet(str(root))
    ended = time.time()
    uninstall(spark)
    report = installation.last_report
    assert report is not None
    assert (report.executor, report.moved) == ("ray", PARTITIONS * FILES)
    shutil.rmtree(root)
    return {"seconds": ended - begun, "commit_seconds": ended - last_task_ended(spark)}


def main() -> None:
    directory = Path(tempfile.mkdtemp(prefix="raydp-job-"))
    root = directory / "table"
    ray.init(address="local", num_cpus=6, include_dashboard=False, log_to_driver=False)
    try:
        spark = start_spark(directory)
        with ray_committer.commit_pool(OPTIONS) as pool:
            pooled = harness.rounds(rounds_of(spark, root, pool))
        own = harness.rounds(rounds_of(spark, root, "ray"))
    finally:
        raydp.stop_spark()
        ray.shutdown()
        shutil.rmtree(directory, ignore_errors=True)
    harness.save(
        "raydp_job",
        __doc__,
        {"files": PARTITIONS * FILES, "a pool": pooled, "workers of its own": own},
        {
            "seconds after the last task, a pool": (pooled["median"]["commit_seconds"], "<=", 0.6),
            "seconds after the last task, workers of its own": (
                own["median"]["commit_seconds"],
                "<=",
                0.6,
            ),
        },
    )


def rounds_of(
    spark: SparkSession, root: Path, executor: CommitPool | ExecutorName
) -> Callable[[], dict[str, float]]:
    return lambda: measure(spark, root, executor)


if __name__ == "__main__":
    main()
