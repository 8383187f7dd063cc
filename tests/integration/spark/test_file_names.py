"""A JVM whose names of files are not UTF-8 (LC_ALL=POSIX) commits no name that it cannot find again."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_committer import list_jobs
from tests.integration.spark.conftest import data_files
from tests.integration.spark.jvm import SparkSql, path_with_command

pytestmark = [
    pytest.mark.one_spark,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark-scripts"),
    pytest.mark.timeout(300),
]

PLAIN = """
CREATE TABLE t (id BIGINT, p STRING) USING parquet PARTITIONED BY (p);
INSERT INTO t SELECT id, concat('a', id % 3) FROM range(6);
SELECT 'plain', count(*) FROM t;
"""
REFUSED = {
    "of a partition": ("INSERT INTO t SELECT id, char(233 + id % 3) FROM range(6)", "t/p=\u00e9"),
    "of a static partition": (r"INSERT OVERWRITE t PARTITION (p='\u00e9') SELECT 1", "t/p=\u00e9"),
    "of the destination": (
        r"CREATE TABLE u USING parquet LOCATION '{home}/caf\u00e9' AS SELECT 1 AS id",
        "caf\u00e9",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_name_that_the_session_could_not_list_is_refused(tmp_path: Path, kind: str):
    statement, name = REFUSED[kind]
    sql = SparkSql(tmp_path, PATH=path_with_command(tmp_path / "bin"), LC_ALL="POSIX")
    result = sql.run(PLAIN + statement.replace("{home}", str(tmp_path)), {})
    assert "plain\t6" in result.stdout, result.stderr
    assert result.returncode != 0
    shown = result.stdout + result.stderr + sql.log.read_text()
    assert (
        "names of files are not UTF-8 in this JVM" in shown or "not UTF-8 in the driver's JVM" in shown
    )
    assert "start the driver with LC_ALL=C.UTF-8" in shown
    assert len(data_files(sql.warehouse / "t")) == 6
    assert list_jobs(str(sql.warehouse / "t")) == []
    assert not (tmp_path / name).exists()


def test_an_executor_refuses_it_too(tmp_path: Path):
    """Of a driver that finds the name: executors list many directories for it, and read them."""
    path = path_with_command(tmp_path / "bin")
    sql = SparkSql(tmp_path, PATH=path, master="local-cluster[1,1,600]")
    conf = {"spark.executor.memory": "600m", "spark.executorEnv.LC_ALL": "POSIX"}
    result = sql.run(PLAIN + REFUSED["of a partition"][0], conf)
    assert "plain\t6" in result.stdout, result.stderr
    shown = result.stderr + sql.log.read_text()  # Spark 4 shows the cause only in its log
    assert "names of files are not UTF-8 in this JVM, where they are ANSI_X3.4-1968" in shown
    assert len(data_files(sql.warehouse / "t")) == 6
