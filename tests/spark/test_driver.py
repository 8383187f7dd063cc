"""Sessions without a JVM of their own are refused by name."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

from ray_committer.errors import SparkDriverError
from ray_committer.spark import install
from tests.servers.ports import free_port


def connect_session() -> Any:
    """A real session of Spark Connect, whose server nobody has asked for anything yet."""
    try:
        with warnings.catch_warnings():  # PySpark 3.5 compares versions by distutils
            warnings.simplefilter("ignore", DeprecationWarning)
            from pyspark.sql.connect.session import SparkSession
    except ImportError:
        # PyArrow or gRPC is missing: a class of the same module is all that can be had.
        kind = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
        return kind()
    return SparkSession.__new__(SparkSession)


def test_a_spark_connect_session_is_refused_by_name_with_what_to_do():
    with pytest.raises(SparkDriverError, match="this is a Spark Connect session") as caught:
        install(connect_session())
    assert "in the driver's own Python" in str(caught.value)


@pytest.mark.parametrize("thing", [None, object(), SimpleNamespace(_jvm=None)])
def test_what_is_no_session_at_all_is_named_by_its_class(thing: Any):
    with pytest.raises(SparkDriverError, match=r"\w+: is not a Spark session with a JVM"):
        install(thing)


CLIENT = """
import sys
import ray
import ray_committer
from ray._private.client_mode_hook import disable_client_hook
from ray.util.client import ray as client
from ray.util.client.server.server import serve
from ray_committer.executors.choose import reachable_ray
from ray_committer.spark.session import _require_ray

with disable_client_hook():
    ray.init(address="local", num_cpus=1, include_dashboard=False)
address, port = sys.argv[1].split(":")
server = serve(address, int(port), ray_connect_handler=lambda job_config, **options: None)
client._inside_client_test = True  # the server may be in this process
client.connect(sys.argv[1])
print("CONNECTED", ray.is_initialized(), reachable_ray())
for ask in (_require_ray, lambda: ray_committer.commit_pool().__enter__()):
    try:
        ask()
    except ray_committer.errors.RayCommitterError as e:
        print("REFUSED", e)
client.disconnect()
server.stop(0)
"""


@pytest.mark.wide
@pytest.mark.ray
@pytest.mark.timeout(180)
def test_a_connection_through_ray_client_is_refused_by_name_with_what_to_do():
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    finished = subprocess.run(
        [sys.executable, "-c", CLIENT, f"127.0.0.1:{free_port()}"],
        env={**environment, "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    said = [line for line in finished.stdout.splitlines() if line.startswith(("CONN", "REFUSED"))]
    assert said[0] == "CONNECTED True None"
    assert len(said) == 3, finished.stderr
    for line in said[1:]:
        assert "connected to Ray through Ray Client (ray://)" in line
        assert "ray.init(address='auto')" in line


def test_an_address_of_ray_client_is_refused_before_it_is_tried(monkeypatch: pytest.MonkeyPatch):
    from ray_committer.errors import RayNotAvailableError
    from ray_committer.executors.ray.cluster import Connection

    monkeypatch.setenv("RAY_ADDRESS", "ray://head.example:10001")
    with pytest.raises(RayNotAvailableError, match=r"ray://head\.example:10001 is an address"):
        Connection()
