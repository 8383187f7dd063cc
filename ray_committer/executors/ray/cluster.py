"""Attach to a Ray cluster, or start a local one when that was asked for by name."""

from __future__ import annotations

import os

import ray

from ray_committer.errors import RayNotAvailableError

NAMESPACE = "ray_committer"


def connect(*, may_start: bool) -> bool:
    """Make sure that this process is connected to Ray; True if that was done here.

    Uses the connection that is there, else the cluster of ``RAY_ADDRESS`` or of this machine. Only with
    `may_start` is a local one started where none is found.
    """
    if ray.is_initialized():
        return False
    if not may_start:
        raise RayNotAvailableError(
            "Ray is not connected in this driver (was ray.shutdown() called?), and none is started from "
            "inside a Spark job; call ray.init() before the write, or install with executor='threads'"
        )
    address = os.environ.get("RAY_ADDRESS", "auto")
    try:
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level="warning")
    except ConnectionError as e:
        if "RAY_ADDRESS" in os.environ:
            raise RayNotAvailableError(f"RAY_ADDRESS={address}: no Ray cluster answers there") from e
        ray.init(address="local", namespace=NAMESPACE, log_to_driver=False, include_dashboard=False)
    return True


def alive_nodes() -> int:
    """How many nodes of the cluster are alive."""
    return sum(bool(node["Alive"]) for node in ray.nodes())
