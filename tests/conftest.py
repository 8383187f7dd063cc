"""What all tests share: a destination, and jobs written to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

import ray_committer
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from tests.servers.ports import free_port

WriteJob = Callable[..., JobAttempt]

# All clusters of a test process and what joins them have one token. Ray reads the mode once a process,
# and `ray.init` sets it for local clusters alone; where cluster and driver differ, no actor starts.
os.environ["RAY_AUTH_MODE"] = "token"
os.environ["RAY_AUTH_TOKEN"] = "of-the-tests-" + "0" * 32

# Short-lived JVMs: an optimizing compiler takes two fifths of what they compute and repays nothing.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture
def store() -> LocalStore:
    return LocalStore(StoreSpec("file"))


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def write_job(dest: Path) -> WriteJob:
    """Set up a job and commit tasks: ``write_job({0: {"p=1/a": "text"}, 1: {...}})``."""

    def write(
        tasks: Mapping[int, Mapping[str, str]], *, job_id: str = "job_1", mark_success: bool = True
    ) -> JobAttempt:
        options = ray_committer.CommitOptions(mark_success=mark_success)
        ray_committer.setup_job(str(dest), job_id, options=options)
        for task, files in tasks.items():
            with ray_committer.task_attempt(str(dest), job_id, task) as attempt:
                for relative, text in files.items():
                    Path(attempt.path(relative)).write_text(text)
        return new_job_attempt(str(dest), job_id, 0)

    return write


@pytest.fixture
def tree(dest: Path) -> Callable[[], dict[str, str]]:
    """The visible files below the destination and their contents, without ``_SUCCESS``."""
    return lambda: visible_files(dest)


@pytest.fixture
def unprivileged() -> Iterator[None]:
    """Run as an ordinary user, since root ignores permissions."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def visible_files(root: Path) -> dict[str, str]:
    found = {}
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if path.is_file() and relative.parts[0] not in ("_temporary", "_SUCCESS"):
            found[str(relative)] = path.read_text()
    return found


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[None]:
    """A Ray cluster of three raylets on this machine, and this process connected to it.

    It ends with the module, since other tests in the same process need to be without Ray.
    """
    import ray
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "metrics_export_port": free_port()}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=2, metrics_export_port=free_port())
        ray.init(address=cluster.address, log_to_driver=False, namespace="ray_committer")
        cluster.wait_for_nodes()
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()
