"""The settings that tasks need to write to a store, for a session builder.

Nothing here downloads anything: the cluster must have the connector's jar.
"""

from __future__ import annotations

from typing import Literal

from ray_committer.errors import SettingsError

StoreName = Literal["file", "hdfs", "gs", "abfs"]

_SETTINGS: dict[str, dict[str, str]] = {
    "file": {},
    "hdfs": {},
    "gs": {
        "spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS",
    },
    "abfs": {},
}


def store_settings(store: StoreName | None) -> dict[str, str]:
    """Return the settings of one store; for `None` no settings, because Spark's own are right."""
    if store is None:
        return {}
    if store not in _SETTINGS:
        raise SettingsError(f"store={store!r}: must be one of {', '.join(_SETTINGS)}")
    return dict(_SETTINGS[store])
