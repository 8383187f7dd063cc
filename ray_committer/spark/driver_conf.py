"""The settings that a driver needs so that its writes are committed here, for a configuration file.

Two lines are enough where Python drives and calls `ray_committer.spark.install`: the jar and the commit
protocol. A driver without Python is also told who commits.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from ray_committer.jar import PROTOCOL_CLASS, PROTOCOL_KEY, jar_path
from ray_committer.spark.job_options import EXECUTOR_KEY
from ray_committer.spark.session import MODE_KEY
from ray_committer.spark.store_settings import StoreName, store_settings
from ray_committer.stores.registry import resolve_destination

DriverName = Literal["jvm", "pyspark"]

JAR_KEY = "spark.jars"
COMMAND_KEY = "spark.ray_committer.command"
JOBS_KEY = "spark.ray_committer.jobs.address"


def driver_conf(
    dest: str | None = None,
    *,
    driver: DriverName = "jvm",
    executor: str = "auto",
    commit: str = "ray",
    command: str | None = None,
    jobs_address: str | None = None,
) -> dict[str, str]:
    """The settings of a driver that writes to `dest`, in the order in which they are best read.

    A driver without Python starts `command`, or hands its commits to the Ray cluster whose dashboard is
    at `jobs_address`. `StoreRefusedError` if `dest` is on a store that cannot be committed to.
    """
    conf = {JAR_KEY: jar_path(), PROTOCOL_KEY: PROTOCOL_CLASS}
    if commit != "ray":
        conf[MODE_KEY] = commit
    if driver == "jvm" and jobs_address is not None:
        conf[JOBS_KEY] = jobs_address
    elif driver == "jvm" and command is not None:
        conf[COMMAND_KEY] = command
    if executor != "auto":
        conf[EXECUTOR_KEY] = executor
    return conf | (store_settings(_store(dest)) if dest is not None else {})


def _store(dest: str) -> StoreName | None:
    name: Any = resolve_destination(dest)[0].scheme
    store: StoreName | None = name if name in get_args(StoreName) else None
    return store
