"""Ray clusters on this machine; one of three raylets is for test modules that follow each other."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.servers.ports import free_ports

SECONDS_TO_END_ACTORS = 30.0
STARTS = 3
SECONDS_TO_EXEC = 10.0

_SYSTEM = {"agent_register_timeout_ms": 120_000}
"""Without it a raylet ends when one of its agents takes 30 seconds to answer."""

_HEAD = {"include_dashboard": False, "include_log_monitor": False}
"""No test looks at a dashboard of such a cluster, or at what workers log."""

_NOT_GIVEN = "dashboard_agent_listen_port"
_AGENT_PORTS = ("metrics_agent_port", "metrics_export_port", "runtime_env_agent_port", _NOT_GIVEN)

_LOG = logging.getLogger(__name__)


class Raylets:
    """A head of one CPU and two nodes of two, started when somebody connects."""

    def __init__(self) -> None:
        self._cluster: Any = None
        self.are_in_use = self._is_kept = False

    @contextmanager
    def connection(self, *, is_kept: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Connect this process for the length of a block; none of its actors outlives it.

        If `is_kept` says so at its end, the connection is kept for the next block: so that has workers
        that have imported Ray Data.
        """
        import ray

        if not (self._is_kept and ray.is_initialized()):
            self._connect()
        self.are_in_use, self._is_kept = True, False
        try:
            yield
        finally:
            self.are_in_use = False
            self._is_kept = is_kept() and ray.is_initialized() and not _actors()
            if not self._is_kept:
                ray.shutdown()
                _wait_for_actors_to_end()

    def _connect(self) -> None:
        import ray

        ray.shutdown()
        if self._cluster is None:
            self._cluster = start_cluster(
                {"num_cpus": 1},
                {"num_cpus": 2},
                {"num_cpus": 2},
                system={"metrics_report_interval_ms": 1_000},  # tests wait for them
            )
        try:
            ray.init(address=self._cluster.address, log_to_driver=False, namespace="ray_committer")
            self._cluster.wait_for_nodes()
        except BaseException:
            ray.shutdown()
            self.stop()  # the next module starts another
            raise

    def stop(self) -> None:
        """End the cluster, if there is one, and the connection to it."""
        if self._is_kept:
            import ray

            ray.shutdown()
            self._is_kept = False
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.shutdown()


def start_cluster(*nodes: dict[str, Any], system: dict[str, Any] | None = None) -> Any:
    """A `ray.cluster_utils.Cluster` of these nodes, the head first; whole, or none of it is left.

    Ray gives a node 30 seconds to start, and its ports may be taken meanwhile: it has a few tries.
    """
    for number in range(1, STARTS + 1):
        try:
            return _start(nodes, {**_SYSTEM, **(system or {})})
        except Exception:
            _LOG.exception("start %d of %d of a Ray cluster failed", number, STARTS)
            if number == STARTS:
                raise
    raise AssertionError("unreachable")


def add_node(cluster: Any, **node: Any) -> Any:
    """Add a node whose raylet does not wait for its agents, two Python programs that start.

    Otherwise it ends when one of them has not written its ports within 15 seconds, which no setting of
    Ray changes (ray-project/ray#65983), and all that Ray says is that the node timed out. A raylet waits
    for no port that it is given; the one that Ray does not give it is written here as its agent does.
    """
    import ray
    from ray._common.utils import get_default_ray_temp_dir

    if cluster.head_node is None:
        node["session_name"] = f"session_{datetime.now():%Y-%m-%d_%H-%M-%S_%f}_{os.getpid()}"
        session = Path(get_default_ray_temp_dir(), node["session_name"])
    else:
        session = Path(cluster.head_node.get_session_dir_path())
    given = dict(zip(_AGENT_PORTS, free_ports(len(_AGENT_PORTS)), strict=True))
    node_id = ray.NodeID.from_random().hex()
    session.mkdir(parents=True, exist_ok=True)
    (session / f"{_NOT_GIVEN}_{node_id}").write_text(str(given[_NOT_GIVEN]))
    return cluster.add_node(**given, env_vars={"RAY_OVERRIDE_NODE_ID_FOR_TESTING": node_id}, **node)


def _start(nodes: tuple[dict[str, Any], ...], system: dict[str, Any]) -> Any:
    from ray.cluster_utils import Cluster

    before, cluster = children(), Cluster()
    try:
        with _hanging_forks_end():
            for number, node in enumerate(nodes):
                of_the_head = {**_HEAD, "_system_config": system} if number == 0 else {}
                add_node(cluster, **of_the_head, **node)
    except BaseException:
        _LOG.warning("%s", _last_words(cluster))
        cluster.shutdown()
        _end(children() - before)  # of the node that was half started, which the cluster does not know
        raise
    return cluster


@contextmanager
def _hanging_forks_end() -> Iterator[None]:
    """Kill a child that is still this program after `SECONDS_TO_EXEC`; then the start has failed.

    Ray lets Python code run in a fork of this process, where it waits for ever for a lock that another
    thread held at that moment.
    """
    is_over = threading.Event()
    killed: list[int] = []

    def watch() -> None:
        since: dict[int, float] = {}
        while not is_over.wait(0.5):
            now = time.monotonic()
            since = {pid: since.get(pid, now) for pid in _forks()}
            for pid, first_seen in since.items():
                if now - first_seen >= SECONDS_TO_EXEC:
                    killed.append(pid)
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()
    if killed:  # Ray itself misses only what it waits for
        raise RuntimeError(f"processes {killed} did not get from fork to exec")


def _last_words(cluster: Any) -> str:
    """Why raylets ended: Ray itself says only that a node did not start in time."""
    if cluster.head_node is None:
        return "the head did not start"
    logs = Path(cluster.head_node.get_logs_dir_path())
    return "\n".join(f"{path}: {path.read_text()[:500]}" for path in sorted(logs.glob("raylet*.err")))


def children() -> set[int]:
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended has none
            found.update(map(int, path.read_text().split()))
    return found


def _forks() -> set[int]:
    """Children that have not become another program."""
    own, found = Path("/proc/self/cmdline").read_bytes(), set()
    for pid in children():
        with suppress(FileNotFoundError, ProcessLookupError):
            if Path(f"/proc/{pid}/cmdline").read_bytes() == own:
                found.add(pid)
    return found


def _end(children: set[int]) -> None:
    for pid in children:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _actors() -> list[int]:
    from tests.integration.ray.jobs import processes

    return [pid for name in ("CommitWorker", "CommitHost") for pid in processes(name)]


def _wait_for_actors_to_end() -> None:
    """Ray ends them on its own time; the next module must not take them for its own."""
    deadline = time.monotonic() + SECONDS_TO_END_ACTORS
    while left := _actors():
        if time.monotonic() > deadline:
            raise RuntimeError(f"actors outlived their driver: {left}")
        time.sleep(0.05)
