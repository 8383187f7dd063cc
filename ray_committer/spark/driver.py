"""What the driver must be for a commit to run from it: its session, and the jar that its JVM has loaded.

The jar can come from `spark.jars`, from the cluster's image, or from an earlier version of this package
in the same JVM: loaded classes stay.
"""

from __future__ import annotations

from typing import Any

from ray_committer.errors import SparkDriverError
from ray_committer.version import jar_path

CONNECT_MODULE = "pyspark.sql.connect"
JAR_PROTOCOL_VERSION = 8


def require_driver(spark: Any) -> None:
    """`SparkDriverError` unless `spark` is a session in the process that drives its own JVM."""
    if _is_connect(spark):
        raise SparkDriverError(
            "this is a Spark Connect session (spark.remote, or a shared Databricks cluster): its driver "
            "is another process, which cannot call this one back for a commit",
            "start the Connect server with the settings that `ray-committer spark-conf` prints, or run "
            "ray_committer.spark.install in the driver's own Python, with a session from "
            "SparkSession.builder.master(...)",
        )
    if not hasattr(spark, "_jvm") or not hasattr(spark, "sparkContext"):
        kind = f"{type(spark).__module__}.{type(spark).__qualname__}"
        raise SparkDriverError(
            f"{kind}: is not a Spark session with a JVM that can call back",
            "give ray_committer.spark.install the session of the driver",
        )


def _is_connect(spark: Any) -> bool:
    """Decide by class names: the module cannot be imported where gRPC or PyArrow is missing."""
    return any(kind.__module__.startswith(CONNECT_MODULE) for kind in type(spark).__mro__)


def require_own_version(jvm: Any) -> None:
    """Raise `SparkDriverError`, with the loaded jar and what to do, if the jar has another version."""
    version = _version(jvm.io.raycommitter.Bridge)
    if version == JAR_PROTOCOL_VERSION:
        return
    what = "has no protocol version" if version is None else f"has protocol version {version}"
    raise SparkDriverError(
        f"{_location(jvm)}: this ray-committer jar is loaded in the driver and {what}, but this package "
        f"needs version {JAR_PROTOCOL_VERSION}",
        f"remove it from spark.jars and from Spark's "
        f"jars, or give Spark {jar_path()} instead, and start a new driver",
    )


def _version(bridge: Any) -> int | None:
    """The protocol version of the jar; None if the jar is too old to have one."""
    from py4j.protocol import Py4JError

    try:
        return int(bridge.protocolVersion())
    except Py4JError:
        return None


def _location(jvm: Any) -> str:
    """The path that the jar was loaded from, or the class name if the JVM does not know the path."""
    loader = jvm.Thread.currentThread().getContextClassLoader()
    source = loader.loadClass("io.raycommitter.Bridge").getProtectionDomain().getCodeSource()
    return str(source.getLocation().getPath()) if source is not None else "io.raycommitter.Bridge"
