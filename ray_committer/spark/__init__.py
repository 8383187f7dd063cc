"""Spark: sessions whose file writes are committed by this package."""

from ray_committer.spark.session import Installation, install, uninstall
from ray_committer.spark.settings import spark_conf
from ray_committer.version import jar_path

__all__ = ["Installation", "install", "jar_path", "spark_conf", "uninstall"]
