"""The costs of estimates and of the simulation are those that the benchmarks have measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.simulation import costs
from benchmarks.simulation.costs import Cost
from ray_committer.jobs.estimate import STORES

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
COSTS = {name: cost for name, cost in vars(costs).items() if isinstance(cost, Cost)}
MEASURED = [name for name, cost in COSTS.items() if "." in cost.source.partition(": ")[2]]
CLIENTS = [
    (STORES["gs"].client, "http_renames: levels.32 in flight.median.GcsStore, ms of processor a rename"),
    (
        STORES["abfs"].client,
        "adls_renames: levels.32 in flight.median.AdlsStore, ms of processor a rename",
    ),
    (STORES["hdfs"].client, "hdfs_renames: in_flight.32.median.HdfsStore: ms"),
    (
        STORES["s3"].client,
        "s3_commits: completions.32 in flight.median.S3Store, ms of processor a completion",
    ),
]


def measured(source: str) -> float:
    """The number that a source names."""
    name, _, path = source.partition(": ")
    found: Any = json.loads((RESULTS / f"{name}.json").read_text())
    for key in path.split("."):
        found = found[int(key)] if isinstance(found, list) else found[key]
    return float(found)


def test_most_costs_were_measured_and_each_says_where():
    assert len(MEASURED) >= 4
    assert all(cost.source for cost in COSTS.values())


@pytest.mark.parametrize("name", MEASURED)
def test_a_cost_is_the_one_in_the_results(name: str):
    cost = COSTS[name]
    assert cost.value == pytest.approx(measured(cost.source) * cost.factor, rel=0.25)


@pytest.mark.parametrize(("seconds", "source"), CLIENTS)
def test_the_processor_time_of_a_client_is_the_one_in_the_results(seconds: float, source: str):
    assert seconds == pytest.approx(measured(source) / 1000, rel=0.25)
