"""Examine a Ray cluster and ask every node; starts no cluster and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ray_committer.executors.ray import cluster
from ray_committer.executors.ray.cluster import Connection, calls
from ray_committer.executors.ray.executor import pool_size
from ray_committer.executors.ray.remote import answer_remotely
from ray_committer.options import CommitOptions


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """A node's answer: its package's `version` and the `answer`, or the `error` that prevented it."""

    node: str
    version: str | None = None
    answer: object = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """A cluster: the answers of its nodes, its free CPUs, and the CPUs that a commit's workers need."""

    ray_version: str
    answers: tuple[NodeAnswer, ...]
    free_cpus: float
    workers: int
    wanted_cpus: float


def survey(ask: Callable[[], object], options: CommitOptions) -> Survey:
    """Ask each node that can run commit workers; `RayNotAvailableError` if there is no cluster."""
    with closing(Connection()), calls():
        workers = pool_size(options)
        return Survey(
            ray_version=ray.__version__,
            answers=tuple(_answers(ask, cluster.WORKER_START_SECONDS)),
            free_cpus=ray.available_resources().get("CPU", 0.0),
            workers=workers,
            wanted_cpus=workers * options.worker_cpus,
        )


def _answers(ask: Callable[[], object], seconds: float) -> Iterator[NodeAnswer]:
    asked = {}
    for node in ray.nodes():
        if node["Alive"] and node["Resources"].get("CPU", 0) > 0:
            here = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
            # Without a CPU: a full node must answer, too. Hard affinity: no other node's answer counts.
            call = answer_remotely.options(num_cpus=0, max_retries=0, scheduling_strategy=here)
            asked[call.remote(ask)] = f"{node['NodeManagerHostname']} ({node['NodeID'][:8]})"
    ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=seconds) if asked else ([], [])
    for ref, node in asked.items():
        if ref not in ready:
            # A task that waits for a node would else stay in Ray's queue after the survey.
            ray.cancel(ref)
            yield NodeAnswer(node, error=f"no answer within {seconds:g} s")
            continue
        try:
            yield NodeAnswer(node, *ray.get(ref))
        except RayError as e:
            # The last line of a remote traceback names the error.
            yield NodeAnswer(node, error=str(e).strip().rpartition("\n")[2])
