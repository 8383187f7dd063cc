"""TPC-H's tables as each committer leaves them: DuckDB's answers are those for the source."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.integration.spark.tpch import JOBS, TABLES, TpchWrite, answers, generate

pytestmark = [
    pytest.mark.wide,
    pytest.mark.one_spark,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark-scripts"),
]

SCRIPT = Path(__file__).with_name("tpch.py")
SCALE = 0.01
IN_PROCESS = list(itertools.starmap(TpchWrite, itertools.product(("threads", "deferred"), TABLES, JOBS)))
ON_RAY = list(itertools.starmap(TpchWrite, itertools.product(("ray",), TABLES, JOBS)))
needs_raydp = pytest.mark.skipif(
    not pyspark.__version__.startswith("3."), reason="RayDP is for Spark 3.5"
)

Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tpch")
    generate(directory, SCALE)
    return directory


@pytest.fixture
def run(source: Path, tmp_path: Path) -> Run:
    def run(master: str, writes: list[TpchWrite]) -> list[dict[str, Any]]:
        command = [sys.executable, str(SCRIPT), master, str(source), str(tmp_path / "written")]
        command += [json.dumps(asdict(write)) for write in writes]
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=850, cwd=tmp_path
        )
        assert result.returncode == 0, result.stderr[-3000:]
        return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]

    return run


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("master", "writes"),
    [
        pytest.param("local[2]", IN_PROCESS, id="one process"),
        pytest.param("raydp", ON_RAY, id="on Ray", marks=needs_raydp),
    ],
)
def test_each_committer_leaves_tables_with_the_answers_of_the_source(
    source: Path, tmp_path: Path, run: Run, master: str, writes: list[TpchWrite]
):
    found = run(master, writes)
    expected = answers(source)
    for write, one in zip(writes, found, strict=True):
        assert one["answers"] == expected, write
        assert one["files"] > (2_500 if write.table == "lineitem" else 4), write
    for table, wrong in (("lineitem", ("Q1", "Q6")), ("orders", ("Q4",))):
        before = answers(source, **{table: tmp_path / "written" / f"{table}-old"})
        assert [name for name in expected if before[name] != expected[name]] == list(wrong)
