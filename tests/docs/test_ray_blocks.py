"""Blocks that need a Ray cluster, run as printed by one driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs import ways
from tests.docs.blocks import ROOT

pytestmark = [
    pytest.mark.wide,
    pytest.mark.ray,
    pytest.mark.xdist_group("ray"),
    pytest.mark.timeout(300),
]

Results = dict[str, dict[str, Any]]

ENVIRONMENT = {
    "PYTHONPATH": str(ROOT),
    "LC_ALL": "C.UTF-8",
    "RAY_AUTH_MODE": "token",  # what Spark and the command line start joins the cluster, too
    "RAY_AUTH_TOKEN": "0123456789abcdef-of-the-tests",
}
EXPECTED: Results = {
    ways.RAY[0]: {"left": []},
    ways.RAY[1]: {"one": 3, "two": 3},
    ways.RAY[2]: {},
    ways.RAY[3]: {"one": 3, "two": 3},
}


def results_of_driver(kind: str, names: tuple[str, ...], home: Path) -> Results:
    """Run `driver_of_blocks.py`, and read what it says of each block."""
    command = [sys.executable, str(Path(__file__).with_name("driver_of_blocks.py")), kind]
    result = subprocess.run(
        [*command, str(home / "shared"), *names],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith('{"block"')]
    assert [line["block"] for line in lines] == list(names), result.stderr[-5000:]
    return {line.pop("block"): line for line in lines}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return results_of_driver("ray", ways.RAY, tmp_path_factory.mktemp("blocks"))


@pytest.mark.parametrize("name", ways.RAY)
def test_it_runs_as_printed(results: Results, name: str):
    found = results[name]
    assert found.pop("error") == ""
    if name == "docs/python_writers.md: Ray Data":
        assert found.pop("table") >= 7  # a file for each of seven days, at least
    assert found == EXPECTED[name]
