"""How each fenced block of README.md and docs/ is tried, or why it cannot be tried here.

A block that is in none of these tables fails `test_blocks.py`. A block runs as printed, but that
`SUBSTITUTIONS` stand for what a reader has and a test has not, such as a directory that all nodes mount.
"""

from __future__ import annotations

SHARED = "/shared"
"""The mounted directory of the pages; in the tests a scratch directory."""

PYTHON: dict[str, str | None] = {
    "README.md: Use 5": None,
}
"""Run by this Python, after a preparation of `test_blocks_run.py`."""

SHELL: dict[str, str | None] = {
    "README.md: Use 3": "recorded job",
}
"""Run by bash, after a preparation of `test_blocks_run.py`."""

CONTRACT = "docs/stores/README.md: Your own store"
"""Run by pytest, with a store of memory."""

RAY = ("README.md: Use 6", "docs/ray.md: Who does what", "docs/python_writers.md: Ray Data")
"""Run by `driver_of_blocks.py` on a Ray cluster, in this order."""

SPARK = (
    "docs/spark_settings.md: Settings of a Spark job",
    "README.md: Use",
    "README.md: Use 2",
    "README.md: Use 4",
    "docs/python_writers.md: Spark, by a function",
    "docs/python_writers.md: Spark 4, as a data source",
)
"""Run by `driver_of_blocks.py` in one Spark session beside a Ray cluster, in this order."""

JVM_DRIVERS = (
    "docs/jvm_drivers.md: In a child process",
    "docs/jvm_drivers.md: On a Ray cluster",
    "docs/jvm_drivers.md: Progress, answers and errors",
)
"""Run by bash with Spark's own programs on its PATH."""

SYNOPSES = ("docs/doctor.md: The doctor",)
"""Name options with brackets and stars around them; every option must be one of the command."""

OUTPUT = {
    "docs/spark.md: While it waits": "tests/report/test_heartbeat.py",
}
"""What a program prints, and the test that shows it."""

CI_ITSELF = "what CI runs"
NEEDS_REGISTRY = "installs from a registry; its extras are compared with pyproject.toml"
NEEDS_CLOUD = "needs an account"
TAKES_MINUTES = "takes minutes; its paths must exist"

NOT_RUN: dict[str, str] = {
    "README.md: Two commands": CI_ITSELF,
}
"""Cannot run here, and why."""
