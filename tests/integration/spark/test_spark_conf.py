"""What ``ray-committer spark-conf`` prints is enough: nothing else is given to these drivers.

`test_jvm_drivers.py` tries its lines in a ``spark-defaults.conf``.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from click.testing import CliRunner

from ray_committer.cli.main import main
from tests.integration.spark.jvm import COMMAND, environment

pytestmark = [
    pytest.mark.one_spark,
    pytest.mark.wide,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(300),
]

SPARK = Path(pyspark.__file__).parent
SQL = "CREATE TABLE t USING csv AS SELECT id FROM range(10)"
WRITE = """
import sys
from pyspark.sql import SparkSession
from ray_committer.spark import install
spark = SparkSession.builder.config("spark.ui.enabled", "false").master("local[1]").getOrCreate()
installed = install(spark)
spark.range(5).write.csv("t")
assert installed.last_report.files
spark.stop()
"""


def spark_conf(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["spark-conf", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def check(command: list[str], home: Path, table: Path, **variables: str) -> None:
    result = subprocess.run(
        command,
        cwd=home,
        env=environment(SPARK_HOME=str(SPARK), **variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert b'"committer": "ray_committer"' in (table / "_SUCCESS").read_bytes()


def test_spark_sql_commits_with_its_arguments(tmp_path: Path):
    arguments = spark_conf("--format", "conf", "--command", COMMAND).replace("\\\n", " ")
    command = [str(SPARK / "bin" / "spark-sql"), "--master=local[1]", *shlex.split(arguments), "-e", SQL]
    check(command, tmp_path, tmp_path / "spark-warehouse" / "t", PATH="/usr/bin:/bin")


def test_pyspark_needs_two_lines_and_install(tmp_path: Path):
    lines = spark_conf("--driver", "pyspark")
    assert len(lines.splitlines()) == 2
    (tmp_path / "spark-defaults.conf").write_text(lines)
    command = [sys.executable, "-c", WRITE]
    check(command, tmp_path, tmp_path / "t", SPARK_CONF_DIR=str(tmp_path))
