"""The settings that a Spark driver needs so that this package commits its writes.

Two lines are enough if Python drives and calls `ray_committer.spark.install`: the jar and the commit
protocol. A driver without Python also needs to know which process commits. Nothing here downloads
anything: a connector's jar is the cluster's.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from ray_committer.errors import SettingsError
from ray_committer.options import COMMAND, COMMIT, EXECUTOR, SESSION_TOKEN
from ray_committer.stores.registry import resolve_destination
from ray_committer.version import PROTOCOL_CLASS, PROTOCOL_KEY, jar_path

CommitMode = Literal["ray", "deferred", "spark"]
DriverName = Literal["jvm", "pyspark"]
StoreName = Literal["file", "hdfs", "gs", "abfs", "s3"]

JAR_KEY = "spark.jars"
MODE_KEY = COMMIT.spark_key
EXECUTOR_KEY = EXECUTOR.spark_key
COMMAND_KEY = COMMAND.spark_key
SESSION_KEY = SESSION_TOKEN.spark_key
"""Names the session of a job. Spark's own log and UI hide the values of such keys."""

_SETTINGS: dict[str | None, dict[str, str]] = {
    "gs": {
        "spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS",
    },
    "s3": {"spark.hadoop.fs.s3a.committer.magic.enabled": "true"},
}


def spark_conf(commit: CommitMode = "ray", store: StoreName | None = None) -> dict[str, str]:
    """Return the settings for a session builder or for RayDP's ``configs``; then also call `install`.

    Until you call `install`, writes fail when their job is set up, before any task runs. With
    ``commit="spark"`` Spark's own committer is used. `store` adds the settings that tasks need to write
    to that store; it downloads nothing.
    """
    common = {JAR_KEY: jar_path(), PROTOCOL_KEY: PROTOCOL_CLASS, MODE_KEY: commit}
    return common | store_settings(store)


def driver_conf(
    dest: str | None = None,
    *,
    driver: DriverName = "jvm",
    executor: str = "auto",
    commit: str = "ray",
    command: str | None = None,
) -> dict[str, str]:
    """Return the settings of a driver that writes to `dest`, in a readable order. A driver without
    Python starts `command`. `StoreRefusedError` if the store is not supported."""
    conf = {JAR_KEY: jar_path(), PROTOCOL_KEY: PROTOCOL_CLASS}
    if commit != "ray":
        conf[MODE_KEY] = commit
    if driver == "jvm" and command is not None:
        conf[COMMAND_KEY] = command
    if executor != "auto":
        conf[EXECUTOR_KEY] = executor
    return conf | (store_settings(_store(dest)) if dest is not None else {})


def store_settings(store: StoreName | None) -> dict[str, str]:
    """Return the settings of one store; for `None` no settings, because Spark's own are right."""
    known = get_args(StoreName)
    if store is not None and store not in known:
        raise SettingsError(f"store={store!r}: must be one of {', '.join(known)}")
    return dict(_SETTINGS.get(store, {}))


def _store(dest: str) -> StoreName | None:
    name: Any = resolve_destination(dest)[0].scheme
    store: StoreName | None = name if name in get_args(StoreName) else None
    return store
