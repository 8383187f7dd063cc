"""Spark: sessions whose file writes are committed by this package."""

from ray_committer.jar import jar_path
from ray_committer.spark.session import Installation, install, spark_conf, uninstall

__all__ = ["Installation", "install", "jar_path", "spark_conf", "uninstall"]
