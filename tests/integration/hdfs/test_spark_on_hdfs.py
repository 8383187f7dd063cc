"""An unchanged `df.write` to HDFS: the session's Hadoop settings are all that the commit is told."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.servers.hdfs import HdfsServer

pytestmark = [
    pytest.mark.wide,
    pytest.mark.spark,
    pytest.mark.xdist_group("ray"),
    pytest.mark.timeout(240),
]

DRIVER = """
import sys
from pyspark.sql import SparkSession
from ray_committer.spark import install, spark_conf

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
service, address = sys.argv[1:]
hadoop = {
    "fs.defaultFS": f"hdfs://{service}",
    "dfs.nameservices": service,
    f"dfs.ha.namenodes.{service}": "dead,live",
    f"dfs.namenode.rpc-address.{service}.dead": "127.0.0.1:1",
    f"dfs.namenode.rpc-address.{service}.live": address,
    f"dfs.client.failover.proxy.provider.{service}":
        "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
    "fs.permissions.umask-mode": "027",
}
settings = spark_conf(store="hdfs") | {f"spark.hadoop.{key}": hadoop[key] for key in hadoop}
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
installation = install(spark, executor="threads")
spark.range(90).repartition(3).selectExpr("id", "id % 4 AS p").write.partitionBy("p").parquet("/t/spark")
report = installation.last_report
print("RESULT", report.outcome, report.moved, spark.read.parquet("/t/spark").count())
spark.stop()
"""


def test_a_write_to_a_name_service_is_committed_with_the_sessions_settings(server: HdfsServer):
    """One NameNode of the service is dead, so both clients must know the other."""
    finished = subprocess.run(
        [sys.executable, "-c", DRIVER, "nsone", server.authority],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    (result,) = [line for line in finished.stdout.splitlines() if line.startswith("RESULT")] or [
        finished.stderr[-3000:]
    ]
    assert result == "RESULT committed 12 90"
    url = f"{server.http_url}/webhdfs/v1/t/spark/p=1?op=GETFILESTATUS&user.name={getpass.getuser()}"
    with urllib.request.urlopen(url) as answer:
        assert json.load(answer)["FileStatus"]["permission"] == "750"
