"""A RayDP job that loses an executor in the middle: ``python lost_executor.py DEST [KEY=VALUE ...]``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import ray
import raydp

sys.path.insert(0, str(Path(__file__).parents[3]))
from ray_committer import CommitOptions
from ray_committer.spark import install, spark_conf

TASKS = 8


def main() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    given = dict(pair.split("=", 1) for pair in sys.argv[2:])
    conf = {**spark_conf(), "spark.ui.enabled": "false", **given}
    spark = raydp.init_spark("lost", 2, 1, "500M", configs=conf)
    spark.sparkContext.setLogLevel("OFF")
    install(spark, executor="ray", options=CommitOptions(workers=2))
    dest = sys.argv[1]
    lost = f"{dest}-lost"

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if 35 in batch.column("id").to_pylist() and not os.path.exists(lost):
                Path(lost).touch()
                os.kill(executor_of_this_worker(), signal.SIGKILL)

    frame = spark.range(0, 80, numPartitions=TASKS).selectExpr("id", "id % 2 AS p")
    frame.mapInArrow(rows, frame.schema).write.partitionBy("p").parquet(dest)
    print("lost" if os.path.exists(lost) else "none lost", spark.read.parquet(dest).count())
    raydp.stop_spark()
    ray.shutdown()


def executor_of_this_worker() -> int:
    """The process that started PySpark's daemon, which started this one."""
    with open(f"/proc/{os.getppid()}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])


if __name__ == "__main__":
    main()
