"""The settings that make this package commit a Spark driver's writes, for a configuration file.

A Python driver that calls `ray_committer.spark.install` needs two lines: the jar and the commit
protocol. A driver without Python also needs to know which command or Ray cluster commits.
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
    """Return the settings of a driver that writes to `dest`, in a readable order.

    A driver without Python starts `command`, or sends its commits to the Ray cluster whose dashboard is
    at `jobs_address`. `StoreRefusedError` if the store of `dest` is not supported.
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
