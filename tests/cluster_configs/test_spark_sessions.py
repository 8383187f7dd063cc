"""A driver that `spark-submit` starts with the file for mounted tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ray_committer.version import jar_path
from tests.cluster_configs.spark_defaults import DIRECTORY, settings_of

pyspark = pytest.importorskip("pyspark")

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]

SESSION = """
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
from ray_committer.spark import install

target = sys.argv[1]
spark = SparkSession.builder.getOrCreate()
said = {"conf": dict(spark.sparkContext.getConf().getAll())}
try:
    spark.range(5).write.parquet(target)
except Exception as e:
    said["without install"] = str(e)
said["left"] = [str(path) for path in Path(target).rglob("*.parquet")]
installation = install(spark)
spark.range(5).write.mode("append").parquet(target)
report = installation.last_report
said["report"] = {"executor": report.executor, "moved": report.moved}
print(json.dumps(said))
spark.stop()
"""


def environment() -> dict[str, str]:
    variables = {
        key: value for key, value in os.environ.items() if key not in ("RAY_ADDRESS", "SPARK_HOME")
    }
    path = os.pathsep.join([str(ROOT), variables.get("PYTHONPATH", "")])
    return {**variables, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "LC_ALL": "C.UTF-8"}


def copied(name: str, directory: Path) -> Path:
    """The file as a user saves it: with the value changed that is marked so."""
    text = (DIRECTORY / name).read_text()
    settings = settings_of(DIRECTORY / name)
    text = text.replace(settings["spark.jars"], jar_path())
    path = directory / name
    path.write_text(text)
    return path


def test_a_driver_takes_the_file_refuses_to_write_without_install_and_then_commits(tmp_path: Path):
    script = tmp_path / "session.py"
    script.write_text(SESSION)
    submit = Path(sys.executable).with_name("spark-submit")
    given = ["--master", "local[2]", "--conf", "spark.ui.enabled=false"]
    conf = copied("raydp-file.conf", tmp_path)
    result = subprocess.run(
        [submit, *given, "--properties-file", conf, script, tmp_path / "table"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    said = json.loads(result.stdout.splitlines()[-1])
    for key, value in settings_of(DIRECTORY / "raydp-file.conf").items():
        jar = key == "spark.jars"
        assert said["conf"][key].removeprefix("file://") == (jar_path() if jar else value)
    assert "ray_committer.spark.install" in said["without install"]
    assert said["left"] == []
    assert said["report"]["executor"] == "threads"
    assert said["report"]["moved"] > 0
    assert (tmp_path / "table" / "_SUCCESS").exists()
