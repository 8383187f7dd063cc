"""One Ray cluster of three raylets on this machine, for test modules that follow each other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.servers.ports import free_port

SECONDS_TO_END_ACTORS = 30.0


class Raylets:
    """A head of one CPU and two nodes of two, started when somebody connects."""

    def __init__(self) -> None:
        self._cluster: Any = None
        self.are_in_use = False

    @contextmanager
    def connection(self) -> Iterator[None]:
        """Connect this process for the length of a block; none of its actors outlives it."""
        import ray

        if self._cluster is None:
            self._cluster = _start()
        ray.init(address=self._cluster.address, log_to_driver=False, namespace="ray_committer")
        self.are_in_use = True
        try:
            self._cluster.wait_for_nodes()
            yield
        finally:
            self.are_in_use = False
            ray.shutdown()
            _wait_for_actors_to_end()

    def stop(self) -> None:
        """End the cluster, if there is one."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.shutdown()


def _start() -> Any:
    from ray.cluster_utils import Cluster

    head = {
        "num_cpus": 1,
        "include_dashboard": False,
        "metrics_export_port": free_port(),
        "_system_config": {"metrics_report_interval_ms": 1_000},  # tests wait for them
    }
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=2, metrics_export_port=free_port())
    except BaseException:
        cluster.shutdown()
        raise
    return cluster


def _wait_for_actors_to_end() -> None:
    """Ray ends them on its own time; the next module must not take them for its own."""
    from tests.integration.ray.jobs import processes

    deadline = time.monotonic() + SECONDS_TO_END_ACTORS
    while left := [
        pid for name in ("CommitWorker", "Coordinator", "RateLimit") for pid in processes(name)
    ]:
        if time.monotonic() > deadline:
            raise RuntimeError(f"actors outlived their driver: {left}")
        time.sleep(0.05)
