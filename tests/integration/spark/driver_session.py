"""A Spark session of its own, for the drivers that these tests start."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

CHEAP_PROCESSES = "-Djdk.lang.Process.launchMechanism=VFORK"
"""Hadoop starts a process for each permission that it sets."""


def session(master: str, root: Path, *, catalog: str = "hive") -> SparkSession:
    """A session whose tables are in `root`; of RayDP if `master` says so."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executor.memory": "600m",
        "spark.sql.shuffle.partitions": "2",
        # Small writes would take a third of their time to compile code and to begin tasks that read.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.files.minPartitionNum": "1",
        "spark.sql.files.openCostInBytes": "0",
        "spark.sql.warehouse.dir": str(root / "warehouse"),
        "spark.sql.catalogImplementation": catalog,
        "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:catalog;create=true",
        "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
        "spark.hadoop.hive.exec.scratchdir": str(root / "scratch"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={root} {CHEAP_PROCESSES}",
    }
    if master == "raydp":
        import ray
        import raydp

        ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
        return raydp.init_spark("matrix", 1, 1, "600M", configs=settings)
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def stop(spark: SparkSession, master: str) -> None:
    """End a session, and the Ray that was started for it."""
    if master != "raydp":
        spark.stop()
        return
    import ray
    import raydp

    raydp.stop_spark()
    ray.shutdown()
