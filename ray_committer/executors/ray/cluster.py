"""Connect to a Ray cluster; none is started."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
import ray.util.client
from ray._private.worker import get_dashboard_url  # the only source if another process started Ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ray_committer.errors import RayLostError, RayNotAvailableError
from ray_committer.version import __version__

Actor = Any  # type: ignore[explicit-any]
"""The handle of an actor: each method of its class has ``remote`` and ``options``."""
Method = Any  # type: ignore[explicit-any]
"""A method of such a handle."""
Ref = Any  # type: ignore[explicit-any]
"""The reference to the result of a call."""
Fetched = Any  # type: ignore[explicit-any]
"""The value of a reference; its type is not known."""

NAMESPACE = "ray_committer"
CLIENT_SCHEME = "ray://"

WORKER_START_SECONDS = 60.0
"""How long to wait for an actor to start; a node that joins the cluster takes longer."""

_CONNECT_SECONDS = 5.0

_lock = threading.Lock()
_users = 0


class Connection:
    """A use of this process's connection to Ray: the present one, else one to the cluster of
    ``RAY_ADDRESS``, else to one on this machine. `RayNotAvailableError` if there is no cluster."""

    def __init__(self) -> None:
        global _users
        refuse_client()
        with _lock:
            # Counted, since commits in several threads share the connection: the last one shuts it down.
            # Not one that was there before.
            self._is_counted = not ray.is_initialized() or _users > 0
            if not ray.is_initialized():
                _join()
            _users += self._is_counted

    def close(self) -> None:
        """End the connection after its last use, unless it was there before; idempotent."""
        global _users
        with _lock:
            was_counted, self._is_counted = self._is_counted, False
            _users -= was_counted
            if was_counted and not _users:
                ray.shutdown()


def refuse_client() -> None:
    """Raise `RayNotAvailableError` if Ray is, or would be, reached through Ray Client: its proxy does
    not know the driver's node, and does not end the actors with the driver."""
    address = os.environ.get("RAY_ADDRESS", "")
    if ray.util.client.ray.is_connected():
        reached = "this process is connected to Ray through Ray Client (ray://)"
    elif not ray.is_initialized() and address.startswith(CLIENT_SCHEME):
        reached = f"RAY_ADDRESS={address} is an address of Ray Client"
    else:
        return
    raise RayNotAvailableError(
        f"{reached}, which commits do not support",
        "run this program on a node of the cluster with "
        "ray.init(address='auto'), or with `ray job submit`, or commit without Ray "
        "(executor='threads', or commit='deferred' and `ray-committer commit` in the cluster)",
    )


def _refuse_dead(address: str) -> None:
    """Raise `RayNotAvailableError` if nothing listens at `address`: Ray itself tries for minutes."""
    host, _, port = address.rpartition(":")
    if not host or "://" in host or not port.isdigit():
        return
    try:
        # Brackets: an IPv6 address.
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except OSError as e:
        raise RayNotAvailableError(f"RAY_ADDRESS={address}: no Ray cluster answers there ({e})") from e


def _join() -> None:
    address = os.environ.get("RAY_ADDRESS", "auto")
    _refuse_dead(address)
    try:
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level="warning")
    except ConnectionError as e:
        if "RAY_ADDRESS" in os.environ:
            raise RayNotAvailableError(f"RAY_ADDRESS={address}: no Ray cluster answers there") from e
        raise RayNotAvailableError(
            "this process is not connected to Ray, and no Ray cluster runs on this machine",
            "call ray.init() before the commit, set RAY_ADDRESS, or use executor='threads'",
        ) from e
    except RuntimeError as e:
        raise RayNotAvailableError(f"{address}: this Ray cluster cannot be joined: {e}") from e


@contextmanager
def calls() -> Iterator[None]:
    """Wrap calls to Ray: a failure is raised as one of our errors, one of the work unchanged, and no Ray
    is started, as the first call after ``ray.shutdown()`` would do."""
    if not ray.is_initialized():
        raise RayLostError(
            "Ray was shut down while the commit ran", "connect to it again and run the same command"
        )
    try:
        yield
    except RayTaskError as e:
        _refuse_if_lacking(e)
        # The work's own error, without Ray's wrapping: callers choose by its class what to do.
        raise e.cause from None
    except RayError as e:
        _refuse_if_lacking(e)
        raise RayLostError(
            f"Ray failed while the commit ran ({e})", "fix the cluster and run the same command"
        ) from e


def _refuse_if_lacking(error: RayError) -> None:
    """Raise `RayNotAvailableError` if a node could not import this package."""
    if "No module named 'ray_committer" in str(error):
        raise RayNotAvailableError(
            f"a node of this Ray cluster lacks the package ray-committer {__version__}",
            "install it on all nodes, or pass it to ray.init in runtime_env (py_modules)",
        ) from error


def worker_nodes() -> list[str]:
    """Return the ids of the nodes that are alive and have CPUs."""
    return [
        node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) > 0
    ]


def dashboard_url() -> str:
    """Return the URL at which the cluster's dashboard shows this driver's job; empty if it has none."""
    address = get_dashboard_url()
    return f"http://{address}/#/jobs/{ray.get_runtime_context().get_job_id()}" if address else ""


def near(node_id: str) -> NodeAffinitySchedulingStrategy:
    """Return the strategy for a place on this node, or elsewhere if it has no room or is gone."""
    return NodeAffinitySchedulingStrategy(node_id=node_id, soft=True)


def on_drivers_node() -> NodeAffinitySchedulingStrategy:
    """Return the strategy for the driver's node only. Ray was seen to move actors without CPUs away."""
    node_id = ray.get_runtime_context().get_node_id()
    return NodeAffinitySchedulingStrategy(node_id=node_id, soft=False)
