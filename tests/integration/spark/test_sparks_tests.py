"""Spark's own Python tests of readers, writers, data sources and streams pass as well with us."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

from ray_committer.spark import spark_conf
from tests.integration.spark.jvm import ROOT, environment
from tests.integration.spark.sparks_tests import PASSED, make_home

pytestmark = [
    pytest.mark.wide,
    pytest.mark.spark,
    pytest.mark.timeout(3600),
    pytest.mark.xdist_group("spark-scripts"),
]

SCRIPT = Path(__file__).with_name("sparks_tests.py")
MODULES = {
    "readers and writers": ["test_readwriter", "test_datasources", "test_catalog"],
    "streams": [
        "streaming.test_streaming",
        "streaming.test_streaming_foreach",
        "streaming.test_streaming_foreach_batch",
    ],
    "Python data sources": ["test_python_datasource", "test_python_streaming_datasource"],
}
if pyspark.__version__.startswith("3."):
    del MODULES["Python data sources"]


@dataclass(frozen=True)
class Run:
    """What became of each test, and how many jobs we committed."""

    outcomes: dict[str, str]
    commits: int

    @property
    def passed(self) -> set[str]:
        return {name for name, outcome in self.outcomes.items() if outcome == PASSED}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    make_home(home)
    return home


def run(home: Path, who: str, names: list[str]) -> Run:
    """Run Spark's tests; ours have the settings that a cluster would have in its defaults."""
    own = Path(tempfile.mkdtemp(dir=home))
    settings = {"spark.ui.enabled": "false", "spark.sql.warehouse.dir": str(own / "warehouse")}
    settings |= spark_conf() if who == "ours" else {}
    lines = [f"{key} {value}\n" for key, value in settings.items()]
    (own / "spark-defaults.conf").write_text("".join(lines))
    variables = {
        "PYTHONPATH": f"{home}/python:{ROOT}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(own),
        "SPARK_HOME": str(home),
    }
    command = [sys.executable, str(SCRIPT), who, *names]
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=home, env=environment(**variables)
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return Run(**json.loads(result.stdout.splitlines()[-1]))


@pytest.mark.parametrize("modules", MODULES.values(), ids=MODULES)
def test_no_test_of_sparks_fails_that_passes_without_us(home: Path, modules: list[str]):
    theirs, ours = run(home, "theirs", modules), run(home, "ours", modules)
    assert theirs.outcomes.keys() == ours.outcomes.keys()
    assert len(theirs.passed) > 0.9 * len(theirs.outcomes), theirs.outcomes
    assert {name: ours.outcomes[name] for name in theirs.passed - ours.passed} == {}
    assert ours.commits > 0
