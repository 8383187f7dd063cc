"""Blocks that need Spark, run as printed by one driver: with Spark 3.5, and with 4 what needs it."""

from __future__ import annotations

import pyspark
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

IS_SPARK_4 = int(pyspark.__version__.partition(".")[0]) >= 4
BLOCKS = (ways.SPARK[0], ways.SPARK_4) if IS_SPARK_4 else ways.SPARK[:-1]
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
    ways.SPARK[5]: OURS,
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return results_of_driver("spark", BLOCKS, tmp_path_factory.mktemp("blocks"))


@pytest.mark.parametrize("name", BLOCKS)
def test_it_runs_as_printed_and_what_it_wrote_is_committed(results: Results, name: str):
    found = results[name]
    if name == ways.SPARK_4:  # the process that commits is not the driver, and tells it nothing
        found.pop("executor", None)
    assert found == EXPECTED[name]
