"""Executors of two users on one disk: what one has made, the other cannot write to."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

import ray_committer
from ray_committer import CommitOptions
from ray_committer.protocol.whole import ByFile
from ray_committer.version import jar_path
from tests.integration.spark.conftest import data_files
from tests.integration.spark.metered import compiled
from tests.integration.spark.tasks import Job, set_up

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

NOBODY = 65534
ATTEMPT = "attempt_20260101_0001_m_000004_9"


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory in which everybody can write."""
    root = Path(tempfile.mkdtemp(dir="/tmp"))
    root.chmod(0o777)
    before = os.umask(0)
    yield root
    os.umask(before)
    shutil.rmtree(root)


def run_task_of_another(job: Job, root: Path, *partitions: str) -> None:
    """Run a task attempt in a JVM of another user, if this one can be another."""
    protocol = root / "protocol"
    jvm: Any = job.jvm
    stream = jvm.java.io.ObjectOutputStream(jvm.java.io.FileOutputStream(str(protocol)))
    stream.writeObject(job.protocol)
    stream.close()
    classes = Path(shutil.copytree(compiled(), root / "classes"))
    classes.chmod(0o755)
    path = f"{shutil.copy(jar_path(), root)}:{Path(pyspark.__file__).parent}/jars/*:{classes}"
    result = subprocess.run(
        ["java", "-cp", path, "OtherUser", str(protocol), ATTEMPT, *partitions],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=root,
        user=NOBODY if os.getuid() == 0 else None,
    )
    assert result.returncode == 0, result.stderr


def test_a_task_that_may_not_write_where_others_do_writes_to_its_own_directory(
    installation, spark: SparkSession, shared: Path
):
    job = set_up(spark, shared / "table")
    task = job.task()
    files = [task.begin_file(partition) for partition in ("p=1", "p=2")]
    for file in files:
        file.write_text("x")
    task.save()
    for file, mode in zip(files, (0o555, 0o777), strict=True):
        file.parent.chmod(mode)
    for name in ("manifests", "tasks", "tasks/in"):
        (job.directory / name).chmod(0o777)
    run_task_of_another(job, shared, "p=1", "p=2", "p=3")
    own = job.directory / "tasks" / ATTEMPT
    assert [path.name.partition("-")[0] for path in own.glob("[0-9]*-part-*")] == ["0"]
    assert len(list((job.directory / "tasks" / "in").rglob("part-00004-*"))) == 2
    result = ray_committer.commit_job(str(job.dest), options=CommitOptions(expected_tasks=2))
    # A file of the second task can go to any of them.
    assert (result.whole, result.by_file) == (1, {ByFile.OWN_NAMES: 1, ByFile.RIGHTS: 1})
    for partition in job.dest.glob("p=*"):
        assert (partition.stat().st_uid, partition.stat().st_mode & 0o777) == (os.getuid(), 0o777)
    assert sorted(name.partition("/")[0] for name in data_files(job.dest)) == [
        "p=1",
        "p=1",
        "p=2",
        "p=2",
        "p=3",
    ]
    assert not (job.dest / "_temporary").exists()


def test_directories_of_another_user_or_mode_are_filled_by_file(
    installation, spark: SparkSession, shared: Path
):
    job = set_up(spark, shared / "table")
    task = job.task()
    for partition, mode in (("p=1", 0o755), ("p=2", 0o777)):
        file = task.begin_file(partition)
        file.write_text("x")
        file.parent.chmod(mode)
    task.save()
    for name in ("manifests", "tasks", "tasks/in"):
        (job.directory / name).chmod(0o777)
    run_task_of_another(job, shared, "p=3")
    result = ray_committer.commit_job(str(job.dest), options=CommitOptions(expected_tasks=2))
    assert (result.whole, result.by_file) == (1, {ByFile.RIGHTS: 2})
    for partition in job.dest.glob("p=*"):
        assert (partition.stat().st_uid, partition.stat().st_mode & 0o777) == (os.getuid(), 0o777)
