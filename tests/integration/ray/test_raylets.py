"""The clusters of the tests start on a busy machine, and nothing is left of a start that failed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from ray._private import utils
from ray.cluster_utils import Cluster

from tests import raylets

pytestmark = [
    pytest.mark.wide,
    pytest.mark.ray,
    pytest.mark.xdist_group("ray"),
    pytest.mark.usefixtures("no_shared_raylets"),
]

SLOW_AGENTS = """
import pathlib, time
arguments = pathlib.Path("/proc/self/cmdline").read_bytes().split(b"\\0")
if any(each.endswith(b"/dashboard/agent.py") for each in arguments):
    time.sleep(20)
"""


def test_a_raylet_does_not_wait_for_its_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "sitecustomize.py").write_text(SLOW_AGENTS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(raylets, "STARTS", 1)
    cluster = raylets.start_cluster({"num_cpus": 1})
    try:
        cluster.wait_for_nodes()
    finally:
        cluster.shutdown()


def test_a_start_that_failed_is_ended_and_tried_again(monkeypatch: pytest.MonkeyPatch):
    add_node, before = Cluster.add_node, raylets.children()
    left: list[set[int]] = []

    def fail_once(self: Cluster, **node: Any) -> Any:
        if left:
            assert raylets.children() <= before
            return add_node(self, **node)
        added = add_node(self, **node)
        self.head_node = None  # as after a time-out in its start
        left.append(raylets.children() - before)
        raise RuntimeError(f"{added} did not start")

    monkeypatch.setattr(Cluster, "add_node", fail_once)
    cluster = raylets.start_cluster({"num_cpus": 1})
    try:
        assert left[0]
        assert not left[0] & raylets.children()
        cluster.wait_for_nodes()
    finally:
        cluster.shutdown()


def test_a_start_that_hangs_in_a_fork_is_ended_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As if the fork waited for a lock that no thread in it will release."""
    die_with_parent = utils.set_kill_on_parent_death_linux
    hung = tmp_path / "hung"

    def hang_once() -> None:
        die_with_parent()
        if not hung.exists():
            hung.touch()
            time.sleep(600)

    monkeypatch.setattr(raylets, "SECONDS_TO_EXEC", 1.0)
    monkeypatch.setattr(utils, "set_kill_on_parent_death_linux", hang_once)
    cluster = raylets.start_cluster({"num_cpus": 1})
    try:
        assert hung.exists()
        cluster.wait_for_nodes()
    finally:
        cluster.shutdown()
