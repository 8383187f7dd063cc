"""What is installed: the version of this package, the same on all nodes of a commit, and Spark's jar."""

from __future__ import annotations

from pathlib import Path

from ray_committer.errors import SparkDriverError

__version__ = "0.1.0"

PROTOCOL_KEY = "spark.sql.sources.commitProtocolClass"
PROTOCOL_CLASS = "io.raycommitter.RayCommitProtocol"


def jar_path() -> str:
    """Return the jar that Spark's driver and executors load; it fits Scala 2.12 and 2.13."""
    jar = Path(__file__).parent / "spark" / "jars" / "ray-committer.jar"
    if not jar.is_file():
        raise SparkDriverError(
            f"{jar}: is missing",
            "build it with `python hatch_build.py` in a checkout, or install a wheel",
        )
    return str(jar)
