"""Spark: sessions whose file writes are committed by this package."""

from ray_committer.jar import jar_path
from ray_committer.spark.session import Installation, install, uninstall
from ray_committer.spark.settings import spark_conf

__all__ = ["Installation", "install", "jar_path", "spark_conf", "uninstall"]
