"""Blocks that need Spark, run as printed by one driver."""

from __future__ import annotations

import pytest

from tests.docs import ways
from tests.docs.test_ray_blocks import Results, results_of_driver

pytestmark = [
    pytest.mark.wide,
    pytest.mark.one_spark,
    pytest.mark.spark,
    pytest.mark.ray,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(300),
]

OURS = {"error": "", "rows": 60, "committer": "ray_committer"}
EXPECTED: Results = {
    ways.SPARK[0]: {
        "error": "",
        "rows": 60,
        "marker": False,
        "retry_seconds": "10m",
        "temporary": False,
    },
    ways.SPARK[1]: {**OURS, "executor": "ray"},
    ways.SPARK[2]: {**OURS, "state": "recorded", "visible_before": 0},
    ways.SPARK[3]: {**OURS, "executor": "threads"},
    ways.SPARK[4]: {**OURS, "executor": "threads"},
    ways.SPARK[5]: {**OURS, "executor": "threads", "files": [2, 1, 2, 2]},
    ways.SPARK[6]: {**OURS, "executor": "threads"},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return results_of_driver("spark", ways.SPARK, tmp_path_factory.mktemp("blocks"))


@pytest.mark.parametrize("name", ways.SPARK)
def test_it_runs_as_printed_and_what_it_wrote_is_committed(results: Results, name: str):
    assert results[name] == EXPECTED[name]
