"""A jar of another version in the driver is found by `install`, which names it and what to do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hatch_build

pytestmark = [
    pytest.mark.one_spark,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(180),
]

ROOT = Path(__file__).parents[3]
BRIDGE = "src/io/raycommitter/Bridge.java"

DRIVER = """
import sys
from pyspark.sql import SparkSession
from ray_committer.errors import RayCommitterError
from ray_committer.spark import install

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.jars", sys.argv[1]).getOrCreate()
try:
    install(spark)
    print("INSTALLED")
except RayCommitterError as e:
    print("REFUSED", e)
finally:
    spark.stop()
"""


def build_jar(tmp_path: Path, change: tuple[str, str]) -> Path:
    """The jar of sources in which the bridge was changed."""
    java = tmp_path / hatch_build.JAVA_DIR
    shutil.copytree(ROOT / hatch_build.JAVA_DIR, java)
    text = (java / BRIDGE).read_text()
    changed = re.sub(change[0], change[1], text, flags=re.DOTALL)
    assert changed != text
    (java / BRIDGE).write_text(changed)
    return hatch_build.ensure_jar(tmp_path)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((r"PROTOCOL_VERSION = \d+", "PROTOCOL_VERSION = 99"), "protocol version 99, but this package"),
        pytest.param(
            (r"    public static int protocolVersion\(\) \{.*?\n    \}\n", ""),
            "has no protocol version, but this package",
            marks=pytest.mark.wide,
        ),
    ],
)
def test_a_jar_of_another_version_in_spark_jars_is_named_by_install(
    tmp_path: Path, change: tuple[str, str], said: str
):
    jar = build_jar(tmp_path, change)
    finished = subprocess.run(
        [sys.executable, "-c", DRIVER, str(jar)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    (refused,) = [line for line in finished.stdout.splitlines() if line.startswith(("REF", "INST"))]
    assert refused.startswith("REFUSED"), finished.stderr
    assert said in refused
    assert "ray-committer.jar: this ray-committer jar is loaded" in refused
    assert str(ROOT / hatch_build.JAR_PATH) in refused
    assert "start a new driver" in refused
