"""A RayDP job of its own whose commits run in a pool that it shares.

``python shared_pool.py ADDRESS NAME DEST OTHER_DEST``: joins the Ray cluster at ADDRESS, writes 400
files to DEST, and stays in the pool until the job at OTHER_DEST is committed, too. Prints where its
commit ran.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import ray
import raydp

from ray_committer import CommitOptions, commit_pool
from ray_committer.spark import install, spark_conf

OPTIONS = CommitOptions(workers=2, worker_cpus=0.1)


def main() -> None:
    address, name, dest, other = sys.argv[1:]
    ray.init(address=address, log_to_driver=False)
    spark = raydp.init_spark(
        Path(dest).name,
        num_executors=1,
        executor_cores=1,
        executor_memory="512m",
        configs={**spark_conf(), "spark.ui.enabled": "false"},
    )
    try:
        with commit_pool(OPTIONS, name=name, shared=True) as pool:
            installation = install(spark, executor=pool, options=OPTIONS)
            rows = spark.range(400).selectExpr("id", "id % 40 AS p").repartition(10)
            rows.write.partitionBy("p").parquet(dest)
            report = installation.last_report
            assert report is not None
            processes = sorted({row.process for row in report.worker_rows})
            print(f"committed {report.moved} of {report.files} on {report.executor} by", *processes)
            while not Path(other, "_SUCCESS").exists():
                time.sleep(0.1)
    finally:
        raydp.stop_spark()
        ray.shutdown()


if __name__ == "__main__":
    main()
