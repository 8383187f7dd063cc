"""Refuse the sessions and connections that cannot run a commit, with an error that shows what to do."""

from __future__ import annotations

from typing import Any

from ray_committer.errors import RayCommitterError

CONNECT_MODULE = "pyspark.sql.connect"


def require_driver(spark: Any) -> None:
    """`RayCommitterError` unless `spark` is a session in the process that drives its own JVM."""
    if _is_connect(spark):
        raise RayCommitterError(
            "this is a Spark Connect session (spark.remote, or a shared Databricks cluster): its driver "
            "is another process, which cannot call this one back for a commit; run "
            "ray_committer.spark.install in the driver's own Python, with a session from "
            "SparkSession.builder.master(...), or start the Connect server with "
            "ray_committer.spark.spark_conf(commit='spark') to keep Spark's committer"
        )
    if not hasattr(spark, "_jvm") or not hasattr(spark, "sparkContext"):
        kind = f"{type(spark).__module__}.{type(spark).__qualname__}"
        raise RayCommitterError(
            f"{kind}: is not a Spark session with a JVM that can call back; give "
            f"ray_committer.spark.install the session of the driver"
        )


def _is_connect(spark: Any) -> bool:
    """Decide by class names: the module cannot be imported where gRPC or PyArrow is missing."""
    return any(kind.__module__.startswith(CONNECT_MODULE) for kind in type(spark).__mro__)
