"""Blocks that start Spark's own programs, run by bash as printed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark
import pytest

from tests.docs import ways
from tests.docs.blocks import all_blocks
from tests.docs.preparations import data_files
from tests.docs.test_blocks_run import path_with_command

pytestmark = [
    pytest.mark.wide,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(400),
]

HOME = Path(pyspark.__file__).parent
BLOCKS = all_blocks()
CONSOLE = """
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n%ex
"""


def run(name: str, scratch: Path) -> str:
    """Run a block of `spark-sql`; what it printed on standard error."""
    (scratch / "conf").mkdir()
    (scratch / "conf/log4j2.properties").write_text(CONSOLE + BLOCKS[ways.LOGGING].text)
    environment = path_with_command(scratch / "bin")
    environment["PATH"] = f"{HOME / 'bin'}{os.pathsep}{environment['PATH']}"
    environment |= {"SPARK_HOME": str(HOME), "SPARK_CONF_DIR": str(scratch / "conf")}
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", BLOCKS[name].text],
        cwd=scratch,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=380,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    table = scratch / "spark-warehouse/t"
    assert data_files(table)
    assert b'"committer": "ray_committer"' in (table / "_SUCCESS").read_bytes()
    assert not (table / "_temporary").exists()
    return result.stderr


def test_a_child_process_commits_and_its_progress_is_in_the_log(tmp_path: Path):
    log = run(ways.CHILD, tmp_path)
    assert "rename_files" in log
    assert "INFO" in log
