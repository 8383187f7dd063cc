"""Spark with S3A's committers but without its module for clouds: nothing is committed.

Spark's commit protocol does not know these committers. It lets a task write straight to the destination,
where readers see its files before the job has ended, and also if it fails. Nothing warns of that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.moto import MotoServer
from tests.servers.s3_bucket import Bucket
from tests.servers.s3a import install, settings

pytestmark = [
    pytest.mark.wide,
    pytest.mark.spark,
    pytest.mark.server,
    pytest.mark.xdist_group("s3"),
    pytest.mark.timeout(600),
]

SCRIPT = Path(__file__).with_name("straight_write.py")


def fail_to_write(bucket: Bucket, format_: str) -> str:
    """Run an application whose last task fails; what it printed and logged."""
    arguments = [f"s3a://{bucket.name}/table", format_, json.dumps(settings(bucket.endpoint))]
    result = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": f"--driver-class-path {install()} pyspark-shell"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert result.stdout.strip() == "failed True"
    return result.stderr


def places(server: MotoServer, bucket: Bucket) -> set[str]:
    """The directories of committers that requests have named."""
    own = [line for line in server.requests() if bucket.name in line]
    return {name for name in ("__magic", "_temporary") if any(f"/{name}" in line for line in own)}


@pytest.mark.parametrize("format_", ["csv", "json", "orc"])
def test_a_write_that_fails_leaves_the_files_of_its_tasks_visible(
    server: MotoServer, bucket: Bucket, format_: str
):
    log = fail_to_write(bucket, format_)
    assert places(server, bucket) == {"__magic"}
    files = [key for key in bucket.names("table/part-") if bucket.read(key)]
    assert len(files) == 2
    assert [line for line in log.splitlines() if "WARN" in line and "ommitter" in line] == []


def test_parquet_is_written_by_the_classic_committer(server: MotoServer, bucket: Bucket):
    fail_to_write(bucket, "parquet")
    assert places(server, bucket) == {"_temporary"}
    assert bucket.names("table/part-") == []
